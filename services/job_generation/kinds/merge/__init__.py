"""Merge jobs: unmerged outputs wait by queue, are offered in groups, and end the jobs that wrote them."""
