"""A reassigned task goes on where it was sent to."""

from __future__ import annotations

from services.task_definition.tasks.announcing import emit_for_status
from services.task_definition.tasks.policy.commands import reassigned_status
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.db.unit_of_work import UnitOfWork
from shared.states.task import TaskStatus


async def leave_reassigning(work: UnitOfWork, task: TaskRow, reason: str, *, has_target: bool) -> TaskStatus | None:
    """The state that the task has now; None if it is reassigning no more.

    One that waited for its definition waits on, and is looked at now.
    """
    target = reassigned_status(task.old_status, has_target=has_target)
    waits = target == "pending"
    moved = await store.move(
        work,
        task.task_id,
        target,
        reason,
        sources=["reassigning"],
        old_status=task.old_status if waits else None,
        retry_at=work.now if waits else None,
    )
    return target if moved else None


def tell_reassigned(work: UnitOfWork, task: TaskRow, target: TaskStatus, reason: str) -> None:
    """Wake who goes on with it; the watchdog finds a pending task by its time."""
    if target != "pending":
        emit_for_status(work, task.task_id, target, reason, nucleus=task.nucleus)
