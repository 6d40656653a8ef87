"""Inserting the jobs of a chunk: ids in blocks, COPY, interned requirements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import NOBODY, Dataset, OwnerStanding, Task, Unit
from services.job_generation.specification.building import NewJob
from services.job_generation.specification.kind_of_job import KindOfJob
from services.job_generation.specification.requirements import Requirement
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import FINAL_OUTPUT_TYPES
from shared.signed_sources.places import spots_of

SQL = Queries.beside(__file__)

_JOBS = (
    "job_id", "task_id", "chunk_id", "shape_id", "current_priority", "core_count", "attempt_number", "status", "queue",
    "resource_type", "gshare", "user_name", "prod_source_label", "job_type", "creation_time", "state_change_time",
    "order_key_id", "work_queue_id",
)  # fmt: skip
_JOB_FILES = ("job_id", "file_id", "dataset_id", "task_id", "type", "is_master", "attempt_nr")
_FILES = (
    "file_id", "dataset_id", "task_id", "creation_date", "lfn", "type", "scope", "status", "n_events", "job_id",
    "out_job_id", "first_event",
)  # fmt: skip
_RETRIES = ("task_id", "old_job_id", "new_job_id", "relation_type", "origin_job_id")


@dataclass
class Seeds:
    """Random seeds for one chunk's jobs: numbers before the offset, reused rows, and how many are new."""

    dataset: Dataset
    numbers: list[int]
    reused: list[Unit]


@dataclass
class Batch:
    """What is inserted in one transaction; `order_keys` of jobs that have one, by job id.

    `takes_input`: the input was picked for these jobs; without, other jobs of their job set have it already. `waits`:
    they stand for job sets that no queue takes, and have none.
    """

    task: Task
    chunk_id: int
    kind: KindOfJob
    jobs: Sequence[NewJob]
    datasets: Mapping[int, Dataset]
    seeds: Seeds | None = None
    changes: CounterChanges = field(default_factory=CounterChanges)
    order_keys: Mapping[int, int] = field(default_factory=dict)
    takes_input: bool = True
    waits: bool = False


class ShapeIds:
    """Ids of requirements; they never change, so a copy in memory never goes stale."""

    MOST = 100_000

    def __init__(self) -> None:
        self._ids: dict[Requirement, int] = {}

    async def intern(self, work: UnitOfWork, wanted: Iterable[Requirement]) -> Mapping[Requirement, int]:
        """Ids of these requirements, made where they are new. Remembered only once read back from the table."""
        missing = sorted({one for one in wanted if one not in self._ids})
        if not missing:
            return self._ids
        if len(self._ids) > self.MOST:
            self._ids = {}
            missing = sorted(set(wanted))
        by_column = map(list, zip(*missing, strict=True))
        columns: dict[str, Any] = dict(zip(_SHAPE_ARRAYS, by_column, strict=True))
        known = _shape_ids(await SQL.rows(work.connection, "known_shapes", **columns))
        self._ids.update(known)
        if len(known) == len(missing):
            return self._ids
        # rows made by this transaction are forgotten if it fails: they are remembered when they are met again
        await SQL.run(work.connection, "add_shapes", **columns)
        return {**self._ids, **_shape_ids(await SQL.rows(work.connection, "known_shapes", **columns))}


_SHAPE_ARRAYS = ("labels", "types", "cores", "rams", "disks", "walls", "urgent", "vos")


def _shape_ids(rows: Iterable[Iterable[Any]]) -> dict[Requirement, int]:
    return {Requirement(*row[1:]): row[0] for row in map(tuple, rows)}


async def take_serials(work: UnitOfWork, template_ids: Sequence[int], count: int) -> dict[int, int]:
    """The first of `count` serial numbers of each template; they are never given again."""
    rows = await SQL.rows(work.connection, "take_serials", ids=sorted(template_ids), count=count)
    return {row["out_temp_id"]: row["first_serial"] for row in rows}


async def take_seeds(work: UnitOfWork, dataset: Dataset, count: int) -> Seeds:
    """`count` seeds: the smallest ones given back by jobs that did not succeed, then new ones.

    Seeds are numbered from 1 in the order they are made, so that the largest number is the number of rows.
    """
    reused = await store_units.ready_units(work, dataset.dataset_id, count)
    numbers = [int(unit.lfn) for unit in reused]
    numbers += range(dataset.n_files + 1, dataset.n_files + 1 + count - len(reused))
    return Seeds(dataset, numbers, reused)


