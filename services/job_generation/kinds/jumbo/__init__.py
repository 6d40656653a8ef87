"""Jumbo jobs take ranges of all job sets of a task (JEDI: Jumbo jobs and co-jumbo jobs)."""
