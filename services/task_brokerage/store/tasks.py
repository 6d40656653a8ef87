"""SQL of task brokerage: the assigning task, work of nuclei, the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import asyncpg

from shared.brokerage.decision import Decision
from shared.brokerage.nucleus import RemainingWork
from shared.brokerage.smallest_job import Boundary
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.whole_numbers import LARGEST_ID
from shared.states import TASK, Owner

SQL = Queries.beside(__file__)

UNITS_LOOKED_AT = 100_000
# Parameters of the statements and the columns that fill them.
_SUMS = {"nuclei": "nucleus", "priorities": "priority", "hs06_s": "hs06_s"}

MAY_BECOME_READY = TASK.sources("ready", Owner.TASK_BROKERAGE)


async def assigning_task(work: UnitOfWork, task_id: int) -> Mapping[str, Any] | None:
    """Lock the task until the commit; None if it is not (any more) waiting for a nucleus."""
    row = await SQL.row(work.connection, "assigning_task", task_id=task_id)
    return None if row is None else dict(row)


async def largest_boundary(work: UnitOfWork, task_id: int) -> Boundary | None:
    """Read the largest boundary of the task's input; None where its units have none."""
    row = await SQL.row(work.connection, "largest_boundary", task_id=task_id, most_units=UNITS_LOOKED_AT)
    return None if row is None else Boundary(*(int(one) for one in row))


async def remaining_work(work: UnitOfWork, priority: int) -> dict[str, RemainingWork]:
    """Read RW of each nucleus that has work, in total and of tasks with at least `priority`."""
    return {
        row["nucleus"]: RemainingWork(float(row["total_hs06_s"]), float(row["at_least_priority_hs06_s"]))
        for row in await SQL.rows(work.connection, "remaining_work", priority=priority)
    }


async def note_work(work: UnitOfWork, task_id: int) -> None:
    """Bring the RW of one task, and with it that of its nucleus, up to what the task has left.

    Looks without any lock first: most tasks have no nucleus, or use their events seldom.
    """
    if not await _changed_work(work, task_id, task_id, 1):
        return
    await SQL.value(work.connection, "lock_work", task_id=task_id)
    await _store_work(work, await _changed_work(work, task_id, task_id, 1))


async def correct_work(work: UnitOfWork, max_tasks: int) -> int:
    """Bring wrong RW of tasks up to date, lowest ids first, and all sums; the number of tasks.

    Looks without any lock; where there is something to correct, everybody else who notes work waits.
    """
    wrong = await _changed_work(work, 0, LARGEST_ID, max_tasks)
    if not wrong and not await _wrong_sums(work):
        return 0
    await SQL.value(work.connection, "lock_all_work")
    if wrong:
        wrong = await _changed_work(work, wrong[0]["task_id"], wrong[-1]["task_id"], max_tasks)
        await _store_work(work, wrong)
    sums = await _wrong_sums(work)
    if sums:
        columns: dict[str, Any] = {key: [row[name] for row in sums] for key, name in _SUMS.items()}
        await SQL.run(work.connection, "store_sums", **columns)
    return len(wrong)


async def _changed_work(work: UnitOfWork, first: int, last: int, max_rows: int) -> list[asyncpg.Record]:
    return await SQL.rows(work.connection, "changed_work", first_task_id=first, last_task_id=last, max_rows=max_rows)


async def _store_work(work: UnitOfWork, rows: list[asyncpg.Record]) -> None:
    if rows:
        columns: dict[str, Any] = {
            key: [row[name] for row in rows] for key, name in (_SUMS | {"task_ids": "task_id"}).items()
        }
        await SQL.run(work.connection, "store_work", **columns)


async def _wrong_sums(work: UnitOfWork) -> list[asyncpg.Record]:
    return await SQL.rows(work.connection, "wrong_sums")


async def save_decision(work: UnitOfWork, decision: Decision) -> int:
    """Store a decision with all its numbers; its id."""
    decision_id: int = await SQL.value(work.connection, "insert_decision", **decision.packed())
    return decision_id


async def assign(work: UnitOfWork, task_id: int, nucleus: str) -> None:
    """Move a task assigning -> ready at a nucleus."""
    await SQL.run(work.connection, "assign_nucleus", task_id=task_id, nucleus=nucleus, allowed=MAY_BECOME_READY)


async def keep_waiting(work: UnitOfWork, task_id: int, retry_at: datetime, reason: str) -> None:
    """Keep a task assigning, with the reason and the time when it is looked at again."""
    await SQL.run(work.connection, "keep_waiting", task_id=task_id, retry_at=retry_at, reason=reason)
