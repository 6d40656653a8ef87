"""Groups and users in PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)

Record = Mapping[str, Any]


async def groups(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    return [dict(row) for row in await SQL.rows(connection, "groups")]


async def put_groups(connection: asyncpg.Connection, records: Sequence[Record], *, replace: bool) -> None:
    """Write these; with `replace` all others go."""
    names, vos = [one["name"] for one in records], [one["vo"] for one in records]
    if replace:
        await SQL.run(connection, "forget_other_groups", names=names, vos=vos)
    await SQL.run(
        connection,
        "put_groups",
        names=names,
        vos=vos,
        job_shares=[one["job_share"] for one in records],
        job_sharings=[one["job_sharing"] for one in records],
        allows_backgrounds=[one["allows_background"] for one in records],
    )


async def forget_group(connection: asyncpg.Connection, vo: str, name: str) -> bool:
    return bool(await SQL.run(connection, "forget_group", name=name, vo=vo))


async def users(connection: asyncpg.Connection, vos: Collection[str] | None) -> list[dict[str, Any]]:
    """All, with the VOs that each concerns.

    Of what is said for all VOs these are those of the asked ones, or ("") all.
    """
    asked = None if vos is None else sorted(vos)
    return [dict(row) for row in await SQL.rows(connection, "users", vos=asked)]


async def user(connection: asyncpg.Connection, user_name: str, vo: str) -> dict[str, Any] | None:
    """What is said of a user for one VO, or ("") for all."""
    row = await SQL.row(connection, "user", user_name=user_name, vo=vo)
    return None if row is None else dict(row)


async def put_users(connection: asyncpg.Connection, records: Sequence[Record], *, replace: bool) -> None:
    """Write these; with `replace` all others go."""
    names, vos = [one["user_name"] for one in records], [one["vo"] for one in records]
    if replace:
        await SQL.run(connection, "forget_other_users", user_names=names, vos=vos)
    await SQL.run(
        connection,
        "put_users",
        user_names=names,
        vos=vos,
        groups=[",".join(one["groups"]) for one in records],
        grid_prefs=[one["grid_pref"] for one in records],
        quotas=[one["quota"] for one in records],
        priority_weights=[one["priority_weight"] for one in records],
        cap_jobs=[one["cap_running_jobs"] for one in records],
        cap_cores=[one["cap_running_cores"] for one in records],
        disk_quotas_gb=[one["disk_quota_gb"] for one in records],
    )


async def forget_user(connection: asyncpg.Connection, user_name: str, vo: str) -> bool:
    return bool(await SQL.run(connection, "forget_user", user_name=user_name, vo=vo))
