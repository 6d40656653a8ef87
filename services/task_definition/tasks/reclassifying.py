"""Finds class of work, share and work queue of a task again when what they depend on has changed."""

from __future__ import annotations

from services.task_definition.tasks.policy.classes import Classes, classes_of
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.classes import SQL
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommanded, TaskMeasured


async def on_task_measured(event: TaskMeasured, work: UnitOfWork) -> None:
    if await store.lock(work, event.task_id) is not None:
        await reclassify(work, event.task_id)


async def reclassify(work: UnitOfWork, task_id: int) -> None:
    """Find them for a task whose row is locked.

    Its new jobs are of the new class; its waiting jobs follow into a new share (job_dispatch).
    """
    row = await SQL.one(work.connection, "classified_task", task_id=task_id)
    try:
        spec = parse_task(await store.parameters(work.connection, task_id))
    except InvalidTask:  # of an older version of the table of parameters: it stays what it is
        return
    found = classes_of(spec, dict(row), await store.sharing(work.connection))
    if found == Classes(row["resource_type"], row["gshare"], row["work_queue_id"]):
        return
    await SQL.run(
        work.connection,
        "reclassify_task",
        task_id=task_id,
        resource_type=found.resource_type,
        gshare=found.gshare,
        work_queue_id=found.work_queue_id,
    )
    if found.gshare != row["gshare"]:
        work.emit(TaskCommanded(task_id=task_id, command="change_share", status=row["status"]))
