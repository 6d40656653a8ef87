"""VOs that the installation knows, see `known_vos.sql`."""

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def known_vos(connection: asyncpg.Connection) -> frozenset[str]:
    """VOs that something names."""
    return frozenset(row["vo"] for row in await SQL.rows(connection, "known_vos"))
