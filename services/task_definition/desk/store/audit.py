"""The audit log: which command who gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asyncpg

from shared.auth import Caller
from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def audit(
    connection: asyncpg.Connection,
    *,
    caller: Caller,
    verb: str,
    target: str,
    outcome: str = "accepted",
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add one line of who did what."""
    await SQL.run(
        connection,
        "audit",
        caller=caller.name,
        roles=sorted(caller.roles),
        verb=verb,
        target=target,
        outcome=outcome,
        details=dict(details or {}),
    )
