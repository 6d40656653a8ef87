"""Job sets, their jobs and their ranges in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.job_generation.kinds.event_service.policy.endings import EXPIRED, REASSIGNED, SetState, SubStatus
from services.job_generation.kinds.event_service.policy.merge_input import FileOfEvents, ProcessedEvents
from services.job_generation.kinds.event_service.policy.ranges import KeptRange, NewRange
from services.job_generation.policy.values import JobInput, Unit
from services.job_generation.store.results import EndedJob
from services.job_generation.store.units import unit_of
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.event_range import CODES
from shared.states.job import JobStatus

SQL = Queries.beside(__file__)
SETS_AT_ONCE = 500

_RANGES = (
    "task_id", "dataset_id", "file_id", "status", "job_process_id", "def_min_event_id", "def_max_event_id",
    "attempt_nr", "event_offset", "job_set_id",
)  # fmt: skip
_MEMBERS = ("job_id", "job_set_id", "task_id", "role", "attempt")


@dataclass(frozen=True)
class NewSet:
    """A job set to insert; `n_kept`: so many of its ranges were processed by earlier sets of its files."""

    job_set_id: int
    units: Sequence[Unit]
    ranges: Sequence[NewRange]
    serials: Mapping[int, int]
    n_kept: int = 0


@dataclass(frozen=True)
class Member:
    """A job of a set; `status` is its own where it was read with it."""

    job_id: int
    job_set_id: int
    role: str
    attempt: int
    n_processed: int
    sub_status: SubStatus | None
    status: JobStatus | None = None


@dataclass(frozen=True)
class JobSet:
    """A set whose row is locked; `queues` are (queue, resource type) in their order.

    `retry_at`: until then it waits for a site that takes its next job.
    """

    job_set_id: int
    chunk_id: int
    stage: str
    wants: str | None
    kind: str
    n_consumers: int
    n_attempts: int
    n_merges: int
    state: SetState
    serials: Mapping[int, int]
    queues: Sequence[tuple[str, str]]
    retry_at: datetime | None = None


async def insert(
    work: UnitOfWork,
    task_id: int,
    chunk_id: int,
    sets: Sequence[NewSet],
    *,
    kind: str,
    n_consumers: int,
    queues: Sequence[tuple[str, str]],
    attempts: int,
    keeps_processed: bool,
) -> None:
    """Insert sets with their ranges.

    Ranges of earlier sets of the files go over where they were processed and that is wanted; the others are put aside.
    """
    ids = [one.job_set_id for one in sets]
    await SQL.run(
        work.connection, "insert_sets", task_id=task_id, chunk_id=chunk_id, kind=kind, n_consumers=n_consumers,
        queues=[list(one) for one in queues], ids=ids, n_files=[len(one.units) for one in sets],
        n_ranges=[one.n_kept + len(one.ranges) for one in sets],
        serials=[{str(key): number for key, number in one.serials.items()} for one in sets],
    )  # fmt: skip
    pairs = sorted({(unit.file_id, one.job_set_id) for one in sets for unit in one.units})
    owners: dict[str, Any] = {"file_ids": [file_id for file_id, _ in pairs], "set_ids": [set_id for _, set_id in pairs]}
    await SQL.run(work.connection, "files_to_sets", **owners)
    if keeps_processed:
        await SQL.run(work.connection, "keep_processed", task_id=task_id, done=CODES["done"], **owners)
    await SQL.run(work.connection, "move_past", task_id=task_id, **owners)
    records = [
        (task_id, new.dataset_id, new.file_id, CODES["ready"], new.number, new.first_event, new.last_event, attempts,
         new.offset, one.job_set_id)
        for one in sets
        for new in one.ranges
    ]  # fmt: skip
    await work.connection.copy_records_to_table("event_ranges", records=records, columns=_RANGES)


async def processed_ranges(work: UnitOfWork, task_id: int, file_ids: Sequence[int]) -> dict[int, list[KeptRange]]:
    """Ranges of these files that earlier sets processed, by file."""
    found: dict[int, list[KeptRange]] = {}
    rows = await SQL.rows(
        work.connection, "processed_ranges", task_id=task_id, file_ids=sorted(file_ids), done=CODES["done"]
    )
    for file_id, *values in rows:
        found.setdefault(file_id, []).append(KeptRange(*values))
    return found


async def add_members(
    work: UnitOfWork, task_id: int, role: str, members: Sequence[tuple[int, int]], attempts: Mapping[int, int]
) -> None:
    """Jobs (job, set) of sets; `attempts`: which attempt of its set each set's new jobs are."""
    records = [(job_id, set_id, task_id, role, attempts.get(set_id, 1)) for job_id, set_id in members]
    await work.connection.copy_records_to_table("job_set_jobs", records=records, columns=_MEMBERS)


