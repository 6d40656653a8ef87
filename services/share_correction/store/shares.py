"""All SQL of share correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg

from services.share_correction.policy.found import FoundCorrection, UserOfShare
from shared.db.queries import Queries
from shared.model.share import Share, as_columns
from shared.order.tree import Node

SQL = Queries.beside(__file__)

#: smaller changes of a factor are not worth telling every dispatcher
TOLERANCE = 0.005


async def shares(connection: asyncpg.Connection) -> tuple[list[Node], dict[str, str | None]]:
    """Read the tree, and the VO of each share that states one."""
    rows = await SQL.rows(connection, "shares")
    nodes = [
        Node(row["gshare"], row["value"], row["parent"], row["correction_factor"], row["stretchable"]) for row in rows
    ]
    return nodes, {row["gshare"]: row["vo"] for row in rows}


async def users_of_shares(connection: asyncpg.Connection) -> dict[str, list[str]]:
    """Read whoever has live jobs, by share."""
    found: dict[str, list[str]] = {}
    for row in await SQL.rows(connection, "users_of_shares"):
        found.setdefault(row["gshare"], []).append(row["user_name"])
    return found


async def set_corrections(connection: asyncpg.Connection, factors: Mapping[str, float]) -> bool:
    """Write the factors; whether one changed worth telling."""
    names = sorted(factors)
    rows = await SQL.rows(
        connection, "set_corrections", gshares=names, factors=[factors[name] for name in names], tolerance=TOLERANCE
    )
    return bool(rows)


async def set_user_corrections(
    connection: asyncpg.Connection, factors: Mapping[str, Mapping[str, float]]
) -> set[UserOfShare]:
    """Write the factors of users by share; those that changed worth telling.

    Users without one are deleted.
    """
    listed = sorted((gshare, user, factor) for gshare, of_share in factors.items() for user, factor in of_share.items())
    gshares, users = [gshare for gshare, _, _ in listed], [user for _, user, _ in listed]
    changed = await SQL.rows(
        connection,
        "set_user_corrections",
        gshares=gshares,
        user_names=users,
        factors=[factor for _, _, factor in listed],
        tolerance=TOLERANCE,
    )
    gone = await SQL.rows(connection, "forget_user_corrections", gshares=gshares, user_names=users)
    return {(row["gshare"], row["user_name"]) for row in (*changed, *gone)}


async def keep_terms(connection: asyncpg.Connection, found: Sequence[FoundCorrection]) -> None:
    """Store what these corrections follow from."""
    await SQL.run(
        connection,
        "keep_terms",
        gshares=[one.gshare for one in found],
        user_groups=[one.user_group for one in found],
        user_names=[one.user_name for one in found],
        vos=[one.vo for one in found],
        correctors=[one.corrector for one in found],
        instances=[one.instance.name for one in found],
        targets=[one.correction.target for one in found],
        factors=[one.correction.factor for one in found],
        totals=[one.correction.total for one in found],
        most=[one.instance.max_global for one in found],
        terms=[
            {term.slice: {"used": term.used, "c": term.c, "weight": term.weight} for term in one.correction.terms}
            for one in found
        ],
    )


async def next_version(connection: asyncpg.Connection) -> int:
    return int(await SQL.value(connection, "next_shares_version"))


async def tree(connection: asyncpg.Connection) -> tuple[Share, ...]:
    """Read the present tree, locked until the end of the transaction."""
    return tuple(Share(**dict(row)) for row in await SQL.rows(connection, "tree"))


async def use_of_shares(
    connection: asyncpg.Connection, core_powers_hs06: Mapping[str, float], usual_hs06: float
) -> tuple[dict[str, float], dict[str, int]]:
    """Read the HS06 that each share uses now, and its waiting jobs."""
    rows = await SQL.rows(
        connection,
        "use_of_shares",
        queues=list(core_powers_hs06),
        core_powers_hs06=list(core_powers_hs06.values()),
        usual_hs06=usual_hs06,
    )
    return {row["gshare"]: row["hs06"] for row in rows}, {row["gshare"]: row["n_queued"] for row in rows}


async def load_tree(connection: asyncpg.Connection, tree: Sequence[Share]) -> int:
    """Put this tree in the place of the present one; the new version."""
    await SQL.run(connection, "load_shares", **as_columns(tree))
    await SQL.run(connection, "forget_shares", gshares=[share.name for share in tree])
    return await next_version(connection)
