"""What scout jobs of a task came to, and what was measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from services.job_generation.store import counters as store_counters
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import LIVE

SQL = Queries.beside(__file__)


async def progress(work: UnitOfWork, task_id: int) -> asyncpg.Record:
    """How many scouts and their files ended well, live, or failed."""
    return await SQL.one(work.connection, "scout_progress", task_id=task_id, live=list(LIVE))


async def reports(work: UnitOfWork, task_id: int) -> list[asyncpg.Record]:
    """The reports of scouts that ended well, with the input that each read."""
    return await SQL.rows(work.connection, "scout_reports", task_id=task_id)


async def keep_measured(
    work: UnitOfWork, task_id: int, measured_units: Sequence[str], columns: Mapping[str, Any]
) -> None:
    """Write what was measured into the task's row; a column that is None stays as it is."""
    await SQL.run(
        work.connection, "store_measured", task_id=task_id, measured_units=list(measured_units), **dict(columns)
    )


async def broken_files(work: UnitOfWork, dataset_ids: Sequence[int]) -> int:
    """How many files of these datasets jobs found corrupted."""
    return int(await SQL.value(work.connection, "broken_files", dataset_ids=list(dataset_ids)))


async def reports_of_ended_jobs(work: UnitOfWork, task_id: int, *, merge: bool = False) -> list[asyncpg.Record]:
    """The reports of up to 1000 jobs that finished, with the input of each: merge jobs, or all others."""
    return await SQL.rows(work.connection, "reports_of_ended_jobs", task_id=task_id, merge=merge)


async def rest_of_input(work: UnitOfWork, task_id: int, dataset_ids: Sequence[int]) -> tuple[int, int | None]:
    """Files and events that no job has taken; None where the events are not known."""
    row = await SQL.one(work.connection, "rest_of_input", task_id=task_id, dataset_ids=list(dataset_ids))
    return row["n_files"] or 0, row["n_events"]


async def is_measured_again(work: UnitOfWork, task_id: int) -> bool:
    """Whether as many jobs of the task have finished as its needs are measured again after."""
    return bool(await SQL.value(work.connection, "is_measured_again", task_id=task_id))


async def ask_to_measure_again(work: UnitOfWork, task_id: int, n_more: int) -> None:
    """Measure the task's needs again when so many more of its jobs have finished."""
    await store_counters.lock_datasets(work, [task_id])  # who counts takes them first, too
    await SQL.run(work.connection, "ask_to_measure_again", task_id=task_id, n_more=n_more)


async def was_measured_again(work: UnitOfWork, task_id: int) -> None:
    """Not again, until something asks for it."""
    await store_counters.lock_datasets(work, [task_id])
    await SQL.run(work.connection, "was_measured_again", task_id=task_id)


async def set_resource_type(work: UnitOfWork, task_id: int, resource_type: str) -> None:
    """What the task is with the memory that was measured."""
    await SQL.run(work.connection, "set_resource_type", task_id=task_id, resource_type=resource_type)


async def keep_measured_merging(work: UnitOfWork, task_id: int, ram_mb: int | None, walltime_s: int | None) -> None:
    """Memory and time of merge jobs; None: not measured."""
    await SQL.run(work.connection, "store_measured_merging", task_id=task_id, ram_mb=ram_mb, walltime_s=walltime_s)
