"""How many rows a statement reads, by PostgreSQL's own account."""

from __future__ import annotations

import json
from typing import Any

import asyncpg


async def rows_read(connection: asyncpg.Connection, statement: str, arguments: tuple[object, ...]) -> int:
    """How many rows the scans of a statement looked at, those that it left out too, but for the few of statistics.

    Nothing is changed.
    """
    transaction = connection.transaction()
    await transaction.start()
    try:
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
    finally:
        await transaction.rollback()

    def of(node: dict[str, Any]) -> int:
        below = sum(map(of, node.get("Plans", [])))
        of_rows = "Relation Name" in node and node["Relation Name"] not in ("queue_statistics", "queue_activity")
        if not of_rows or not node["Node Type"].endswith("Scan"):
            return below
        removed = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
        return below + (node["Actual Rows"] + removed) * node["Actual Loops"]

    return of((json.loads(text) if isinstance(text, str) else text)[0]["Plan"])
