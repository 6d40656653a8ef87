"""What sites say of themselves: their advertisements as they are stored and read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def live_adverts(connection: asyncpg.Connection) -> list[asyncpg.Record]:
    """Read advertisements that are still believed, and for how long."""
    return await SQL.rows(connection, "live_adverts")


async def advertise(
    connection: asyncpg.Connection,
    site: str,
    numbers: Mapping[str, int | None],
    *,
    requirements: str | None,
    advertisement: Mapping[str, Any],
    expires_at: datetime,
) -> None:
    """Replace the advertisement of a site of the grid."""
    await SQL.run(
        connection,
        "advertise_site",
        site=site,
        requirements=requirements,
        advertisement=advertisement,
        expires_at=expires_at,
        **dict[str, Any](numbers),
    )
