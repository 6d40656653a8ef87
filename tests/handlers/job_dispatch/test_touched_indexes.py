"""What is written most often touches no index."""

from __future__ import annotations

import asyncpg

from services.job_dispatch.store import jobs as store
from tests.handlers.job_dispatch.grid_of_jobs import Rows


async def hot_updates(connection: asyncpg.Connection, table: str) -> tuple[int, int]:
    """Rows of a table that this transaction changed, and those of them for which no index was touched."""
    row = await connection.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = $1", table
    )
    assert row is not None
    return row["n_tup_upd"], row["n_tup_hot_upd"]


async def test_heartbeats_touch_no_index(rows: Rows) -> None:
    ids = await rows.jobs(500, status="running")
    async with rows.database.begin(reason="heartbeats") as work:
        await store.heartbeats(work.connection, ids[::5])
        assert await hot_updates(work.connection, "jobs") == (100, 100)


async def test_a_command_for_a_pilot_touches_no_index(rows: Rows) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with rows.database.begin(reason="command") as work:
        assert await store.set_command(work.connection, job_id, "debug")
        assert await hot_updates(work.connection, "jobs") == (1, 1)
