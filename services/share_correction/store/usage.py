"""All SQL of usage in buckets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import asyncpg

from services.share_correction.policy.buckets import BucketChange, Difference, Suspect, UserKey
from services.share_correction.policy.slices import UsageRow
from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def fold(connection: asyncpg.Connection, changes: Sequence[BucketChange]) -> None:
    """Add these to their buckets."""
    keys = [list(column) for column in zip(*(change.key for change in changes), strict=True)]
    await SQL.run(
        connection,
        "fold_usage",
        ends_at=keys[0],
        task_ids=keys[1],
        gshares=keys[2],
        user_names=keys[3],
        cores=[change.cores for change in changes],
        hs06=[change.hs06 for change in changes],
        core_s=[change.core_s for change in changes],
        hs06_s=[change.hs06_s for change in changes],
    )


async def usage(connection: asyncpg.Connection, spans_s: Sequence[float], width_s: int) -> list[UsageRow]:
    """Read what each user of each share used in each of these spans up to now."""
    rows = await SQL.rows(connection, "usage_by_span", spans_s=sorted(set(spans_s)), width_s=width_s)
    return [UsageRow(**dict(row)) for row in rows]


async def suspects(
    connection: asyncpg.Connection, core_powers_hs06: Mapping[str, float], usual_hs06: float
) -> dict[Suspect, tuple[Difference, int]]:
    """Read by how much levels of use differ from the statistics, and how many jobs of theirs run."""
    rows = await SQL.rows(
        connection,
        "usage_suspects",
        queues=list(core_powers_hs06),
        core_powers_hs06=list(core_powers_hs06.values()),
        usual_hs06=usual_hs06,
    )
    return {
        (row["gshare"], row["vo"], row["user_name"]): ((row["cores"], round(row["hs06"], 3)), row["n_jobs"])
        for row in rows
    }


async def differences(
    connection: asyncpg.Connection,
    asked: Collection[Suspect],
    core_powers_hs06: Mapping[str, float],
    usual_hs06: float,
) -> dict[UserKey, Difference]:
    """Read by how much what runs now of these users differs from the levels of use."""
    rows = await SQL.rows(
        connection,
        "usage_differences",
        gshares=[gshare for gshare, _, _ in asked],
        vos=[vo for _, vo, _ in asked],
        user_names=[user_name for _, _, user_name in asked],
        queues=list(core_powers_hs06),
        core_powers_hs06=list(core_powers_hs06.values()),
        usual_hs06=usual_hs06,
    )
    return {
        (row["gshare"], row["vo"], row["working_group"], row["user_name"]): (row["cores"], round(row["hs06"], 3))
        for row in rows
    }


async def correct(connection: asyncpg.Connection, ends_at: datetime, wrong: Mapping[UserKey, Difference]) -> None:
    """Make the levels of use right from now on; `ends_at` is the end of the bucket that holds now."""
    keys = [list(column) for column in zip(*wrong, strict=True)]
    await SQL.run(
        connection,
        "correct_usage",
        ends_at=ends_at,
        gshares=keys[0],
        vos=keys[1],
        working_groups=keys[2],
        user_names=keys[3],
        cores=[cores for cores, _ in wrong.values()],
        hs06=[hs06 for _, hs06 in wrong.values()],
    )


async def forget(connection: asyncpg.Connection, older_than_s: float) -> None:
    """Delete buckets that no slice reads."""
    await SQL.run(connection, "forget_buckets", older_than_s=older_than_s)
    await SQL.run(connection, "forget_levels")