async def insert(work: UnitOfWork, batch: Batch, shapes: Mapping[Requirement, int]) -> None:
    """Insert jobs, texts, outputs and what connects jobs with their input; inputs picked -> running.

    Counters go to `batch.changes`.
    """
    task_id, n_jobs = batch.task.task_id, len(batch.jobs)
    n_new_seeds = n_jobs - len(batch.seeds.reused) if batch.seeds else 0
    n_outputs = sum(len(job.outputs) for job in batch.jobs)
    file_ids = await work.next_ids("file_ids", n_outputs + n_new_seeds)
    seed_ids = _seed_ids(batch, file_ids[n_outputs:])
    copy = work.connection.copy_records_to_table
    await copy("jobs", records=_job_rows(work, batch, shapes), columns=_JOBS)
    specs = [(job.job_id, task_id, job.spec, spots_of(job.spec)) for job in batch.jobs]
    await copy("job_specs", records=specs, columns=("job_id", "task_id", "spec", "source_spots"))
    files = _output_rows(work, batch, file_ids[:n_outputs]) + _new_seed_rows(work, batch, file_ids[n_outputs:])
    if files:
        await copy("task_files", records=files, columns=_FILES)
    links = _link_rows(batch, seed_ids)
    if links:
        await copy("job_files", records=links, columns=_JOB_FILES)
    await _start_inputs(work, batch, seed_ids)
    await _link_retries(work, batch)
    await work.log_files(
        entity="file", task_id=task_id, ids=file_ids, from_status=None, to_status="running", reason="made for a new job"
    )
    made = [{"dataset_id": row[1], "type": row[5], "events": row[8] or 0} for row in files]
    store.count_moves(batch.changes, made, None, "running")


def _job_rows(work: UnitOfWork, batch: Batch, shapes: Mapping[Requirement, int]) -> list[tuple[Any, ...]]:
    task, now = batch.task, work.now
    return [
        (
            job.job_id,
            task.task_id,
            batch.chunk_id,
            shapes[job.requirement],
            job.priority,
            job.core_count,
            job.attempt_number,
            "waiting" if batch.waits else "defined",
            None if batch.waits else job.queue,
            job.resource_type,
            task.gshare,
            task.user_name,
            task.prod_source_label,
            batch.kind.name,
            now,
            now,
            batch.order_keys.get(job.job_id, 0),
            task.work_queue_id,
        )
        for job in batch.jobs
    ]


def _output_rows(work: UnitOfWork, batch: Batch, file_ids: Sequence[int]) -> list[tuple[Any, ...]]:
    task_id, now, ids = batch.task.task_id, work.now, iter(file_ids)
    rows: list[tuple[Any, ...]] = []
    for job in batch.jobs:
        for output in job.outputs:
            rows.append(
                (
                    next(ids),
                    output.dataset_id,
                    task_id,
                    now,
                    output.lfn,
                    output.type,
                    output.scope[:30],
                    "running",
                    output.n_events,
                    None,
                    job.job_id,
                    None,
                )
            )
    return rows


def _seed_ids(batch: Batch, new_ids: Sequence[int]) -> list[int]:
    """The file id of each job's seed, in order of the jobs."""
    if batch.seeds is None:
        return []
    return [unit.file_id for unit in batch.seeds.reused] + list(new_ids)


def _new_seed_rows(work: UnitOfWork, batch: Batch, file_ids: Sequence[int]) -> list[tuple[Any, ...]]:
    seeds = batch.seeds
    if seeds is None:
        return []
    n_reused = len(seeds.reused)
    return [
        (
            file_id,
            seeds.dataset.dataset_id,
            batch.task.task_id,
            work.now,
            str(number),
            "random_seed",
            None,
            "running",
            None,
            job.job_id,
            None,
            number,
        )
        for file_id, number, job in zip(file_ids, seeds.numbers[n_reused:], batch.jobs[n_reused:], strict=True)
    ]


def _taken(job: NewJob) -> Iterable[tuple[Unit, bool]]:
    """Units that the job reads, and whether they are of the master."""
    for unit in job.inputs.master:
        yield unit, True
    for units in job.inputs.secondary.values():
        for unit in units:
            yield unit, False


