"""Task brokerage: a task to its nucleus, or the reasons why it has to wait.

Consumes `task.defined` and `task.released` (of tasks that are assigning); `task.ready`, `task.progressed` and
`task.completed` for the work that nuclei still have. Emits `task.ready`, and `tasks.woken` when what held tasks without
a nucleus has changed. Owns the transition assigning -> ready, the columns nucleus, retry_at and error_dialog of
assigning tasks, the tables task_remaining_work and nucleus_remaining_work, and its rows of brokerage_decisions and
waits. A task without a nucleus stays assigning; the
watchdog brings it back at `retry_at`, or when it is woken.

=============  ============================================================================================
`policy`       the plugins: production and an example of another VO; nuclei as columns, checks, weights; `request`,
               a task's row as the value that they read
`handlers`     load, decide, commit
`waking`       which tasks are looked at again before their time
=============  ============================================================================================
"""
