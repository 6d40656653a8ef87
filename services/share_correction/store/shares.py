"""All SQL of share correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg

from shared.db.queries import Queries
from shared.model.share import Share, as_columns
from shared.order.tree import Node
from shared.order.wms_history import Usage

SQL = Queries.beside(__file__)

#: smaller changes of a factor are not worth telling every dispatcher
TOLERANCE = 0.005


async def shares(connection: asyncpg.Connection) -> list[Node]:
    return [
        Node(row["gshare"], row["value"], row["parent"], row["correction_factor"])
        for row in await SQL.rows(connection, "shares")
    ]


async def usage_by_share(connection: asyncpg.Connection, spans_s: Sequence[float]) -> list[Usage]:
    """One mapping for each span, in their order."""
    found: dict[float, dict[str, float]] = {span: {} for span in spans_s}
    for row in await SQL.rows(connection, "usage_by_share", spans_s=sorted(found)):
        found[row["span_s"]][row["gshare"]] = row["usage"]
    return [found[span] for span in spans_s]


async def usage_by_user(connection: asyncpg.Connection, gshare: str, spans_s: Sequence[float]) -> list[Usage]:
    """The same for the users of one share."""
    found: dict[float, dict[str, float]] = {span: {} for span in spans_s}
    for row in await SQL.rows(connection, "usage_by_user", gshare=gshare, spans_s=sorted(found)):
        found[row["span_s"]][row["user_name"]] = row["usage"]
    return [found[span] for span in spans_s]


async def users_of(connection: asyncpg.Connection, gshare: str) -> list[str]:
    return [row["user_name"] for row in await SQL.rows(connection, "users_of_share", gshare=gshare)]


async def set_corrections(connection: asyncpg.Connection, factors: Mapping[str, float]) -> int | None:
    """Write the factors; the new version of the shares, or None if no factor changed worth telling."""
    names = sorted(factors)
    rows = await SQL.rows(
        connection, "set_corrections", gshares=names, factors=[factors[name] for name in names], tolerance=TOLERANCE
    )
    changed = [row["gshare"] for row in rows]
    return await next_version(connection) if changed else None


async def set_user_corrections(connection: asyncpg.Connection, gshare: str, factors: Mapping[str, float]) -> None:
    """Write the factors of the users of one share; users without one are deleted."""
    names = sorted(factors)
    await SQL.run(
        connection, "set_user_corrections", gshare=gshare, user_names=names, factors=[factors[name] for name in names]
    )
    await SQL.run(connection, "forget_user_corrections", gshare=gshare, user_names=names)


async def next_version(connection: asyncpg.Connection) -> int:
    return int(await SQL.value(connection, "next_shares_version"))


async def load_tree(connection: asyncpg.Connection, tree: Sequence[Share]) -> int:
    """Put this tree in the place of the present one; the new version."""
    await SQL.run(connection, "load_shares", **as_columns(tree))
    await SQL.run(connection, "forget_shares", gshares=[share.name for share in tree])
    return await next_version(connection)
