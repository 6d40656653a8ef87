"""What people keep for the payloads of their tasks."""

from __future__ import annotations

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)

MOST_SECRETS = 100


async def secrets_of(connection: asyncpg.Connection, owner: str) -> dict[str, str]:
    """Values by key."""
    return {row["key"]: row["value"] for row in await SQL.rows(connection, "secrets_of", owner=owner)}


async def set_secret(connection: asyncpg.Connection, owner: str, key: str, value: str | None) -> bool:
    """Keep a value, or forget the key (None); false where there are too many keys, or none of this name."""
    if value is None:
        return await SQL.value(connection, "forget_secret", owner=owner, key=key) is not None
    kept = await SQL.value(connection, "set_secret", owner=owner, key=key, value=value, at_most=MOST_SECRETS)
    return kept is not None


async def forget_secrets(connection: asyncpg.Connection, owner: str) -> int:
    """Forget every key of one person; how many there were."""
    return await SQL.run(connection, "forget_secrets", owner=owner)


async def letters_of(connection: asyncpg.Connection, user_name: str) -> str:
    """The letters of a user; none of one of whom nothing is said."""
    return str(await SQL.value(connection, "letters_of", user_name=user_name) or "")
