"""A task from its form to its end.

=================  ==============================================================================================
`submitting`       a form is checked whole and stored, or every problem is named; series that submit themselves
`defining`         registered -> defined -> assigning or ready: datasets and files are found
`staging`          input on tape is brought to disk
`commanding`       kill, finish, retry, ... from people and from other services
`completing`       progress, final statuses, children; `closing`: datasets; `comparing`: outputs against the catalogue
`hastening`        production near its end is hurried
`placing`          a task goes to one queue for a while, as the queue filler asks
`notifying`        owners are told by mail what became of their tasks
`reclassifying`    share, class of work and work queue are found again
`explaining`       why a task or a job waits; `queue_explaining`: why a queue has the work that it has
`announcing`       the service that goes on with a task is told of its state
=================  ==============================================================================================
"""
