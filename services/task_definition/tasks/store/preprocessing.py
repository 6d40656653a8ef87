"""The unit of a task's pre-processing job, what the job returned, and the columns that follow from it.

Each function runs in the caller's transaction, with the task's row locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.task_definition.tasks.store.tasks import TaskRow
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states import DATASET, Owner

SQL = Queries.beside(__file__)
_OWNER = Owner.TASK_DEFINITION


async def insert_unit(work: UnitOfWork, task: TaskRow, dataset_id: int) -> None:
    """Add one unit of no data, tried as often as other input of the task; its dataset becomes ready."""
    await SQL.run(
        work.connection, "insert_unit", task_id=task.task_id, dataset_id=dataset_id, max_attempt=task.max_attempt,
        max_failure=task.max_failure, allowed=DATASET.sources("ready", _OWNER),
    )  # fmt: skip


async def take_result(work: UnitOfWork, task_id: int) -> Any:
    """Take the metadata that the job reported, once: they are forgotten; None where there are none."""
    return await SQL.value(work.connection, "take_result", task_id=task_id)


async def has_result(work: UnitOfWork, task_id: int) -> bool:
    """Tell whether the job succeeded and the task was not refined with what it returned."""
    return bool(await SQL.value(work.connection, "has_result", task_id=task_id))


async def take_out_unit(work: UnitOfWork, task_id: int) -> None:
    """Take the unit out of the task's work, whose counters begin now."""
    reason = "its pre-processing is done: the unit leaves the task"
    await work.because(reason)
    allowed = DATASET.sources("removed", _OWNER)
    rows = await SQL.rows(work.connection, "take_out_unit", task_id=task_id, allowed=allowed)
    await work.log_files(
        entity="file", task_id=task_id, ids=[row["file_id"] for row in rows], from_status="finished",
        to_status="lost", reason=reason,
    )  # fmt: skip


async def change(work: UnitOfWork, task_id: int, parameters: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
    """Store other parameters, and the columns that follow from them."""
    await SQL.run(
        work.connection, "change_definition", task_id=task_id, parameters=dict(parameters), columns=dict(columns)
    )
