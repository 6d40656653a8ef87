"""All SQL of groups of users and their corrections."""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg

from services.share_correction.policy.found import UserOfGroup
from services.share_correction.policy.scopes import GroupOfUsers
from services.share_correction.store.shares import TOLERANCE
from shared.db.queries import Queries
from shared.order.task_queues import DEFAULT_JOB_SHARE

SQL = Queries.beside(__file__)


async def with_task_queues(connection: asyncpg.Connection) -> list[GroupOfUsers]:
    """Read the groups that have task queues now."""
    rows = await SQL.rows(connection, "groups_with_task_queues", usual_share=DEFAULT_JOB_SHARE)
    return [GroupOfUsers(**{**dict(row), "users": tuple(row["users"])}) for row in rows]


async def set_corrections(connection: asyncpg.Connection, factors: Mapping[UserOfGroup, float]) -> set[UserOfGroup]:
    """Write the factors; those that changed worth telling.

    Whoever is not named has none any more.
    """
    keys = sorted(factors)
    vos, groups, users = [one[0] for one in keys], [one[1] for one in keys], [one[2] for one in keys]
    changed = await SQL.rows(
        connection,
        "set_group_corrections",
        vos=vos,
        user_groups=groups,
        user_names=users,
        factors=[factors[key] for key in keys],
        tolerance=TOLERANCE,
    )
    gone = await SQL.rows(connection, "forget_group_corrections", vos=vos, user_groups=groups, user_names=users)
    return {(row["vo"], row["user_group"], row["user_name"]) for row in (*changed, *gone)}
