"""Job sets that wait for real co-jumbo jobs, in PostgreSQL (JEDI: NFILESWAITING, IS_WAITING)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)
#: job sets that one offer asks queues for
SETS_OF_OFFER = 200


@dataclass(frozen=True)
class SetsOfOffer:
    """Sets that one offer asks queues for, in order, and whether more follow in this round."""

    ids: list[int]
    more_follow: bool


async def waiting_sets(work: UnitOfWork, task_id: int) -> SetsOfOffer:
    """Sets that a real co-jumbo job could work on: the next of the round, or the first of another."""
    rows = await SQL.rows(work.connection, "waiting_sets", task_id=task_id, at_most=SETS_OF_OFFER + 1)
    if not rows and await _begin_round(work, task_id):
        return await waiting_sets(work, task_id)
    return SetsOfOffer([row["job_set_id"] for row in rows[:SETS_OF_OFFER]], len(rows) > SETS_OF_OFFER)


async def note_asked(work: UnitOfWork, task_id: int, sets: SetsOfOffer) -> None:
    """Queues were asked for these sets: those behind them come next, after the last of all the first."""
    after = sets.ids[-1] if sets.more_follow else 0
    await SQL.run(work.connection, "ask_after", task_id=task_id, job_set_id=after)


async def _begin_round(work: UnitOfWork, task_id: int) -> bool:
    """Whether another round began: False where one had just begun."""
    return await SQL.run(work.connection, "ask_after", task_id=task_id, job_set_id=0) > 0


async def offer_for_sets(
    work: UnitOfWork, chunk_id: int, task_id: int, set_ids: Sequence[int], *, priority: int
) -> bool:
    """A chunk that asks the brokerage for queues for these sets; False where they have no input any more."""
    found = await SQL.value(
        work.connection, "offer_for_sets", chunk_id=chunk_id, task_id=task_id, set_ids=list(set_ids),
        priority=priority, max_jobs=len(set_ids),
    )  # fmt: skip
    return found is not None


async def place_sets(work: UnitOfWork, set_ids: Sequence[int], queues: Sequence[tuple[str, str]]) -> None:
    """Ranked queues of sets that waited for some."""
    await SQL.run(work.connection, "place_sets", set_ids=list(set_ids), queues=[list(one) for one in queues])


async def note_waiting(work: UnitOfWork, set_ids: Sequence[int]) -> None:
    """Columns IS_WAITING and NFILESWAITING as the jobs of these sets are now."""
    if set_ids:
        await SQL.run(work.connection, "note_waiting", set_ids=sorted(set_ids))


async def ask_at(work: UnitOfWork, task_id: int, retry_at: datetime | None) -> None:
    """When queues are asked for again for sets that wait; None: with the next change of the task."""
    await SQL.run(work.connection, "ask_at", task_id=task_id, retry_at=retry_at)


async def forget_due(work: UnitOfWork, task_id: int) -> None:
    """The time has come."""
    await SQL.run(work.connection, "forget_due", task_id=task_id)


async def ask_by(work: UnitOfWork, task_id: int, retry_at: datetime) -> None:
    """When queues are asked for again at the latest: a time that was set before stays."""
    await SQL.run(work.connection, "ask_by", task_id=task_id, retry_at=retry_at)


async def ask_anew(work: UnitOfWork, task_id: int) -> None:
    """Queues are asked for again at once, beginning with the set behind those that were asked for last."""
    await SQL.run(work.connection, "ask_anew", task_id=task_id)


async def hold_set(work: UnitOfWork, job_set_id: int, retry_at: datetime) -> None:
    """No job is made for a set until then, unless it is woken before."""
    await SQL.run(work.connection, "hold_set", job_set_id=job_set_id, retry_at=retry_at)


async def release_sets(work: UnitOfWork, task_id: int) -> None:
    """Job sets of the task, and its jumbo jobs, need not wait longer."""
    await SQL.run(work.connection, "release_sets", task_id=task_id)
    await ask_at(work, task_id, None)


async def due_tasks(work: UnitOfWork, statuses: Sequence[str], at_most: int) -> list[int]:
    """Tasks for whose waiting sets queues are to be asked for again."""
    rows = await SQL.rows(work.connection, "due_tasks", statuses=list(statuses), at_most=at_most)
    return [row["task_id"] for row in rows]


async def queues_of_live_jumbo(work: UnitOfWork, task_id: int) -> list[tuple[str, str]]:
    """(queue, resource type) of the jumbo jobs that may take ranges."""
    return [(row[0], row[1]) for row in await SQL.rows(work.connection, "queues_of_live_jumbo", task_id=task_id)]
