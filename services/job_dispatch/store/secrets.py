"""What people keep for the payloads of their tasks: encrypted, for one VO each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from shared.auth.keyring import Keyring, Sealed
from shared.db.queries import Queries
from shared.model.secret_notes import secrets_of as target_of

SQL = Queries.beside(__file__)

MOST_SECRETS = 100
MOST_NOTES = 100


@dataclass(frozen=True)
class KeptSecret:
    """One value of somebody, encrypted."""

    owner: str
    vo: str
    key: str
    sealed: Sealed

    @classmethod
    def of(cls, owner: str, vo: str, row: Any) -> KeptSecret:
        """Of a row with the rest."""
        return cls(owner, vo, row["key"], Sealed(row["key_id"], row["sealed"]))

    @classmethod
    def sealing(cls, keyring: Keyring, owner: str, vo: str, key: str, text: str) -> KeptSecret:
        """A new one; whose it is, is authenticated with it. Raises NoKey."""
        return cls(owner, vo, key, keyring.seal(text, key, owner, vo))

    def opened(self, keyring: Keyring) -> str:
        """The value. Raises NoKey."""
        return keyring.open(self.sealed, self.key, self.owner, self.vo)


async def secrets_of(connection: asyncpg.Connection, owner: str, vo: str) -> list[KeptSecret]:
    """Read what one person keeps for a VO."""
    rows = await SQL.rows(connection, "secrets_of", owner=owner, vo=vo)
    return [KeptSecret.of(owner, vo, row) for row in rows]


async def secrets_of_pilots(connection: asyncpg.Connection, owner: str) -> list[KeptSecret]:
    """Read what one person gave for pilots, in every VO."""
    rows = await SQL.rows(connection, "secrets_of_pilots", owner=owner)
    return [KeptSecret.of(owner, row["vo"], row) for row in rows]


async def listed_secrets(connection: asyncpg.Connection, owner: str) -> list[dict[str, Any]]:
    """Read keys without their values."""
    return [dict(row) for row in await SQL.rows(connection, "listed_secrets", owner=owner)]


async def notes_for_owner(connection: asyncpg.Connection, owner: str) -> list[dict[str, Any]]:
    """Read who asked for a person's secrets, or changed a task that used them."""
    rows = await SQL.rows(connection, "notes_for_owner", target=target_of(owner), at_most=MOST_NOTES)
    return [{**dict(row["details"]), "at": row["at"], "caller": row["caller"], "what": row["verb"]} for row in rows]


async def carries_secrets(connection: asyncpg.Connection, job_id: int) -> bool:
    """Whether a job may carry its owner's secrets."""
    return bool(await SQL.value(connection, "carries_secrets", job_id=job_id))


async def set_secret(connection: asyncpg.Connection, secret: KeptSecret, *, for_pilots: bool) -> bool:
    """Keep a value; false where there are too many keys."""
    kept = await SQL.value(
        connection,
        "set_secret",
        owner=secret.owner,
        vo=secret.vo,
        key=secret.key,
        key_id=secret.sealed.key_id,
        sealed=secret.sealed.data,
        for_pilots=for_pilots,
        at_most=MOST_SECRETS,
    )
    return kept is not None


async def forget_secret(connection: asyncpg.Connection, owner: str, vo: str, key: str) -> bool:
    """Forget one key; false where there is none of this name."""
    return await SQL.value(connection, "forget_secret", owner=owner, vo=vo, key=key) is not None


async def forget_secrets(connection: asyncpg.Connection, owner: str, vo: str) -> int:
    """Forget every key of one person in a VO; how many there were."""
    return await SQL.run(connection, "forget_secrets", owner=owner, vo=vo)


async def sealed_otherwise(
    connection: asyncpg.Connection, key_id: str, after: tuple[str, str, str], at_most: int
) -> list[KeptSecret]:
    """Read the next ones that another key encrypts."""
    owner, vo, key = after
    rows = await SQL.rows(
        connection,
        "sealed_otherwise",
        key_id=key_id,
        after_owner=owner,
        after_vo=vo,
        after_key=key,
        at_most=at_most,
    )
    return [KeptSecret.of(row["owner"], row["vo"], row) for row in rows]


async def seal_again(connection: asyncpg.Connection, secrets: Sequence[KeptSecret]) -> int:
    """Put newly encrypted values in the place of the old ones; how many."""
    return await SQL.run(
        connection,
        "seal_again",
        owners=[one.owner for one in secrets],
        vos=[one.vo for one in secrets],
        keys=[one.key for one in secrets],
        key_ids=[one.sealed.key_id for one in secrets],
        sealed=[one.sealed.data for one in secrets],
    )


async def letters_of(connection: asyncpg.Connection, user_name: str, vos: Collection[str] | None) -> frozenset[str]:
    """Read the letters that a user has in each of these VOs.

    None: what is said for all; none of one of whom nothing is said.
    """
    rows = await SQL.rows(connection, "letters_of", user_name=user_name, vos=[""] if vos is None else sorted(vos))
    return frozenset.intersection(*(frozenset(row["grid_pref"]) for row in rows)) if rows else frozenset()
