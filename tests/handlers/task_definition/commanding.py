"""Commands over HTTP, and what they announce."""

from __future__ import annotations

import httpx

from shared.db import Database
from tests.handlers.task_definition.steps import rows_of


async def command(client: httpx.AsyncClient, verb: str, task_id: int, **details: object) -> dict:
    return (await client.post(f"/api/v1/task/{verb}", json={"task_id": task_id, **details})).json()


async def announced(database: Database) -> list[str]:
    rows = await rows_of(database, "SELECT routing_key FROM outbox WHERE routing_key LIKE 'task%' ORDER BY event_id")
    return [row["routing_key"] for row in rows]
