"""Says who may write datasets of which names, and takes new scopes for those who first write in them.

Every writer of names asks here: imports, submitted tasks, tasks that are refined, recovery. What is asked and taken is
in the writer's transaction; of two who take a scope at once one gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from services.task_definition.data.policy.scopes import (
    ForeignName,
    NameWanted,
    NameWriter,
    may_take,
    owner_of_scope,
    refusals,
)
from services.task_definition.data.store.known_vos import known_vos
from services.task_definition.data.store.scopes import SQL, KnownOwners, owners_of_names
from shared.auth import Caller, access
from shared.auth.access import Whose


async def foreign_names(
    connection: asyncpg.Connection, names: Sequence[NameWanted], writer: NameWriter
) -> list[ForeignName]:
    """Those of the names that the writer must not write; nothing is taken."""
    if not names:
        return []
    return await _refusals(connection, names, await _owners(connection, names), writer)


async def take_names(
    connection: asyncpg.Connection, names: Sequence[NameWanted], writer: NameWriter
) -> list[ForeignName]:
    """The same, and scopes of nobody belong to the writer from now on, if there is none that is refused."""
    scopes = scopes_of(names)
    known = await _owners(connection, names)
    vos = await _vos(connection, scopes, known.scopes)
    new = [one for one in scopes if one not in known.scopes and may_take(one, writer, vos)]
    found = await _refusals(connection, names, known, writer)
    if found or not new:
        return found
    owners = [owner_of_scope(one, writer) for one in new]
    by = writer.user_name
    await SQL.run(connection, "take_scopes", scopes=new, owners=owners, vo=writer.vo, claimed_by=by)
    return await foreign_names(connection, names, writer)  # somebody may have been faster


async def _owners(connection: asyncpg.Connection, names: Sequence[NameWanted]) -> KnownOwners:
    return await owners_of_names(connection, scopes_of(names), [one.name for one in names])


async def _refusals(
    connection: asyncpg.Connection, names: Sequence[NameWanted], known: KnownOwners, writer: NameWriter
) -> list[ForeignName]:
    vos = await _vos(connection, scopes_of(names), known.scopes)
    return refusals(names, known.scopes, writer, known.vos_outside, vos)


async def _vos(connection: asyncpg.Connection, scopes: Iterable[str], known: Mapping[str, Whose]) -> frozenset[str]:
    """The VOs that the installation knows, where there is a scope of nobody that may be taken."""
    return frozenset() if all(one in known for one in scopes) else await known_vos(connection)


def caller_as_writer(caller: Caller, vo: str, owner: str, *, is_of_task: bool = True) -> NameWriter:
    """Who writes by a call, in the name of `owner`."""
    return NameWriter(
        vo,
        owner,
        may_write=lambda whose: access.WRITERS.allows(caller, whose),
        is_producer=access.WRITERS.allows(caller, Whose(vo=vo)),
        is_owner=caller.name == owner,
        groups=caller.groups,
        is_of_task=is_of_task,
        takes_any=caller.may("operator"),
    )


def installation_as_writer(vo: str | None) -> NameWriter:
    """Whoever sets the installation up."""
    return NameWriter(vo or "", "", may_write=lambda whose: True, is_producer=True, is_of_task=False, takes_any=True)


def scopes_of(names: Iterable[NameWanted]) -> list[str]:
    return sorted({scope for one in names for scope in one.scopes})
