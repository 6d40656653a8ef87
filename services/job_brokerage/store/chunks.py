"""SQL of the decisions: the offered chunk with its task, and the decision as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import asyncpg

from services.job_brokerage.policy.request import TaskHistory
from shared.brokerage.decision import Decision
from shared.brokerage.matchmaking import Advert
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.snapshot.inputs import history_of_task

SQL = Queries.beside(__file__)

KEPT_PER_TASK = 20
KEPT_DAYS = 7


async def chunk_with_task(
    connection: asyncpg.Connection, chunk_id: int, *, must_wait: bool = True
) -> Mapping[str, Any] | None:
    """Read the chunk with its task; None if there is none, or if it must wait and does not."""
    row = await SQL.row(connection, "chunk_with_task", chunk_id=chunk_id, must_wait=must_wait)
    return None if row is None else dict(row)


async def last_chunk(connection: asyncpg.Connection, task_id: int) -> int | None:
    """Find the newest chunk of a task."""
    found: int | None = await SQL.value(connection, "last_chunk", task_id=task_id)
    return found


async def task_history(connection: asyncpg.Connection, task_id: int) -> TaskHistory:
    """Read how far a task is, and where it has had jobs."""
    row = await history_of_task(connection, task_id)
    return TaskHistory(row["n_files"], row["n_finished"], tuple(row["queues_used"]))


async def site_adverts(connection: asyncpg.Connection) -> tuple[Advert, ...]:
    """Read what sites advertised within the last minutes."""
    return tuple([Advert.of(dict(row)) for row in await SQL.rows(connection, "live_adverts")])


async def save_decision(work: UnitOfWork, decision: Decision) -> int:
    """Store a decision with all its numbers; its id."""
    decision_id: int = await SQL.value(work.connection, "insert_decision", **decision.packed())
    return decision_id


async def forget_old_decisions(work: UnitOfWork) -> None:
    """Delete decisions that are not recent; periodic.

    The last ones of each task and kind are kept for a week, and of tasks at work the very last.
    """
    older_than = work.now - timedelta(days=KEPT_DAYS)
    await SQL.run(work.connection, "forget_decisions", keep=KEPT_PER_TASK, older_than=older_than)
