"""Tasks, datasets, chunks, files and counters in PostgreSQL. Each function is one or two statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.picking import Pick
from services.job_generation.policy.task_row import task_of_row
from services.job_generation.policy.values import Dataset, Task, Template
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.messaging.failures import Permanent
from shared.states import DATASET, TASK, DatasetStatus, FileStatus, Owner, TaskStatus
from shared.states.job import LIVE
from shared.task.in_effect import BadRule

SQL = Queries.beside(__file__)

OWNER = Owner.JOB_GENERATION
Row = asyncpg.Record


@dataclass(frozen=True)
class LockedTask:
    """A task whose row is locked; `row` has the measured values, `retry_at` when to look again.

    `co_jumbo_retry_at`: when queues are asked for again for its job sets that wait for real co-jumbo jobs.
    """

    task: Task
    row: Mapping[str, Any]
    retry_at: datetime | None
    co_jumbo_retry_at: datetime | None = None


@dataclass(frozen=True)
class Chunk:
    """A chunk of the task.

    `max_jobs`: what the throttle of its share lets it make (None: any number); `ram_mb`: what the memory of its units
    was raised to, None for the task's. `is_for_waiting`: it holds no files, job sets that wait for real co-jumbo jobs
    have them. `needs_key`: what the task asked for at its offer.
    """

    chunk_id: int
    kind: str
    dataset_id: int | None
    queue: str | None
    n_files: int
    max_jobs: int | None = None
    ram_mb: int | None = None
    is_for_waiting: bool = False
    needs_key: int | None = None


async def lock_tasks(work: UnitOfWork, task_ids: Sequence[int]) -> list[LockedTask]:
    """Lock tasks in order of id. Raises Permanent where a task's own numbers cannot be read."""
    rows = await SQL.rows(work.connection, "lock_tasks", task_ids=sorted(set(task_ids)))
    return [_locked(row) for row in rows]


async def lock_task(work: UnitOfWork, task_id: int) -> LockedTask | None:
    """One task, or None if there is none."""
    found = await lock_tasks(work, [task_id])
    return found[0] if found else None


def _locked(row: Row) -> LockedTask:
    try:
        task = task_of_row(dict(row))
    except (BadRule, ValueError) as error:
        raise Permanent(str(error), task_id=row["task_id"]) from error
    return LockedTask(task, dict(row), row["retry_at"], row["co_jumbo_retry_at"])


