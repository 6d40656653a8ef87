"""Hurries production near its end, and other tasks as services ask for.

Production gets priority 900 and the share Express.

Their waiting jobs follow; a retry takes it back. Source: JEDI: Automatic priority boosting.
"""

from __future__ import annotations

from services.task_definition.tasks.policy import hastening as policy
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.ends import SQL
from services.task_definition.tasks.store.tasks import TaskRow
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommanded, TaskOrderRequested, TaskProgressed
from shared.model.analysis import is_analysis
from shared.states.task import FINAL
from shared.task.stored import named


async def hasten(work: UnitOfWork, task: TaskRow, progress: TaskProgressed) -> None:
    """Raise a task that made progress and is near its end; one that is raised already is left alone.

    Its row is locked.
    """
    ended = progress.files_finished + progress.files_failed
    if is_analysis(task.task_type, task.prod_source_label) or not policy.is_near_its_end(
        task.status, progress.files_total, ended, progress.live_jobs, task.rules
    ):
        return
    nodes = (await store.sharing(work.connection)).nodes
    gshare = policy.express_share(nodes, task.vo) or task.gshare
    is_raised = task.current_priority >= policy.PRIORITY
    if is_raised and gshare == task.gshare:
        return
    parent = None if task.parent_id is None else await store.status(work.connection, task.parent_id)
    if parent not in policy.COMPLETED:
        return
    await _raise(work, task, policy.PRIORITY, gshare, policy.told(progress.files_total, ended, progress.live_jobs))


async def on_task_order_requested(event: TaskOrderRequested, work: UnitOfWork) -> None:
    """Give a task the priority, share or longest walltime that another service asks for.

    A task that ended meanwhile, or a share that is no leaf, changes nothing.
    """
    task = await store.lock(work, event.task_id)
    if task is None or task.status in FINAL:
        return
    gshare = task.gshare
    if event.gshare is not None:
        gshare = event.gshare if policy.is_leaf((await store.sharing(work.connection)).nodes, event.gshare) else gshare
    if event.max_walltime_h is not None:
        rule = named(max_walltime_h=event.max_walltime_h)
        await SQL.run(work.connection, "change_rules", task_id=task.task_id, rules=rule)
    priority = task.current_priority if event.priority is None else event.priority
    if priority > task.current_priority or gshare != task.gshare:
        await _raise(work, task, priority, gshare, event.reason)


async def _raise(work: UnitOfWork, task: TaskRow, priority: int, gshare: str | None, reason: str) -> None:
    """Raise priority and share, note why, and let waiting jobs follow."""
    await SQL.run(work.connection, "hasten_task", task_id=task.task_id, priority=priority, gshare=gshare)
    await work.log_files(
        entity="order",
        task_id=task.task_id,
        ids=[task.task_id],
        from_status=f"priority {task.current_priority}, share {task.gshare}",
        to_status=f"priority {max(task.current_priority, priority)}, share {gshare}",
        reason=reason,
    )
    if priority > task.current_priority:
        work.emit(TaskCommanded(task_id=task.task_id, command="change_priority", status=task.status))
    if gshare != task.gshare:
        work.emit(TaskCommanded(task_id=task.task_id, command="change_share", status=task.status))
