"""Reading ended jobs and writing what their end means for files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import asyncpg

from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.memory import JobMemory
from services.job_generation.policy.outcomes import Attempts, FileOutcome
from services.job_generation.policy.values import Unit
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.messaging.failures import Permanent
from shared.model.job_report import JobReport
from shared.states.file import FileStatus
from shared.states.job import JobStatus
from shared.task.in_effect import BadRule, SplitRules, rules_of
from shared.timeouts.built_in import REBROKERED

SQL = Queries.beside(__file__)

Row = asyncpg.Record


class EndedJob(NamedTuple):
    """A job whose end was not counted yet, locked."""

    job_id: int
    task_id: int
    chunk_id: int
    status: JobStatus
    job_type: str
    queue: str | None
    resource_type: str
    gshare: str
    user_name: str
    core_count: int
    error_source: str | None
    error_code: int | None
    attempt_number: int
    error_dialog: str | None = None
    had_pilot: bool = False

    @property
    def was_rebrokered(self) -> bool:
        """Whether its work was taken from its queue before it ran, to be tried at another."""
        return self.status == "closed" and self.error_source == "watchdog" and self.error_code in REBROKERED


class Uncounted(NamedTuple):
    """Jobs of a task that ended, or wait to be merged, and were not counted yet.

    `is_plain`: all finished, and none means anything to another job: their files are finished, and that is all.
    `ends_others`: jobs of the task end others.
    """

    task_id: int
    job_ids: Sequence[int]
    is_plain: bool
    ends_others: bool = False


class JobFile(NamedTuple):
    """One file of a job; `owner_id` is its job now, `is_registered`: an output that the catalogue has."""

    job_id: int
    is_master: bool
    dataset_type: str
    file_id: int
    dataset_id: int
    status: FileStatus
    lfn: str
    attempts: Attempts
    owner_id: int | None
    out_job_id: int | None
    ram_mb: int | None
    n_events: int
    is_registered: bool


class InputEnd(NamedTuple):
    """The next state of an input that `job_id` used."""

    file_id: int
    job_id: int
    outcome: FileOutcome
    ram_mb: int | None = None


class OutputEnd(NamedTuple):
    """The next state of an output; sizes and names from the pilot's report where there is one."""

    file_id: int
    from_status: FileStatus
    to_status: FileStatus
    size_bytes: int | None = None
    guid: str | None = None
    checksum: str | None = None
    boundary_id: int | None = None
    max_attempt: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but its state changes."""
        return self[3:] == _NO_DETAILS


_NO_DETAILS = (None,) * 5


async def uncounted(work: UnitOfWork, job_ids: Sequence[int]) -> list[Uncounted]:
    """Find those of the jobs whose end was not counted, by task.

    Raises Permanent where a task's rules cannot be read.
    """
    found = []
    for row in await SQL.rows(work.connection, "uncounted_jobs", job_ids=list(job_ids)):
        ends_others = _rules(row).jobs_end_others
        found.append(Uncounted(row["task_id"], row["job_ids"], row["is_plain"] and not ends_others, ends_others))
    return found


def _rules(row: Row) -> SplitRules:
    try:
        return rules_of(row["split_rule"], event_service=row["event_service"])
    except BadRule as error:
        raise Permanent(str(error), task_id=row["task_id"]) from error


async def lock_jobs(work: UnitOfWork, job_ids: Sequence[int]) -> list[EndedJob]:
    """Those of the jobs whose end was not counted, locked in order of id."""
    return [EndedJob(*row) for row in await SQL.rows(work.connection, "lock_jobs", job_ids=list(job_ids))]


async def memory_of_jobs(work: UnitOfWork, job_ids: Iterable[int]) -> dict[int, JobMemory]:
    """What these jobs asked their slots for."""
    rows = await SQL.rows(work.connection, "memory_of_jobs", job_ids=sorted(job_ids))
    return {row["job_id"]: JobMemory(row["ram_mb"], row["core_count"]) for row in rows}


async def lock_jobs_with_producers(work: UnitOfWork, job_ids: Sequence[int]) -> list[EndedJob]:
    """As `lock_jobs`, and in the same order the jobs whose outputs these merge: they may end with them."""
    rows = await SQL.rows(work.connection, "producers_of_merges", job_ids=list(job_ids))
    wanted = set(job_ids)
    locked = await lock_jobs(work, sorted({*wanted, *(row["job_id"] for row in rows)}))
    return [job for job in locked if job.job_id in wanted]


async def mark_applied(
    work: UnitOfWork, job_ids: Sequence[int], changes: CounterChanges, *, status: JobStatus | None = None
) -> list[int]:
    """Mark these jobs, or those in a state, as counted; which were not before."""
    rows = await SQL.rows(work.connection, "mark_applied", job_ids=sorted(job_ids), status=status)
    for row in rows:
        changes.job_ended(row["task_id"], row["queue"], row["status"], row["core_s"])
    return [row["job_id"] for row in rows]


async def end_merging_jobs(
    work: UnitOfWork, job_ids: Sequence[int], to_status: JobStatus, reason: str, *, error: str | None = None
) -> list[EndedJob]:
    """Pre-merge jobs merging -> finished or cancelled; those that were still merging, in order."""
    await work.because(reason)
    rows = await SQL.rows(
        work.connection,
        "end_merging_jobs",
        job_ids=sorted(job_ids),
        to_status=to_status,
        error_source="generation" if error else None,
        error_dialog=error,
    )
    return sorted(
        (
            EndedJob(
                row["job_id"],
                row["task_id"],
                0,
                to_status,
                "normal",
                row["queue"],
                row["resource_type"],
                row["gshare"],
                row["user_name"],
                row["core_count"],
                "merge" if error else None,
                None,
                0,
            )
            for row in rows
        ),
        key=lambda job: job.job_id,
    )


async def files_of_jobs(work: UnitOfWork, job_ids: Sequence[int]) -> list[JobFile]:
    """Inputs and outputs of the jobs, in order of file id."""
    return _files_in(await SQL.rows(work.connection, "files_of_jobs", job_ids=sorted(job_ids)))


async def input_of_set(work: UnitOfWork, job_set_id: int) -> list[JobFile]:
    """The input of a job set that has not ended, as that of the job that owns it."""
    return _files_in(await SQL.rows(work.connection, "input_of_set", job_set_id=job_set_id))


def _files_in(rows: Sequence[asyncpg.Record]) -> list[JobFile]:
    return [
        JobFile(
            row["job_id"],
            row["is_master"],
            row["dataset_type"],
            row["file_id"],
            row["dataset_id"],
            row["status"],
            row["lfn"],
            Attempts(row["attempt_nr"], row["max_attempt"], row["failed_attempt"], row["max_failure"]),
            row["owner_id"],
            row["out_job_id"],
            row["ram_count"],
            row["events"],
            row["is_registered"],
        )
        for row in rows
    ]


async def reports(work: UnitOfWork, job_ids: Sequence[int]) -> dict[int, JobReport]:
    """Final reports of the pilots, where there are any."""
    rows = await SQL.rows(work.connection, "reports_of_jobs", job_ids=sorted(job_ids))
    return {row["job_id"]: JobReport.from_stored(row["report"]) for row in rows}


async def finish_files(work: UnitOfWork, job_ids: Sequence[int], changes: CounterChanges, reason: str) -> None:
    """Inputs and outputs of jobs that ended well, all in one statement."""
    moved: dict[tuple[int, FileStatus, FileStatus], list[int]] = {}
    for row in await SQL.rows(work.connection, "finish_files", job_ids=sorted(job_ids)):
        changes.moved(row["dataset_id"], row["type"], row["was"], row["status"], row["n_files"], row["n_events"])
        moved.setdefault((row["task_id"], row["was"], row["status"]), []).extend(row["ids"])
    await work.log_batches(
        "file", [(task_id, was, status, sorted(ids)) for (task_id, was, status), ids in sorted(moved.items())], reason
    )


async def end_inputs(
    work: UnitOfWork, task_id: int, ends: Sequence[InputEnd], changes: CounterChanges, reason: str
) -> None:
    """Inputs running -> finished, ready or failed, where the job still owns them.

    Those that are finished keep their counters: one statement changes their state alone.
    """
    finished = sorted((end.file_id, end.job_id) for end in ends if end.outcome.status == "finished")
    if finished:
        ids, job_ids = map(list, zip(*finished, strict=True))
        rows = await SQL.rows(work.connection, "finish_inputs", ids=ids, job_ids=job_ids)
        await _count_and_log(work, task_id, rows, changes, reason)
    ordered = sorted((end for end in ends if end.outcome.status != "finished"), key=lambda end: end.file_id)
    if not ordered:
        return
    rows = await SQL.rows(
        work.connection,
        "end_inputs",
        ids=[end.file_id for end in ordered],
        job_ids=[end.job_id for end in ordered],
        statuses=[end.outcome.status for end in ordered],
        attempts=[end.outcome.attempts.attempt_nr for end in ordered],
        max_attempts=[end.outcome.attempts.max_attempt for end in ordered],
        failed=[end.outcome.attempts.failed_attempt for end in ordered],
        rams=[end.ram_mb for end in ordered],
    )
    await _count_and_log(work, task_id, rows, changes, reason)


async def end_outputs(
    work: UnitOfWork, task_id: int, ends: Sequence[OutputEnd], changes: CounterChanges, reason: str
) -> None:
    """Outputs to their next state, from the one that was read; one statement for each plain step."""
    plain: dict[tuple[FileStatus, FileStatus], list[int]] = {}
    for end in ends:
        if end.is_plain:
            plain.setdefault((end.from_status, end.to_status), []).append(end.file_id)
    for (before, after), ids in sorted(plain.items()):
        rows = await SQL.rows(work.connection, "move_outputs", ids=sorted(ids), from_status=before, to_status=after)
        await _count_and_log(work, task_id, rows, changes, reason)
    ordered = sorted((end for end in ends if not end.is_plain), key=lambda end: end.file_id)
    if not ordered:
        return
    rows = await SQL.rows(
        work.connection,
        "end_outputs",
        ids=[end.file_id for end in ordered],
        from_statuses=[end.from_status for end in ordered],
        statuses=[end.to_status for end in ordered],
        sizes=[end.size_bytes for end in ordered],
        guids=[end.guid for end in ordered],
        checksums=[end.checksum for end in ordered],
        boundaries=[end.boundary_id for end in ordered],
        max_attempts=[end.max_attempt for end in ordered],
    )
    await _count_and_log(work, task_id, rows, changes, reason)


async def _count_and_log(
    work: UnitOfWork, task_id: int, rows: Sequence[asyncpg.Record], changes: CounterChanges, reason: str
) -> None:
    """Files that a statement moved (`from_status` -> `status`), by the way that they went."""
    for pair in sorted({(row["from_status"], row["status"]) for row in rows}):
        moved = [row for row in rows if (row["from_status"], row["status"]) == pair]
        store.count_moves(changes, moved, *pair)
        await store.log_moves(work, task_id, moved, *pair, reason)


async def on_hold(work: UnitOfWork, task_id: int, at_most: int) -> dict[str, list[Unit]]:
    """Unmerged outputs that wait, by queue: of at most so many jobs of each, the oldest."""
    found: dict[str, list[Unit]] = {}
    for row in await SQL.rows(work.connection, "on_hold_files", task_id=task_id, at_most=at_most):
        found.setdefault(row["queue"], []).append(store_units.unit_of(row))
    return found


async def unmerged_outputs(work: UnitOfWork, task_id: int, producer_ids: Sequence[int]) -> dict[int, list[Row]]:
    """All unmerged outputs of these jobs, by job."""
    found: dict[int, list[Row]] = {}
    for row in await SQL.rows(work.connection, "unmerged_outputs_of", task_id=task_id, job_ids=sorted(producer_ids)):
        found.setdefault(row["out_job_id"], []).append(row)
    return found


async def queues_with_unmerged_work(
    work: UnitOfWork, task_id: int, queues: Sequence[str], live: Sequence[str]
) -> set[str]:
    """Queues where jobs of the task may still come to wait for a merge."""
    rows = await SQL.rows(
        work.connection, "queues_with_unmerged_work", task_id=task_id, queues=sorted(queues), live=list(live)
    )
    return {row["queue"] for row in rows}


async def orphans(work: UnitOfWork, file_ids: Sequence[int]) -> list[int]:
    """Those of the unmerged outputs whose job does not wait to be merged any more."""
    rows = await SQL.rows(work.connection, "orphaned_outputs", ids=sorted(file_ids))
    return [row["file_id"] for row in rows]
