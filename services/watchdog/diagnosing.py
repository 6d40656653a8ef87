"""Tells operators the condition of the system: what is away, stuck, slow and large."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import asyncpg

from services.watchdog.policy.condition import findings
from services.watchdog.store import condition as store

SERVICES = (
    "task-definition", "task-brokerage", "job-generation", "job-brokerage", "job-dispatch", "watchdog",
    "jumbo-watchdog", "share-correction",
)  # fmt: skip


async def condition(connection: asyncpg.Connection) -> dict[str, Any]:
    """Read all of it, as of one moment."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        now = await connection.fetchval("SELECT orrery_now()")
        leases = await store.rows(connection, "leases_by_service")
        messages = dict((await store.rows(connection, "messages_waiting"))[0])
        waiting = await store.waiting(connection)
        found = findings(now, services=SERVICES, leases=leases, messages=messages, waiting=waiting)
        return {
            "findings": [asdict(one) for one in found],
            "services": [{**one, "runs": bool(one["n_kept"])} for one in leases if one["service"] in SERVICES],
            "messages": messages,
            "queues_of_bus": await store.rows(connection, "bus_queues", at_most=store.MOST_QUEUES),
            "deferred": await store.rows(connection, "deferred_by_consumer"),
            "tasks": await store.live_tasks(connection),
            "jobs": await store.rows(connection, "jobs_by_status"),
            "slow": await store.rows(connection, "slow_sessions"),
            "database": (await store.rows(connection, "size_of_database"))[0],
            "tables": await store.rows(connection, "sizes_of_tables", at_most=store.MOST_LISTED),
        }
