"""Dry runs of brokerage: the services' own policies on a world file and a task file, without servers.

====================  ===================================================================
`changes`             `--set` and `--queue`: what if a parameter or a queue were different
`world_of_file`       the world of a world file; `parameters_of_file` its parameters
`rows`                a task file as the rows that the services read from the database
`deciding`            rows and world to a decision, by the same functions as in the services
`document`            a decision as one JSON document
`splitting`           the jobs of a task's first chunk
`shares`              the order of shares; `task_queues` that of task queues
====================  ===================================================================
"""
