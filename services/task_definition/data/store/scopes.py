"""Scopes of datasets: to whom they belong, and what was refused in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from services.task_definition.data.policy.scopes import ForeignName
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.db.queries import Queries

SQL = Queries.beside(__file__)
#: refused writes that are looked at for one answer
LOOKED_AT = 10_000


@dataclass(frozen=True)
class KnownOwners:
    """To whom scopes belong, those of nobody left out.

    `vos_outside`: by name of a dataset the VO in whose catalogue outside it is.
    """

    scopes: Mapping[str, Whose]
    vos_outside: Mapping[str, str]


async def owners_of_names(
    connection: asyncpg.Connection, scopes: Sequence[str], names: Sequence[str] = ()
) -> KnownOwners:
    """Find to whom scopes and names of datasets belong."""
    rows = await SQL.rows(connection, "owners_of_names", scopes=list(scopes), names=list(names))
    return KnownOwners(
        {row["name"]: Whose(row["owner"], row["vo"]) for row in rows if row["owner"] is not None},
        {row["name"]: row["vo"] for row in rows if row["owner"] is None},
    )


async def given_away(connection: asyncpg.Connection, names: Sequence[str], vo: str) -> set[str]:
    """Of the names that tasks of a VO write, those that an operator has given to another since."""
    return {row["name"] for row in await SQL.rows(connection, "given_away", names=list(names), vo=vo)}


async def list_scopes(
    connection: asyncpg.Connection, caller: Caller, pattern: str | None, at_most: int
) -> list[dict[str, Any]]:
    """Scopes of the caller's VOs and of none."""
    vos = access.vos_of_members(caller)
    return [dict(row) for row in await SQL.rows(connection, "list_scopes", vos=vos, pattern=pattern, at_most=at_most)]


async def note_refused(connection: asyncpg.Connection, caller: str, verb: str, refused: Sequence[ForeignName]) -> None:
    """Keep what was refused for those to whom the scopes belong."""
    await SQL.run(
        connection,
        "note_refused",
        caller=caller,
        verb=verb,
        scopes=[one.scope for one in refused],
        datasets=[one.dataset for one in refused],
        causes=[one.cause for one in refused],
    )


async def refused_writes(
    connection: asyncpg.Connection, caller: Caller, at_most: int, scope: str | None = None
) -> list[dict[str, Any]]:
    """What was refused in scopes that the caller may write in, the last first."""
    vos = access.vos_of_members(caller)
    rows = await SQL.rows(connection, "refused_writes", vos=vos, scope=scope, at_most=LOOKED_AT)
    told = [dict(row) for row in rows if access.WRITERS.allows(caller, Whose(row["owner"], row["vo"]))]
    return told[:at_most]
