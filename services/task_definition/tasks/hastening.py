"""Hurries production tasks near their end: priority 900 and the share Express.

Their waiting jobs follow; a retry takes it back. Source: JEDI: Automatic priority boosting.
"""

from __future__ import annotations

from services.task_definition.tasks.policy import hastening as policy
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.ends import SQL
from services.task_definition.tasks.store.tasks import TaskRow
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommanded, TaskProgressed
from shared.model.analysis import is_analysis


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
    await SQL.run(work.connection, "hasten_task", task_id=task.task_id, priority=policy.PRIORITY, gshare=gshare)
    await work.log_files(
        entity="order",
        task_id=task.task_id,
        ids=[task.task_id],
        from_status=f"priority {task.current_priority}, share {task.gshare}",
        to_status=f"priority {max(task.current_priority, policy.PRIORITY)}, share {gshare}",
        reason=policy.told(progress.files_total, ended, progress.live_jobs),
    )
    if not is_raised:
        work.emit(TaskCommanded(task_id=task.task_id, command="change_priority", status=task.status))
    if gshare != task.gshare:
        work.emit(TaskCommanded(task_id=task.task_id, command="change_share", status=task.status))