async def members_of_jobs(work: UnitOfWork, job_ids: Sequence[int]) -> dict[int, Member]:
    """Those of the jobs that belong to sets."""
    rows = await SQL.rows(work.connection, "members_of_jobs", job_ids=sorted(job_ids))
    return {row["job_id"]: Member(*row) for row in rows}


async def members_of_sets(work: UnitOfWork, set_ids: Sequence[int]) -> dict[int, list[Member]]:
    """Jobs of sets whose end was not counted, by set."""
    found: dict[int, list[Member]] = {}
    for row in await SQL.rows(work.connection, "members_of_sets", set_ids=sorted(set_ids)):
        found.setdefault(row["job_set_id"], []).append(Member(*row))
    return found


async def copies_among(work: UnitOfWork, job_ids: Sequence[int]) -> list[tuple[int, int]]:
    """(job, task) of those that are copies of others, in the order of the ids."""
    rows = await SQL.rows(work.connection, "copies_among", job_ids=list(job_ids)) if job_ids else []
    return [(row["job_id"], row["task_id"]) for row in rows]


async def stored_copies(work: UnitOfWork, set_ids: Sequence[int]) -> list[int]:
    """The copies of sets whose outputs are registered: one of a set at most."""
    return [row["job_id"] for row in await SQL.rows(work.connection, "stored_copies", set_ids=list(set_ids))]


async def lock_jobs_of_sets(work: UnitOfWork, set_ids: Sequence[int]) -> None:
    """Jobs of sets whose end was not counted are locked, in order of id."""
    await SQL.rows(work.connection, "lock_jobs_of_sets", set_ids=list(set_ids))


async def lock(work: UnitOfWork, set_ids: Sequence[int]) -> list[JobSet]:
    """Sets in order of id, locked until the commit."""
    return [_set_of(row) for row in await SQL.rows(work.connection, "lock_sets", set_ids=sorted(set_ids))]


def _set_of(row: Any) -> JobSet:
    return JobSet(
        row["job_set_id"], row["chunk_id"], row["status"], row["wants"], row["kind"], row["n_consumers"],
        row["n_attempts"], row["n_merges"],
        SetState(row["n_ready"], row["n_exhausted"], row["n_processing"], row["n_finished"], row["n_done"],
                 row["n_fatal"]),
        {int(key): number for key, number in row["serials"].items()},
        [(queue, resource_type) for queue, resource_type in row["queues"]],
        row["retry_at"],
    )  # fmt: skip


async def wanting(work: UnitOfWork, task_id: int) -> list[int]:
    """Sets for which a job is to be made, at most so many at once."""
    rows = await SQL.rows(work.connection, "wanting_sets", task_id=task_id, at_most=SETS_AT_ONCE)
    return [row["job_set_id"] for row in rows]


async def change(
    work: UnitOfWork,
    job_set_id: int,
    stage: str,
    reason: str,
    *,
    wants: str | None = None,
    attempts: int = 0,
    merges: int = 0,
) -> None:
    """A set's next state, and what is to be made for it."""
    await SQL.run(
        work.connection, "change_set", job_set_id=job_set_id, stage=stage, wants=wants, reason=reason[:1000],
        attempts=attempts, merges=merges,
    )  # fmt: skip


async def end_members(work: UnitOfWork, ends: Sequence[tuple[int, SubStatus | None, int]]) -> None:
    """(job, sub-status, ranges processed more) of jobs that ended."""
    if ends:
        job_ids, sub_statuses, n_processed = (list(one) for one in zip(*sorted(ends), strict=True))
        await SQL.run(
            work.connection, "end_members", job_ids=job_ids, sub_statuses=sub_statuses, n_processed=n_processed
        )


async def input_of_set(work: UnitOfWork, job_set_id: int) -> JobInput:
    """What the jobs of a set read."""
    masters, secondary = [], dict[int, list[Unit]]()
    for row in await SQL.rows(work.connection, "input_of_set", job_set_id=job_set_id):
        unit = unit_of(row)
        if row["is_master"]:
            masters.append(unit)
        else:
            secondary.setdefault(unit.dataset_id, []).append(unit)
    return JobInput(tuple(masters), {key: tuple(units) for key, units in secondary.items()})


