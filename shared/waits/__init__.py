"""Tasks that wait, and what wakes them before their longest wait is over.

A task that no queue or nucleus takes, or whose share has enough queued, keeps a row in `waits` with the causes that
held it. Who decides about the task owns the row: job_brokerage (kind `queue`), task_brokerage (`nucleus`) and
job_generation (`share`). The same service sees what lifts a cause, asks its index and wakes by compare-and-set, so that
replicas wake a task once. `tasks.woken` tells the watchdog, which releases the tasks.

=============  ============================================================================================
`causes`       what held a task, from a decision; its packed form
`index`        waiting tasks by cause, in the order share, priority, age; who may go on for so much room
`store`        the rows
`replicas`     tasks whose input has been given a copy
`patience`     who waits although a queue has room
`wide`         what lifts checks of many tasks at once: they go on in slices
`waker`        reads what changed, asks for a plan, wakes; one replica at a time, woken rows count as room taken
=============  ============================================================================================
"""
