"""The queries that run all the time must stay cheap when a table is large."""

from __future__ import annotations

import orjson

from shared.db import Database
from shared.messaging import in_process, ledger, relay
from tests.integration.messaging.bus import rows


async def _plan(database: Database, query: str, *arguments: object) -> str:
    found = await rows(database, f"EXPLAIN (FORMAT JSON) {query}", *arguments)
    plan = found[0]["QUERY PLAN"]
    return plan if isinstance(plan, str) else orjson.dumps(plan).decode()


async def test_a_long_outbox_is_read_from_its_beginning_without_a_scan(database: Database) -> None:
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO outbox (routing_key, body, producer)"
            " SELECT 'task.defined.v1', '{}', 'test' FROM generate_series(1, 50000)"
        )
        await connection.execute("ANALYZE outbox")
    for query, arguments in ((relay._TAKE, (40_000, [1, 2], 500, "12s")), (in_process._LOAD, ([1, 2], 500))):
        plan = await _plan(database, query, *arguments)
        assert "outbox_pkey" in plan, plan
        assert "Seq Scan" not in plan and '"Sort"' not in plan, plan


async def test_due_messages_are_found_by_their_time(database: Database) -> None:
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO deferred_messages (event_id, consumer, routing_key, body, reason, retry_at)"
            " SELECT n, 'watchdog.task-defined', 'task.defined.v1', '{}', 'later', orrery_now() + interval '1 day'"
            " FROM generate_series(1, 50000) AS n"
        )
        await connection.execute("ANALYZE deferred_messages")
    plan = await _plan(database, ledger._CLAIM_DUE, ["watchdog.task-defined"], 100, 60.0)
    assert "deferred_messages_due" in plan, plan
    assert "Seq Scan" not in plan, plan
