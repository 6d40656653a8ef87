"""All SQL of share correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import aiosql
import asyncpg

from services.share_correction.policy.tree import Node
from services.share_correction.policy.wms_history import Usage
from shared.model.share import Share

QUERIES = aiosql.from_path(Path(__file__).parent / "queries.sql", "asyncpg", mandatory_parameters=False)

#: smaller changes of a factor are not worth telling every dispatcher
TOLERANCE = 0.005


async def shares(connection: asyncpg.Connection) -> list[Node]:
    return [
        Node(row["gshare"], row["value"], row["parent"], row["correction_factor"])
        async for row in QUERIES.shares(connection)
    ]


async def usage_by_share(connection: asyncpg.Connection, spans_s: Sequence[float]) -> list[Usage]:
    """One mapping for each span, in their order."""
    found: dict[float, dict[str, float]] = {span: {} for span in spans_s}
    async for row in QUERIES.usage_by_share(connection, spans_s=sorted(found)):
        found[row["span_s"]][row["gshare"]] = row["usage"]
    return [found[span] for span in spans_s]


async def usage_by_user(connection: asyncpg.Connection, gshare: str, spans_s: Sequence[float]) -> list[Usage]:
    """The same for the users of one share."""
    found: dict[float, dict[str, float]] = {span: {} for span in spans_s}
    async for row in QUERIES.usage_by_user(connection, gshare=gshare, spans_s=sorted(found)):
        found[row["span_s"]][row["user_name"]] = row["usage"]
    return [found[span] for span in spans_s]


async def users_of(connection: asyncpg.Connection, gshare: str) -> list[str]:
    return [row["user_name"] async for row in QUERIES.users_of_share(connection, gshare=gshare)]


async def set_corrections(connection: asyncpg.Connection, factors: Mapping[str, float]) -> int | None:
    """Write the factors; the new version of the shares, or None if no factor changed worth telling."""
    names = sorted(factors)
    rows = QUERIES.set_corrections(
        connection, gshares=names, factors=[factors[name] for name in names], tolerance=TOLERANCE
    )
    changed = [row["gshare"] async for row in rows]
    return await next_version(connection) if changed else None


async def set_user_corrections(connection: asyncpg.Connection, gshare: str, factors: Mapping[str, float]) -> None:
    """Write the factors of the users of one share; users without one are forgotten."""
    names = sorted(factors)
    await QUERIES.set_user_corrections(
        connection, gshare=gshare, user_names=names, factors=[factors[name] for name in names]
    )
    await QUERIES.forget_user_corrections(connection, gshare=gshare, user_names=names)


async def next_version(connection: asyncpg.Connection) -> int:
    return int(await QUERIES.next_shares_version(connection))


async def load_tree(connection: asyncpg.Connection, tree: Sequence[Share]) -> int:
    """Put this tree in the place of the present one; the new version. Parents go before their children."""
    names = [share.name for share in tree]
    await QUERIES.detach_shares(connection, gshares=names)
    waiting, stored = list(tree), set[str]()
    while waiting:
        ready = [share for share in waiting if share.parent is None or share.parent in stored]
        for share in ready:
            await QUERIES.load_share(
                connection, gshare=share.name, value=share.value, parent=share.parent,
                prod_source_label=share.prodsourcelabel, working_group=share.workinggroup, campaign=share.campaign,
                processing_type=share.processingtype, trans_path=share.transpath, resource_type=share.rtype,
                vo=share.vo, throttled=share.throttled,
            )  # fmt: skip
        stored |= {share.name for share in ready}
        waiting = [share for share in waiting if share.name not in stored]
    await QUERIES.forget_shares(connection, gshares=names)
    return await next_version(connection)
