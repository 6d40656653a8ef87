"""VOs that the installation knows, see `known_vos.sql`."""

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def known_vos(connection: asyncpg.Connection) -> frozenset[str]:
    """VOs that something names."""
    return frozenset(row["vo"] for row in await SQL.rows(connection, "known_vos"))


async def is_known_vo(connection: asyncpg.Connection, vo: str) -> bool:
    """Ask whether something names a VO."""
    return bool(await SQL.value(connection, "is_known_vo", vo=vo))
