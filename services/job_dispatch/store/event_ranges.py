"""Ranges of events in PostgreSQL: given out, reported, and the files that they were written to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import asyncpg

from services.job_dispatch.policy.event_ranges import RangeId, RangeRow
from shared.auth.access import Whose
from shared.db.queries import Queries
from shared.model.points import PointSearch
from shared.states.event_range import CODES, EVENT_RANGE, STATUS_OF_CODE, EventRangeStatus
from shared.states.graph import Owner

SQL = Queries.beside(__file__)
OWNER = Owner.JOB_DISPATCH
#: ranges of jobs that are told at once
MOST_TOLD = 20_000
#: job sets that a jumbo job takes ranges of at once: each has one at least, and is held until the commit
SETS_AT_ONCE = 50


class TakenRange(NamedTuple):
    """A range that a job has now, as its pilot is told."""

    event_range_id: int
    range_id: RangeId
    lfn: str
    guid: str | None
    scope: str | None
    first_event: int | None
    last_event: int | None


@dataclass(frozen=True)
class WrittenFile:
    """A file with the events of ranges; `kind`: a zip file of several, or the output of one."""

    task_id: int
    job_id: int
    kind: str
    lfn: str
    obj_store_id: int | None = None
    size_bytes: int | None = None
    adler32: str | None = None
    n_events: int | None = None
    path_convention: int | None = None

    @property
    def key(self) -> tuple[int, str]:
        return self.job_id, self.lfn


class RangeDetails(NamedTuple):
    """What a report says beside the state; None leaves what is stored."""

    job_id: int
    error_code: int | None = None
    error_diag: str | None = None
    obj_store_id: int | None = None
    zip_row_id: int | None = None


class RangeState(NamedTuple):
    """A range as people and clients see it."""

    range_id: RangeId
    status: EventRangeStatus
    error_code: int | None
    error_diag: str | None

    def without_errors(self) -> RangeState:
        """What those see of it who may not have the details of its task."""
        return self._replace(error_code=None, error_diag=None)


def allowed_sources(target: EventRangeStatus) -> list[int]:
    """The numbers of the states from which this service may move a range."""
    return [CODES[status] for status in EVENT_RANGE.sources(target, OWNER)]


async def take_ranges(connection: asyncpg.Connection, task_id: int, job_id: int, n_ranges: int) -> list[TakenRange]:
    """Take ranges of the job's input that nobody has, now `sent` to it, in the order of files and events."""
    rows = await SQL.rows(
        connection, "take_ranges", task_id=task_id, job_id=job_id, n_ranges=n_ranges, to_status=CODES["sent"],
        allowed=allowed_sources("sent"),
    )  # fmt: skip
    return _taken(rows, job_id)


async def take_ranges_of_task(
    connection: asyncpg.Connection, task_id: int, job_id: int, n_ranges: int
) -> list[TakenRange]:
    """Take ranges of the task that nobody has, now `sent` to its jumbo job (JEDI: Jumbo jobs).

    They may be of any job set.

    The sets are locked here, in the order in which everybody locks them.
    """
    rows = await SQL.rows(connection, "lock_sets_with_ranges", task_id=task_id, at_most=min(n_ranges, SETS_AT_ONCE))
    rows = await SQL.rows(
        connection, "take_ranges_of_sets", task_id=task_id, set_ids=[row["job_set_id"] for row in rows], job_id=job_id,
        n_ranges=n_ranges, to_status=CODES["sent"], allowed=allowed_sources("sent"),
    )  # fmt: skip
    return _taken(rows, job_id)


def _taken(rows: Sequence[asyncpg.Record], job_id: int) -> list[TakenRange]:
    return [
        TakenRange(
            row["event_range_id"],
            RangeId(row["task_id"], job_id, row["file_id"], row["job_process_id"], row["attempt_nr"]),
            row["lfn"], row["guid"], row["scope"], row["def_min_event_id"], row["def_max_event_id"],
        )
        for row in rows
    ]  # fmt: skip


async def plan_once(connection: asyncpg.Connection) -> None:
    """Plan statements once for all values until the commit, and read tables by their indexes."""
    await SQL.run(connection, "plan_once")


async def lock_sets_of_jobs(connection: asyncpg.Connection, job_ids: Sequence[int]) -> list[int]:
    """Hold the job sets of jobs, whose counters follow their ranges, until the commit: in order of tasks.

    Returns those that search points.
    """
    rows = await SQL.rows(connection, "lock_sets_of_jobs", job_ids=sorted(job_ids))
    return [row["job_set_id"] for row in rows if row["is_search"]]


async def open_points(connection: asyncpg.Connection, job_set_id: int) -> list[int]:
    """Open the next points of a search whose set is held: their ready ranges; none before their time."""
    row = await SQL.row(connection, "search_of_set", job_set_id=job_set_id)
    if row is None:
        return []
    *search, n_unevaluated = row
    n_points = PointSearch(*search).next_points(n_unevaluated)
    if not n_points:
        return []
    rows = await SQL.rows(connection, "open_points", job_set_id=job_set_id, n_points=n_points)
    return [row["event_range_id"] for row in rows]


async def lock_sets_of_ranges(connection: asyncpg.Connection, range_ids: Sequence[RangeId]) -> None:
    """Hold the job sets of these ranges, whose counters follow them, until the commit: task by task."""
    for task_id, of_task in _by_task(range_ids).items():
        await SQL.run(connection, "lock_sets_of_ranges", task_id=task_id, **_names(of_task))