async def own_input(work: UnitOfWork, job_set_id: int, job_id: int | None) -> None:
    """The input of a set belongs to another of its jobs from now on, or to none until there is one."""
    await SQL.run(work.connection, "own_input", job_set_id=job_set_id, job_id=job_id)


async def best_queue(work: UnitOfWork, task_id: int, job_set_id: int) -> tuple[str, str] | None:
    """The queue and resource type where most events of a set were processed, among its jobs of late."""
    row = await SQL.row(work.connection, "best_queue", task_id=task_id, job_set_id=job_set_id)
    return None if row is None else (row["queue"], row["resource_type"])


async def end_live(
    work: UnitOfWork,
    job_ids: Sequence[int],
    to_status: JobStatus,
    allowed: Sequence[JobStatus],
    reason: str,
    *,
    error: str | None = None,
    error_code: int | None = None,
) -> list[tuple[EndedJob, JobStatus]]:
    """Jobs of sets to their end, each with the state that it was in."""
    if not job_ids:
        return []
    await work.because(reason)
    rows = await SQL.rows(
        work.connection, "end_live", job_ids=sorted(job_ids), to_status=to_status, allowed=list(allowed),
        error_source="generation" if to_status != "finished" else None, error_dialog=error,
        error_code=error_code,
    )  # fmt: skip
    found = [
        (
            EndedJob(
                row["job_id"], row["task_id"], row["chunk_id"], to_status, row["job_type"], row["queue"],
                row["resource_type"], row["gshare"], row["user_name"], row["core_count"], None, None,
                row["attempt_number"], error,
            ),
            row["was"],
        )
        for row in rows
    ]  # fmt: skip
    return sorted(found, key=lambda pair: pair[0].job_id)


async def processed_of(work: UnitOfWork, task_id: int, job_set_id: int) -> ProcessedEvents:
    """What the events of a set were processed to."""
    of_set = {"task_id": task_id, "job_set_id": job_set_id, "done": CODES["done"]}
    files = await SQL.rows(work.connection, "written_files", **of_set)
    ranges = await SQL.rows(work.connection, "named_ranges", **of_set)
    return ProcessedEvents(
        tuple(FileOfEvents(*tuple(row)[1:]) for row in files),
        tuple((row["name"], row["obj_store_id"]) for row in ranges),
    )


async def stores_of_set(work: UnitOfWork, task_id: int, job_set_id: int) -> list[int | None]:
    """The object stores that have the processed events of a set; None: it is not known of some."""
    rows = await SQL.rows(work.connection, "stores_of_set", task_id=task_id, job_set_id=job_set_id, done=CODES["done"])
    return [row["obj_store_id"] for row in rows]


async def link_to_earlier(work: UnitOfWork, job_set_id: int, job_ids: Sequence[int], *, merges: bool) -> None:
    """Note which earlier jobs of their set new jobs continue (JEDI: Job retry history)."""
    await SQL.run(
        work.connection, "link_to_earlier", job_set_id=job_set_id, job_ids=list(job_ids),
        relation="merge" if merges else "retry", at_most=1000 if merges else 1,
    )  # fmt: skip


async def has_merged(work: UnitOfWork, job_set_id: int) -> bool:
    """Whether a merge job of the set was made before, whose output has a name already."""
    return bool(await SQL.value(work.connection, "has_merged", job_set_id=job_set_id))


async def unused_at(work: UnitOfWork, job_set_id: int, role: str) -> dict[str, bool]:
    """Queues where the last jobs of a set in this role were taken back before they ran.

    True: one of them was taken back by a time-out. Only jobs that were made after every other job of the role count.
    """
    rows = await SQL.rows(
        work.connection, "unused_at", job_set_id=job_set_id, role=role, timeouts=[EXPIRED, REASSIGNED]
    )
    return {row["queue"]: row["in_vain"] for row in rows}


async def last_job(work: UnitOfWork, job_set_id: int) -> int:
    """The last job that was made for a set."""
    return int(await SQL.value(work.connection, "last_job", job_set_id=job_set_id))


async def share_exists(work: UnitOfWork, gshare: str) -> bool:
    """Whether there is such a share."""
    return bool(await SQL.value(work.connection, "share_exists", gshare=gshare))
