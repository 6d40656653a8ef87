"""SQL of the decisions: the offered chunk with its task, and the decision as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from services.job_brokerage.policy.request import TaskHistory
from shared.brokerage.decision import Decision
from shared.brokerage.matchmaking import Advert
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.snapshot.inputs import history_of_task

SQL = Queries.beside(__file__)

KEPT_PER_TASK = 20
KEPT_DAYS = 7


async def offered_chunk(work: UnitOfWork, chunk_id: int) -> Mapping[str, Any] | None:
    """Read the chunk with its task; None if it no longer waits for queues."""
    row = await SQL.row(work.connection, "offered_chunk", chunk_id=chunk_id)
    return None if row is None else dict(row)


async def task_history(work: UnitOfWork, task_id: int) -> TaskHistory:
    """Read how far a task is, and where it has had jobs."""
    row = await history_of_task(work.connection, task_id)
    return TaskHistory(row["n_files"], row["n_finished"], tuple(row["queues_used"]))


async def site_adverts(work: UnitOfWork) -> tuple[Advert, ...]:
    """Read what sites advertised within the last minutes."""
    return tuple([Advert.of(dict(row)) for row in await SQL.rows(work.connection, "live_adverts")])


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