def _by_task(range_ids: Sequence[RangeId]) -> dict[int, list[RangeId]]:
    """Each range once, in order: those of a task are in one partition."""
    found: dict[int, list[RangeId]] = {}
    for one in sorted(set(range_ids)):
        found.setdefault(one.task_id, []).append(one)
    return found


def _names(range_ids: Sequence[RangeId]) -> dict[str, Any]:
    return {
        "file_ids": [one.file_id for one in range_ids],
        "process_ids": [one.process_id for one in range_ids],
        "attempts": [one.attempt_nr for one in range_ids],
    }


async def count_ready(connection: asyncpg.Connection, task_id: int, job_id: int) -> int:
    """Count the ranges that the job could be given now."""
    return int(await SQL.value(connection, "count_ready", task_id=task_id, job_id=job_id))


async def count_ready_of_task(connection: asyncpg.Connection, task_id: int) -> int:
    """Count the ranges that a jumbo job of the task could be given now."""
    return int(await SQL.value(connection, "count_ready_of_task", task_id=task_id))


async def named_ranges(connection: asyncpg.Connection, range_ids: Sequence[RangeId]) -> dict[RangeId, RangeRow]:
    """Read the rows that pilots name so. Their jobs and job sets are held."""
    found = {}
    for task_id, of_task in _by_task(range_ids).items():
        job_ids = [one.job_id for one in of_task]
        rows = await SQL.rows(connection, "named_ranges", task_id=task_id, job_ids=job_ids, **_names(of_task))
        for row in rows:
            found[of_task[row["place"]]] = RangeRow(
                row["event_range_id"], STATUS_OF_CODE[row["status"]], row["job_id"], row["attempt_nr"], row["is_input"]
            )
    return found


async def move_ranges(
    connection: asyncpg.Connection, task_id: int, to_status: EventRangeStatus, details: dict[int, RangeDetails]
) -> list[int]:
    """Move ranges of a task by id; those that may not take the step are left as they are."""
    said = list(details.values())
    rows = await SQL.rows(
        connection, "move_ranges",
        task_id=task_id, to_status=CODES[to_status], allowed=allowed_sources(to_status),
        is_processed=to_status == "finished",
        ids=list(details), job_ids=[one.job_id for one in said], error_codes=[one.error_code for one in said],
        error_diags=[one.error_diag for one in said], obj_store_ids=[one.obj_store_id for one in said],
        zip_row_ids=[one.zip_row_id for one in said],
    )  # fmt: skip
    return [row["event_range_id"] for row in rows]


async def copy_failed(connection: asyncpg.Connection, task_id: int, event_range_ids: Sequence[int]) -> list[int]:
    """Insert the next attempts of failed ranges of a task, ready; their rows."""
    rows = await SQL.rows(
        connection, "copy_failed", task_id=task_id, ids=list(event_range_ids), to_status=CODES["ready"]
    )
    return [row["event_range_id"] for row in rows]


async def note_refused(connection: asyncpg.Connection, refused: Mapping[tuple[int, int], tuple[int, str]]) -> None:
    """Count reports that changed nothing, by (task, job): how many, and why the last one."""
    if refused:
        ordered = sorted(refused)
        await SQL.run(
            connection, "note_refused", task_ids=[task_id for task_id, _ in ordered],
            job_ids=[job_id for _, job_id in ordered], numbers=[refused[one][0] for one in ordered],
            reasons=[refused[one][1][:400] for one in ordered],
        )  # fmt: skip


async def note_files(connection: asyncpg.Connection, files: Sequence[WrittenFile]) -> dict[tuple[int, str], int]:
    """Record files; the id of each by job and name. Of two reports of one file the later is kept."""
    last = {one.key: one for one in files}
    kept = [last[key] for key in sorted(last)]
    rows = await SQL.rows(
        connection, "note_files",
        task_ids=[one.task_id for one in kept], job_ids=[one.job_id for one in kept],
        kinds=[one.kind for one in kept], lfns=[one.lfn for one in kept],
        obj_store_ids=[one.obj_store_id for one in kept], sizes=[one.size_bytes for one in kept],
        adler32s=[one.adler32 for one in kept], n_events=[one.n_events for one in kept],
        path_conventions=[one.path_convention for one in kept],
    )  # fmt: skip
    return {(row["job_id"], row["lfn"]): row["zip_row_id"] for row in rows}


async def whose_tasks(connection: asyncpg.Connection, task_ids: Iterable[int]) -> dict[int, Whose]:
    """Read whose these tasks are; without those that there are not."""
    rows = await SQL.rows(connection, "whose_tasks", task_ids=sorted(set(task_ids)))
    return {row["task_id"]: Whose.of(row["owner"], row["vo"]) for row in rows}


async def range_states(connection: asyncpg.Connection, pairs: Sequence[tuple[int, int]]) -> list[RangeState]:
    """Read ranges of (task, job); at most `MOST_TOLD`."""
    distinct = sorted(set(pairs))
    rows = await SQL.rows(
        connection, "statuses", task_ids=[task for task, _ in distinct], job_ids=[job for _, job in distinct],
        at_most=MOST_TOLD,
    )  # fmt: skip
    return [
        RangeState(
            RangeId(row["task_id"], row["job_id"], row["file_id"], row["job_process_id"], row["attempt_nr"]),
            STATUS_OF_CODE[row["status"]], row["error_code"], row["error_diag"],
        )
        for row in rows
    ]  # fmt: skip
