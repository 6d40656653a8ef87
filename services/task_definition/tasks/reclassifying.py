"""Finds class of work, share and work queue of a task again when what they depend on has changed."""

from __future__ import annotations

from services.task_definition.tasks.policy.classes import Classes, classes_of
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.store.classes import SQL
from services.task_definition.tasks.store.tasks import TaskStore
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommanded, TaskMeasured


class Reclassifying:
    """Its new jobs are of the new class; its waiting jobs follow into a new share (job_dispatch)."""

    def __init__(self, tasks: TaskStore) -> None:
        self._tasks = tasks

    async def on_task_measured(self, event: TaskMeasured, work: UnitOfWork) -> None:
        if await self._tasks.lock(work.connection, event.task_id) is not None:
            await self.again(work, event.task_id)

    async def again(self, work: UnitOfWork, task_id: int) -> None:
        """The row of the task is locked."""
        row = await SQL.one(work.connection, "classified_task", task_id=task_id)
        try:
            spec = parse_task(await self._tasks.parameters(work.connection, task_id))
        except InvalidTask:  # of an older version of the table of parameters: it stays what it is
            return
        found = classes_of(spec, dict(row), await self._tasks.sharing(work.connection))
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
