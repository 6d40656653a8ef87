"""Tells the service that goes on with a task what state the task is in now."""

from __future__ import annotations

from services.task_definition.tasks.store import tasks as store
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskDefined, TaskPrepared, TaskReady, TaskRegistered, TaskReleased
from shared.states.task import TaskStatus


async def staged(work: UnitOfWork, task_id: int, reason: str) -> None:
    """A task that waits for tapes reads its input again."""
    if await store.move(work, task_id, "staged", reason, sources=["staging"]):
        emit_for_status(work, task_id, "staged", reason)


def emit_for_status(
    work: UnitOfWork, task_id: int, status: TaskStatus, reason: str, *, nucleus: str | None = None
) -> None:
    """Wake the service that goes on with a task in this state."""
    if status in ("registered", "defined", "rerefine", "staged"):
        work.emit(TaskRegistered(task_id=task_id))
    elif status == "assigning":
        work.emit(TaskDefined(task_id=task_id))
    elif status == "ready":
        work.emit(TaskReady(task_id=task_id, nucleus=nucleus))
    elif status == "prepared":
        work.emit(TaskPrepared(task_id=task_id))
    else:
        work.emit(TaskReleased(task_id=task_id, status=status, reason=reason, released_at=work.now))