async def texts(work: UnitOfWork, task_id: int) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The submitted parameters and the command lines of a task."""
    row = await SQL.row(work.connection, "task_texts", task_id=task_id)
    if row is None or row["job_parameters_template"] is None:
        raise Permanent(f"task {task_id} has no parameters or no template of job parameters", task_id=task_id)
    return row["task_parameters"], row["job_parameters_template"]


async def datasets(work: UnitOfWork, task_id: int) -> list[Dataset]:
    """All datasets of a task, in order of id."""
    return [
        Dataset(
            dataset_id=row["dataset_id"], name=row["dataset_name"], type=row["type"], status=row["status"],
            stream_name=row["stream_name"], master_id=row["master_id"], n_files=row["n_files"],
            n_files_to_be_used=row["n_files_to_be_used"], n_files_used=row["n_files_used"],
            n_files_finished=row["n_files_finished"], n_files_failed=row["n_files_failed"],
            n_files_on_hold=row["n_files_on_hold"], provenance_id=row["provenance_id"],
            storage_token=row["storage_token"], destination=row["destination"],
            container_name=row["container_name"], attributes=row["attributes"] or {}, is_open=row["state"] == "open",
            given_scope=row["scope"], template_id=row["template_id"], site=row["site"],
        )
        for row in await SQL.rows(work.connection, "datasets_of_task", task_id=task_id)
    ]  # fmt: skip


async def templates(work: UnitOfWork, task_id: int) -> list[Template]:
    """How outputs are named, in order of definition."""
    return [
        Template(
            row["out_temp_id"], row["dataset_id"], row["file_name_template"], row["stream_name"], row["type"],
            row["serial_nr"],
        )
        for row in await SQL.rows(work.connection, "templates_of_task", task_id=task_id)
    ]  # fmt: skip


async def move_task(work: UnitOfWork, task: Task, to_status: TaskStatus, *, reason: str,
                    retry_at: datetime | None = None, keep: bool = False) -> bool:  # fmt: skip
    """Compare and set a task's status; whether it moved.

    `keep`: remember the present status to come back to.
    """
    await work.because(reason)
    row = await SQL.row(
        work.connection,
        "move_task",
        task_id=task.task_id,
        to_status=to_status,
        allowed=TASK.sources(to_status, OWNER),
        old_status=task.status if keep else None,
        retry_at=retry_at,
        error_dialog=reason[:4000] if keep else None,
    )
    return row is not None


async def set_retry_at(work: UnitOfWork, task_id: int, retry_at: datetime | None) -> None:
    """When to look at the task again although nothing happens to it."""
    await SQL.run(work.connection, "set_retry_at", task_id=task_id, retry_at=retry_at)


async def record_decision(
    work: UnitOfWork, task_id: int, outcome: str, reason: str, *, numbers: Mapping[str, Any] | None = None,
    retry_at: datetime | None = None,
) -> None:  # fmt: skip
    """Store why generation went on or stopped, for people who ask."""
    await SQL.run(
        work.connection,
        "record_decision",
        task_id=task_id,
        outcome=outcome,
        reason=reason,
        numbers=dict(numbers or {}),
        retry_at=retry_at,
    )


async def open_chunks(work: UnitOfWork, task_id: int) -> list[Chunk]:
    """Chunks that are being brokered."""
    return [Chunk(*row) for row in await SQL.rows(work.connection, "open_chunks", task_id=task_id)]


async def scouts_were_made(work: UnitOfWork, task_id: int) -> bool:
    """Whether scout jobs were ever generated."""
    return bool(await SQL.value(work.connection, "scouts_were_made", task_id=task_id))


async def end_chunk(work: UnitOfWork, chunk_id: int, task_id: int, to_status: str, reason: str | None) -> Chunk | None:
    """Offered -> used or returned; None if somebody was faster."""
    row = await SQL.row(
        work.connection, "end_chunk", chunk_id=chunk_id, task_id=task_id, to_status=to_status, reason=reason
    )
    return None if row is None else Chunk(*row)


@dataclass(frozen=True)
class PickedFiles:
    """Files taken into a chunk."""

    ids: list[int]
    n_events: int
    n_bytes: int


async def return_chunk(work: UnitOfWork, chunk_id: int, reason: str) -> None:
    """A chunk of which no job was made counts as returned, not as used."""
    await SQL.run(work.connection, "return_chunk", chunk_id=chunk_id, reason=reason)


async def pick_files(work: UnitOfWork, task: Task, chunk_id: int, pick: Pick) -> PickedFiles:
    """The next ready files of a dataset and of one memory: ready -> picked.

    Where a job takes whole boundaries, as many more as theirs have, so that no boundary is split between two chunks.
    With releasePerLB a luminosity block is left as long as files of it wait for a parent or for tape.
    """
    query = "pick_whole_boundaries" if task.rules.keeps_boundaries_whole else "pick_files"
    held: list[int] = []
    if task.rules.releases_whole_lumi_blocks:
        held = await SQL.value(work.connection, "held_blocks", dataset_id=pick.dataset_id)
    row = await SQL.one(
        work.connection, query, dataset_id=pick.dataset_id, chunk_id=chunk_id, n_files=pick.n_files,
        ram_mb=pick.ram_mb, task_ram_mb=task.needs.ram_mb, held_blocks=held,
    )  # fmt: skip
    return PickedFiles(row["ids"], row["n_events"], row["n_bytes"])


async def insert_chunk(
    work: UnitOfWork, chunk_id: int, task_id: int, kind: str, picked: PickedFiles, *, dataset_id: int | None,
    queue: str | None = None, priority: int = 0, max_jobs: int | None = None, ram_mb: int | None = None,
    needs_key: int | None = None,
) -> None:  # fmt: skip
    """A chunk that is offered from now on, with what its picked files are of each dataset."""
    await SQL.run(
        work.connection, "insert_chunk", chunk_id=chunk_id, task_id=task_id, kind=kind, dataset_id=dataset_id,
        n_files=len(picked.ids), n_events=picked.n_events, input_bytes=picked.n_bytes, queue=queue, priority=priority,
        max_jobs=max_jobs, ram_mb=ram_mb, needs_key=needs_key,
    )  # fmt: skip


async def pick_named(work: UnitOfWork, task_id: int, chunk_id: int, ids: Sequence[int], changes: CounterChanges,
                     reason: str) -> list[int]:  # fmt: skip
    """These files: ready -> picked; those that were."""
    rows = await SQL.rows(work.connection, "pick_named", chunk_id=chunk_id, ids=list(ids))
    count_moves(changes, rows, "ready", "picked")
    return await log_moves(work, task_id, rows, "ready", "picked", reason)


async def give_back(
    work: UnitOfWork,
    task_id: int,
    chunk_id: int,
    changes: CounterChanges,
    reason: str,
    ids: Sequence[int] | None = None,
) -> list[int]:
    """Picked files of a chunk (all, or these) -> ready; which."""
    wanted = None if ids is None else list(ids)
    rows = await SQL.rows(work.connection, "unpick", task_id=task_id, chunk_id=chunk_id, ids=wanted)
    count_moves(changes, rows, "picked", "ready")
    return await log_moves(work, task_id, rows, "picked", "ready", reason)


def count_moves(
    changes: CounterChanges, rows: Iterable[Any], from_status: FileStatus | None, to_status: FileStatus
) -> None:
    """Add the rows that a statement changed to the counters."""
    sums: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        added = sums.setdefault((row["dataset_id"], row["type"]), [0, 0])
        added[0] += 1
        added[1] += row["events"]
    for (dataset_id, kind), (n_files, n_events) in sums.items():
        changes.moved(dataset_id, kind, from_status, to_status, n_files, n_events)


async def log_moves(work: UnitOfWork, task_id: int, rows: Iterable[Row], from_status: FileStatus | None,
                    to_status: FileStatus, reason: str) -> list[int]:  # fmt: skip
    """One line of the transition log for the files that a statement changed."""
    ids = sorted(row["file_id"] for row in rows)
    await work.log_files(
        entity="file", task_id=task_id, ids=ids, from_status=from_status, to_status=to_status, reason=reason
    )
    return ids


async def count_chunk_jobs(work: UnitOfWork, chunk_id: int, n_jobs: int) -> None:
    """How many jobs were made of a chunk that was used."""
    await SQL.run(work.connection, "count_chunk_jobs", chunk_id=chunk_id, n_jobs=n_jobs)


async def note_seed(work: UnitOfWork, chunk_id: int, seed: int) -> None:
    """Remember what decides the draws of a chunk."""
    await SQL.run(work.connection, "note_seed", chunk_id=chunk_id, seed=seed)


async def move_datasets(
    work: UnitOfWork, task_id: int, types: Sequence[str], to_status: DatasetStatus, reason: str
) -> None:
    """Move the datasets of these types to a status, where the graph allows it."""
    await work.because(reason)
    await SQL.rows(work.connection, "move_datasets", task_id=task_id, types=list(types), to_status=to_status,
        allowed=DATASET.sources(to_status, OWNER),
    )  # fmt: skip


async def live_jobs(work: UnitOfWork, task_id: int) -> int:
    """Jobs not final (up to 1 000) or whose end was not counted, and chunks that will become jobs."""
    return int(await SQL.value(work.connection, "live_jobs", task_id=task_id, live=list(LIVE)))


async def something_runs(work: UnitOfWork, task_id: int) -> bool:
    """Whether anything of a task is under way, besides jobs that only wait for others in their place."""
    return bool(await SQL.value(work.connection, "something_runs", task_id=task_id, live=list(LIVE)))


async def idle_tasks(work: UnitOfWork, statuses: Sequence[TaskStatus], count: int) -> list[int]:
    """Tasks whose time to be looked at has come."""
    return [
        row["task_id"] for row in await SQL.rows(work.connection, "idle_tasks", statuses=list(statuses), count=count)
    ]
