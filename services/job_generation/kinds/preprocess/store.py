"""The unit that the pre-processing job of a task works on, how far it is, and what the job returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.file import FileStatus

SQL = Queries.beside(__file__)


@dataclass(frozen=True)
class PreprocessUnit:
    """`ram_mb`: what its memory was raised to; None: the task's."""

    file_id: int
    dataset_id: int
    status: FileStatus
    ram_mb: int | None
    n_attempts: int


async def unit_of_task(work: UnitOfWork, task_id: int) -> PreprocessUnit | None:
    """The unit, or None if the task has none."""
    row = await SQL.row(work.connection, "preprocess_unit", task_id=task_id)
    return None if row is None else PreprocessUnit(**dict(row))


async def note_state(work: UnitOfWork, task_id: int, state: int) -> None:
    """How far it is: 2 its job was made, 3 done (JEDI: split rule UP)."""
    await SQL.run(work.connection, "note_state", task_id=task_id, state=state)


async def keep_result(work: UnitOfWork, task_id: int, job_id: int, returned: Mapping[str, Any]) -> None:
    """What the job returned, for the definition of its task."""
    await SQL.run(work.connection, "keep_result", task_id=task_id, job_id=job_id, returned=dict(returned))
