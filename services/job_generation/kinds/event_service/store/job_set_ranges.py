"""Ranges of job sets in PostgreSQL: released, done, merged, given up, and tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.event_range import CODES, EVENT_RANGE, STATUS_OF_CODE, USED_UP, EventRangeStatus
from shared.states.graph import Owner

SQL = Queries.beside(__file__)
OWNER = Owner.JOB_GENERATION


@dataclass(frozen=True)
class HeldRange:
    """A range whose row is locked."""

    event_range_id: int
    status: EventRangeStatus
    attempt_nr: int


async def ranges_of_job(
    work: UnitOfWork, task_id: int, job_id: int, job_set_id: int, states: Sequence[EventRangeStatus]
) -> list[HeldRange]:
    """Ranges of a set that a job has in these states, locked."""
    codes = [CODES[one] for one in states]
    rows = await SQL.rows(
        work.connection, "ranges_of_job", task_id=task_id, job_id=job_id, job_set_id=job_set_id, states=codes
    )
    return [HeldRange(row[0], STATUS_OF_CODE[row[1]], row[2]) for row in rows]


async def ranges_of_set(
    work: UnitOfWork, task_id: int, job_set_id: int, states: Sequence[EventRangeStatus]
) -> list[HeldRange]:
    """Ranges of a set in these states, locked."""
    codes = [CODES[one] for one in states]
    rows = await SQL.rows(work.connection, "ranges_of_set", task_id=task_id, job_set_id=job_set_id, states=codes)
    return [HeldRange(row[0], STATUS_OF_CODE[row[1]], row[2]) for row in rows]


async def move_ranges(
    work: UnitOfWork,
    task_id: int,
    ranges: Sequence[HeldRange],
    to_status: EventRangeStatus,
    reason: str,
    *,
    attempts: int = 0,
) -> int:
    """Ranges to a state, with so many attempts less; how many moved."""
    if not ranges:
        return 0
    allowed = [CODES[one] for one in EVENT_RANGE.sources(to_status, OWNER)]
    rows = await SQL.rows(
        work.connection, "move_ranges", task_id=task_id, ids=[one.event_range_id for one in ranges],
        to_status=CODES[to_status], allowed=allowed, attempts=attempts, is_used_up=to_status in USED_UP,
    )  # fmt: skip
    moved = {row["event_range_id"] for row in rows}
    for before in sorted({one.status for one in ranges}):
        ids = [one.event_range_id for one in ranges if one.status == before and one.event_range_id in moved]
        await _log(work, task_id, ids, before, to_status, reason)
    return len(moved)


async def copy_ranges(work: UnitOfWork, task_id: int, ranges: Sequence[HeldRange], reason: str) -> int:
    """The next attempts of ranges whose result is not used; how many."""
    ids = [one.event_range_id for one in ranges]
    rows = await SQL.rows(work.connection, "copy_ranges", task_id=task_id, ids=ids) if ids else []
    await _log(work, task_id, [row["event_range_id"] for row in rows], None, "ready", reason)
    return len(rows)


async def _log(
    work: UnitOfWork,
    task_id: int,
    ids: Sequence[int],
    before: EventRangeStatus | None,
    after: EventRangeStatus,
    reason: str,
) -> None:
    if ids:
        await work.log_files(
            entity="event_range", task_id=task_id, ids=sorted(ids), from_status=before, to_status=after, reason=reason
        )
