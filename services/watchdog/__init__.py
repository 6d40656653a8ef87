"""Watchdog: everything that happens because time passed, or because it need not.

Consumes: tasks.woken (waiting tasks go on before their time); receives config.changed. Emits: jobs.expired;
task.released, task.completed (exhausted), task.command_requested, task.order_requested, task.site_requested; and, in
the reconciling sweep, again the events of rows whose event seems to be lost (`sweeping`). Owns: pending -> what it came
from | exhausted and throttled of tasks; failed and closed of jobs whose time is over or whose queue has too many;
`frozen_time`, `throttled_time`, `num_throttled`; the tables watch_runs, sweep_marks, timeout_rules, task_deadlines,
overloads, empty_queues, preassigned_tasks, passed_over and retention_*.

=============  ====================================================================================================
`acting`       actions: name, period and work of each; what it found and did
`handlers`     tasks whose time has come or is over; production throttled by its attempts (`policy/tasks.py`)
`expiring`     jobs whose time is over, and those of queues that have too many
`sweeping`     events that seem to be lost, said again
`filling`      production sent to queues that are nearly empty
`hurrying`     analysis that is nearly done, tasks that would end later than they are wanted
`withholding`  production whose input is beside busy queues alone
`pausing`      production of which too many jobs fail, analysis of which too much runs or is moved
`retaining`    what is older than a rule of retention says, dropped
`diagnosing`   the condition of the system: what is away, stuck, slow and large
`checking`     the invariants, as SQL
=============  ====================================================================================================

`policy/` has the tables: waits of tasks, thresholds of fast rebrokerage, the grace after an outage of our own, the
rules of retention; what is wrong with time-out rules that a VO adds. The rules themselves are in `shared.timeouts`.
HTTP: the invariants (`/api/v1/check`), messages put aside (`/api/v1/bus/...`), who did what (`/api/v1/audit`), what is
dropped next (`/api/v1/retention`), time-out rules (`/api/v1/timeout/...`), actions (`/api/v1/watchdog/...`).
"""
