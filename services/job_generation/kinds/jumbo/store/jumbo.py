"""Jumbo jobs, and the job sets that they take ranges of, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.job_generation.kinds.event_service.store.job_set_ranges import HeldRange
from services.job_generation.policy.values import Unit, UseJumbo
from services.job_generation.store.units import unit_of
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.event_range import CODES, STATUS_OF_CODE
from shared.states.job import JobStatus

SQL = Queries.beside(__file__)
#: files that a jumbo job is told before it takes ranges of them; those of later ranges come with these
MOST_FILES = 1000
#: job sets that are looked at in one transaction
SETS_AT_ONCE = 500
#: behind this (task, set) are all
FIRST_SLICE = (0, 0)


@dataclass(frozen=True)
class JumboJob:
    """A jumbo job; `status` is None once its end was counted, `was_closed`: it was taken back."""

    job_id: int
    queue: str
    site: str
    n_processed: int
    was_closed: bool
    status: JobStatus | None


async def count_ready(work: UnitOfWork, task_id: int) -> int:
    """Ranges of a task that nobody has."""
    return int(await SQL.value(work.connection, "count_ready", task_id=task_id))


async def waits_for_a_site(work: UnitOfWork, task_id: int, part: str) -> bool:
    """Whether sites did not take jumbo jobs of a task, and nothing has lifted that since."""
    return bool(await SQL.value(work.connection, "waits_for_a_site", task_id=task_id, part=part))


async def has_open_set(work: UnitOfWork, task_id: int) -> bool:
    """Whether there may be something for jumbo jobs of a task."""
    return bool(await SQL.value(work.connection, "has_open_set", task_id=task_id))


async def first_set(work: UnitOfWork, task_id: int) -> tuple[int, int] | None:
    """The first open set with a range that nobody has, and its chunk."""
    row = await SQL.row(work.connection, "first_set", task_id=task_id)
    return None if row is None else (row["job_set_id"], row["chunk_id"])


async def queues_of_task(work: UnitOfWork, task_id: int) -> list[tuple[str, str]]:
    """(queue, resource type) ranked for the open job sets of a task, then those for jumbo jobs."""
    return [(row[0], row[1]) for row in await SQL.rows(work.connection, "queues_of_task", task_id=task_id)]


async def note_queues(work: UnitOfWork, task_id: int, queues: Sequence[tuple[str, str]]) -> None:
    """(queue, resource type) for jumbo jobs that passed the last brokerage of a task, ranked or not."""
    await SQL.run(work.connection, "note_queues", task_id=task_id, queues=[list(one) for one in queues])


async def masters_of_open_sets(work: UnitOfWork, task_id: int) -> tuple[Unit, ...]:
    """Input of the open job sets, at most `MOST_FILES`."""
    rows = await SQL.rows(work.connection, "masters_of_open_sets", task_id=task_id, at_most=MOST_FILES)
    return tuple(unit_of(row) for row in rows)


async def insert(work: UnitOfWork, task_id: int, jobs: Sequence[tuple[int, str, str]]) -> None:
    """New jumbo jobs: (job, queue, site)."""
    job_ids, queues, sites = (list(one) for one in zip(*jobs, strict=True))
    await SQL.run(work.connection, "insert_jumbo", task_id=task_id, job_ids=job_ids, queues=queues, sites=sites)


async def jumbo_of_task(work: UnitOfWork, task_id: int) -> list[JumboJob]:
    """All jumbo jobs that the task ever had, in their order."""
    return [JumboJob(*row) for row in await SQL.rows(work.connection, "jumbo_of_task", task_id=task_id)]


async def sets_of_jumbo(work: UnitOfWork, task_id: int, job_ids: Sequence[int]) -> list[int]:
    """Open job sets of which these jumbo jobs of a task have ranges that are not done, or failed ones."""
    if not job_ids:
        return []
    rows = await SQL.rows(work.connection, "sets_of_jumbo", task_id=task_id, job_ids=sorted(job_ids))
    return [row["job_set_id"] for row in rows]


async def end(work: UnitOfWork, task_id: int, job_id: int, *, was_closed: bool) -> None:
    """The end of a jumbo job is counted, with what it processed, and whether it was taken back."""
    n_processed = await SQL.value(work.connection, "processed_by_jumbo", task_id=task_id, job_id=job_id)
    await SQL.run(work.connection, "end_jumbo", job_id=job_id, n_processed=n_processed, was_closed=was_closed)


async def finished_by_jumbo(work: UnitOfWork, task_id: int, job_set_id: int) -> list[HeldRange]:
    """Ranges of a set that jumbo jobs processed and that are not done, locked."""
    rows = await SQL.rows(
        work.connection, "ranges_by_jumbo", task_id=task_id, job_set_id=job_set_id, finished=CODES["finished"]
    )
    return [HeldRange(row[0], STATUS_OF_CODE[row[1]], row[2]) for row in rows]


async def processed_sets(
    work: UnitOfWork, statuses: Sequence[str], after: tuple[int, int] = FIRST_SLICE
) -> tuple[dict[int, list[int]], tuple[int, int]]:
    """Open job sets by task that wait for no range, of tasks in these states, and where to go on.

    At most `SETS_AT_ONCE` behind (task, set) `after`; after the last slice it begins again.
    """
    found: dict[int, list[int]] = {}
    rows = await SQL.rows(
        work.connection, "processed_sets", statuses=list(statuses), after_task=after[0], after_set=after[1],
        at_most=SETS_AT_ONCE,
    )  # fmt: skip
    for row in rows:
        found.setdefault(row["task_id"], []).append(row["job_set_id"])
    return found, tuple(rows[-1]) if len(rows) == SETS_AT_ONCE else FIRST_SLICE


async def jobs_of_sets(work: UnitOfWork, set_ids: Sequence[int]) -> list[int]:
    """All jobs of these sets."""
    return [row["job_id"] for row in await SQL.rows(work.connection, "jobs_of_sets", set_ids=sorted(set_ids))]


async def note_use(work: UnitOfWork, task_id: int, use_jumbo: UseJumbo) -> None:
    """Column USEJUMBO of a task whose row is locked."""
    await SQL.run(work.connection, "note_use", task_id=task_id, use_jumbo=use_jumbo)
