"""Event service: events of a file go to several jobs in ranges, and are merged at the end."""
