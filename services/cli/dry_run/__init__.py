"""Dry runs of brokerage: the services' own policies on a world file and a task file, without servers.

===========  ============================================================================
`changes`    `--set` and `--queue`: what if a parameter or a queue were different
`rows`       a task file as the rows that the services read from the database
`deciding`   rows and world to a decision, by the same functions as in the services
===========  ============================================================================
"""
