"""Build jobs: a task's sources are compiled once for each site, and its other jobs wait for that."""
