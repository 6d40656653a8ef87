"""What stops the definition of a task: it waits in pending or for tapes, or is broken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from services.task_definition.parameters import INPUT_CHECKED_FOR_DAYS, WAIT_FOR_PENDING_S
from services.task_definition.tasks.policy.definition_plan import usual_wait_s
from services.task_definition.tasks.store import definitions as store_definitions
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCompleted

DAY_S = 86_400.0


async def hold(
    work: UnitOfWork, task: TaskRow, reason: str, parameters: Parameters, dataset_ids: Sequence[int] = (), *,
    wait_s: float | None = None,
) -> None:  # fmt: skip
    """Let the task wait in pending, as usual or so long, and put off the datasets that it waits for."""
    if wait_s is None:
        wait_s = parameters.read(WAIT_FOR_PENDING_S)
    if wait_s is None:
        wait_s = usual_wait_s(task.current_priority)
    await store_definitions.put_off(work, list(dataset_ids), reason, checked_for_s=checked_for_s(parameters))
    await store.move(
        work, task.task_id, "pending", reason, sources=[task.status], old_status=task.status, error_dialog=reason,
        retry_at=work.now + timedelta(seconds=wait_s),
    )  # fmt: skip


async def stage(
    work: UnitOfWork, task: TaskRow, reason: str, parameters: Parameters, dataset_ids: Sequence[int]
) -> None:
    """Let the task wait in staging until the catalogue has some of its input on disk."""
    await store_definitions.put_off(work, list(dataset_ids), reason, checked_for_s=checked_for_s(parameters))
    await store.move(work, task.task_id, "staging", reason, sources=["defined"], error_dialog=reason)


async def give_up(work: UnitOfWork, task: TaskRow, reason: str, dataset_ids: Sequence[int] = ()) -> None:
    """Move to tobroken and, as nothing is left to clean up, broken; with the datasets that break it."""
    if not await store.move(work, task.task_id, "tobroken", reason, sources=[task.status], error_dialog=reason):
        return
    await store.move(work, task.task_id, "broken", reason, error_dialog=reason)
    await store.note_end(work, task.task_id)
    await store_definitions.give_up(work, task.task_id, list(dataset_ids), reason)
    work.emit(TaskCompleted(task_id=task.task_id, status="broken"))


def checked_for_s(parameters: Parameters) -> float:
    """How long input is looked at again."""
    return parameters.read(INPUT_CHECKED_FOR_DAYS) * DAY_S