def _owned(batch: Batch, job: NewJob) -> Iterable[tuple[Unit, bool]]:
    """Those that no other job may take meanwhile: all masters, and secondaries that are not shared."""
    for unit, is_master in _taken(job):
        if is_master or not batch.datasets[unit.dataset_id].is_shared:
            yield unit, is_master


def _link_rows(batch: Batch, seed_ids: Sequence[int]) -> list[tuple[Any, ...]]:
    """What jobs read: other jobs may read it, too. What one writes has it in its own row."""
    task_id, datasets = batch.task.task_id, batch.datasets
    rows: list[tuple[Any, ...]] = []
    for place, job in enumerate(batch.jobs):
        job_id = job.job_id
        for unit, is_master in _taken(job):
            kind = datasets[unit.dataset_id].type
            kind = "input" if kind in FINAL_OUTPUT_TYPES else kind  # a library, which a build job wrote
            rows.append((job_id, unit.file_id, unit.dataset_id, task_id, kind, is_master, unit.attempt_nr))
        if batch.seeds is not None:
            rows.append((job_id, seed_ids[place], batch.seeds.dataset.dataset_id, task_id, "random_seed", False, 0))
    return rows


async def _start_inputs(work: UnitOfWork, batch: Batch, seed_ids: Sequence[int]) -> None:
    """Units of these jobs picked -> running; secondaries and reused seeds are picked first."""
    takers = batch.jobs if batch.takes_input else ()
    owners = {unit.file_id: job.job_id for job in takers for unit, _ in _owned(batch, job)}
    secondaries = (unit.file_id for job in takers for unit, is_master in _owned(batch, job) if not is_master)
    picked_here = list(dict.fromkeys(secondaries))  # the jobs of a job set have the same
    if batch.seeds is not None:
        for file_id, job in zip(seed_ids[: len(batch.seeds.reused)], batch.jobs, strict=False):
            owners[file_id] = job.job_id
            picked_here.append(file_id)
    task_id = batch.task.task_id
    if picked_here:
        await store.pick_named(
            work, task_id, batch.chunk_id, picked_here, batch.changes, "taken along with the chunk's files"
        )
    ids = sorted(owners)
    rows = await SQL.rows(work.connection, "files_to_jobs", ids=ids, job_ids=[owners[one] for one in ids])
    if len(rows) != len(ids):
        raise LostInput(
            f"task {task_id}: {len(ids) - len(rows)} files of chunk {batch.chunk_id} are not picked any more"
        )
    store.count_moves(batch.changes, rows, "picked", "running")
    await store.log_moves(work, task_id, rows, "picked", "running", "job generated")


class LostInput(Exception):
    """Files that this transaction holds are not as it read them: a bug, never a state of the world."""


async def _link_retries(work: UnitOfWork, batch: Batch) -> None:
    """Which earlier job each new one continues (JEDI: Job retry history)."""
    pairs = {(unit.previous_job_id, job.job_id, "retry") for job in batch.jobs for unit in job.inputs.master}
    if batch.kind.reads_outputs:
        pairs |= {(unit.boundary_id, job.job_id, "merge") for job in batch.jobs for unit in job.inputs.master}
    known = sorted((old, new, relation) for old, new, relation in pairs if old)
    if not known:
        return
    rows = await SQL.rows(work.connection, "origins_of_jobs", ids=sorted({old for old, _, _ in known}))
    origins = {row["new_job_id"]: row["origin"] for row in rows}
    await work.connection.copy_records_to_table(
        "job_retry_history",
        records=[(batch.task.task_id, old, new, why, origins.get(old, old)) for old, new, why in known],
        columns=_RETRIES,
    )


async def standing_of_owner(work: UnitOfWork, task: Task) -> OwnerStanding:
    """What the priority of new jobs depends on beside their task; of production: nothing."""
    if not task.is_analysis:
        return NOBODY
    row = await SQL.one(work.connection, "standing_of_owner", user_name=task.user_name, vo=task.vo)
    return OwnerStanding(row["n_jobs"], row["weight"])


async def archive(work: UnitOfWork, before: datetime, count: int) -> None:
    """Ended jobs that were counted before a time leave the hot table."""
    await SQL.rows(work.connection, "archive_jobs", before=before, count=count)
