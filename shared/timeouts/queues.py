"""What time-out rules are told of the queues of a grid."""

from __future__ import annotations

import asyncpg

from shared.db.queries import Queries
from shared.model.grid import Grid
from shared.timeouts.rule import WatchedQueue

SQL = Queries.beside(__file__)


async def queue_facts(connection: asyncpg.Connection, grid: Grid, only: str | None = None) -> dict[str, WatchedQueue]:
    """Read the facts of every queue, or of one alone."""
    rows = await SQL.rows(connection, "last_starts", queue=only)
    started = {row["queue"]: row["last_job_start_at"] for row in rows}
    return {
        name: WatchedQueue(
            status=queue.status.value,
            workflow=queue.workflow,
            disable_reassign=queue.has("disableReassign"),
            last_job_start_at=started.get(name),
            transfer_time_high_days=queue.transfer_time_high_days,
            transfer_time_low_days=queue.transfer_time_low_days,
        )
        for name, queue in grid.queues.items()
        if only in (None, name)
    }
