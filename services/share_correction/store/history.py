"""Reads what was used over time."""

from __future__ import annotations

from typing import Any

import asyncpg

from shared.auth.reach import Reach
from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def use_over_time(
    connection: asyncpg.Connection, gshare: str | None, span_s: float, width_s: int, reach: Reach
) -> list[dict[str, Any]]:
    """Read use by bucket and name, the oldest first."""
    rows = await SQL.rows(
        connection, "use_over_time", gshare=gshare, span_s=float(span_s), width_s=width_s, **reach._asdict()
    )
    return [dict(row) for row in rows]
