"""Reads and opens units of input: of a chunk, unused, drawn at random, or with raised memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import Task, Unit
from services.job_generation.store.tasks import Row, count_moves, log_moves
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states import DATASET, Owner

SQL = Queries.beside(__file__)


def unit_of(row: Row, file_events: int | None = None) -> Unit:
    """A row of `task_files` as a unit."""
    return Unit(
        row["file_id"],
        row["lfn"],
        row["fsize"],
        row["n_events"],
        row["start_event"],
        row["end_event"],
        row["first_event"],
        row["boundary_id"],
        row["lumi_block_nr"],
        row["dataset_id"],
        row["scope"],
        row["guid"],
        row["checksum"],
        row["attempt_nr"],
        row["ram_count"],
        row["job_id"],
        file_events,
        row.get("avoided_site"),
    )


async def units_of_chunk(work: UnitOfWork, chunk_id: int, task: Task) -> list[Unit]:
    """The picked units of a chunk, in order."""
    rows = await SQL.rows(work.connection, "files_of_chunk", chunk_id=chunk_id)
    return [unit_of(row, task.rules.n_events_per_input_file) for row in rows]


async def has_more(work: UnitOfWork, dataset_id: int, ram_mb: int | None, task_ram_mb: int) -> bool:
    """Whether a dataset has more ready units of this memory (None: the task's) besides those in chunks."""
    return bool(
        await SQL.value(work.connection, "has_more", dataset_id=dataset_id, ram_mb=ram_mb, task_ram_mb=task_ram_mb)
    )


async def awaited_datasets(work: UnitOfWork, dataset_ids: Sequence[int]) -> set[int]:
    """Those of which files wait for a parent or for tape."""
    rows = await SQL.rows(work.connection, "awaited_datasets", dataset_ids=list(dataset_ids))
    return {row["dataset_id"] for row in rows}


async def leave_out(
    work: UnitOfWork, task_id: int, changes: CounterChanges, ids: Sequence[int], reason: str
) -> list[int]:
    """Ready units that a rule of the task keeps out of every job: ready -> failed; which."""
    rows = await SQL.rows(work.connection, "leave_out", ids=list(ids))
    count_moves(changes, rows, "ready", "failed")
    return await log_moves(work, task_id, rows, "ready", "failed", reason)


async def ready_units(work: UnitOfWork, dataset_id: int, n_files: int, *, after: int = 0) -> list[Unit]:
    """Unused units of a dataset, in order; not the first `after` of them."""
    rows = await SQL.rows(work.connection, "ready_files", dataset_id=dataset_id, n_files=n_files, after=after)
    return [unit_of(row) for row in rows]


async def ready_units_of_boundaries(work: UnitOfWork, dataset_id: int, boundaries: Sequence[int]) -> list[Unit]:
    """Unused units of a dataset that belong to these boundaries, in order."""
    rows = await SQL.rows(
        work.connection, "ready_files_of_boundaries", dataset_id=dataset_id, boundaries=list(boundaries)
    )
    return [unit_of(row) for row in rows]


async def files_holding(work: UnitOfWork, dataset_id: int, n_events: float, n_files: int) -> int:
    """How many of the first `n_files` unused files are needed at most to hold so many events."""
    return int(
        await SQL.value(work.connection, "files_holding", dataset_id=dataset_id, n_events=n_events, n_files=n_files)
    )


async def random_ready_units(work: UnitOfWork, dataset_id: int, n_files: int, seed: int) -> list[Unit]:
    """Unused units of a dataset, drawn at random from all of them: the same seed draws the same files."""
    rows = await SQL.rows(work.connection, "random_ready_files", dataset_id=dataset_id, n_files=n_files, seed=seed)
    return [unit_of(row) for row in rows]


async def open_all_files(work: UnitOfWork, task_id: int) -> bool:
    """Open all input for use; whether some of it was not."""
    return bool(await SQL.rows(work.connection, "open_all_files", task_id=task_id))


async def open_files_in_use(work: UnitOfWork, dataset_id: int) -> None:
    """Count files as open that were picked because their boundary is not split."""
    await SQL.run(work.connection, "open_files_in_use", dataset_id=dataset_id)


async def has_unfinished_input(work: UnitOfWork, dataset_ids: Sequence[int]) -> bool:
    """Whether some unit of these datasets still waits or is worked on."""
    return bool(await SQL.value(work.connection, "has_unfinished_input", dataset_ids=list(dataset_ids)))


async def is_being_reopened(work: UnitOfWork, task_id: int) -> bool:
    """Whether a command opens units of its input again in slices while the task lives."""
    return bool(await SQL.value(work.connection, "is_being_reopened", task_id=task_id))


async def has_ready(work: UnitOfWork, dataset_ids: Sequence[int]) -> bool:
    """Whether any unit of these datasets can be taken."""
    found: bool = await SQL.value(work.connection, "has_ready", dataset_ids=list(dataset_ids))
    return found


async def raised_memory(work: UnitOfWork, task: Task, dataset_ids: Sequence[int]) -> dict[int, list[int]]:
    """Memory above the task's that ready units need, in MB of the task's unit, by dataset."""
    found: dict[int, list[int]] = {}
    for row in await SQL.rows(
        work.connection, "raised_memory", dataset_ids=list(dataset_ids), task_ram_mb=task.needs.ram_mb
    ):
        found.setdefault(row["dataset_id"], []).append(row["ram_count"])
    return found


async def hold_chunk(work: UnitOfWork, chunk_id: int, retry_at: datetime) -> None:
    """What was in the chunk, of raised memory or to be merged, waits; the rest of the task goes on."""
    await SQL.run(work.connection, "hold_chunk", chunk_id=chunk_id, retry_at=retry_at)


async def held_memory(work: UnitOfWork, task_id: int) -> set[tuple[int, int | None]]:
    """Datasets and the raised memory whose units wait."""
    return {tuple(row) for row in await SQL.rows(work.connection, "held_memory", task_id=task_id)}


async def has_files_under_way(work: UnitOfWork, dataset_ids: Sequence[int]) -> bool:
    """Whether files of these datasets may become ready without anybody adding any."""
    return bool(await SQL.value(work.connection, "has_files_under_way", dataset_ids=list(dataset_ids)))


class StatedWait(NamedTuple):
    """What made a task wait, why, and until when; `ran_out`: a secondary dataset has no file left."""

    outcome: str
    reason: str
    retry_at: datetime
    ran_out: bool


async def why_it_waits(work: UnitOfWork, task_id: int) -> StatedWait | None:
    """None: it does not wait for a time."""
    row = await SQL.row(work.connection, "why_it_waits", task_id=task_id)
    return None if row is None else StatedWait(*row)


async def release_memory(work: UnitOfWork, task_id: int, ram_mb: int | None = None) -> None:
    """Units of one raised memory, or of any, need not wait longer."""
    await SQL.run(work.connection, "release_memory", task_id=task_id, ram_mb=ram_mb)


async def end_processed_inputs(work: UnitOfWork, task_id: int) -> None:
    """Closed masters of which every unit is finished are done."""
    await work.because("every file of it was processed")
    allowed = DATASET.sources("done", Owner.JOB_GENERATION)
    await SQL.run(work.connection, "end_processed_inputs", task_id=task_id, allowed=allowed)
