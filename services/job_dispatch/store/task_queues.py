"""Task queues, their groups, and what waits and runs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from shared.db.queries import Queries
from shared.order.task_queues import Corrections, Entity, GroupName, GroupProperties

SQL = Queries.beside(__file__)


async def groups_of_users(connection: asyncpg.Connection) -> dict[GroupName, GroupProperties]:
    """Read what each group is due, and how it is divided."""
    rows = await SQL.rows(connection, "groups")
    return {
        (row["vo"], row["name"]): GroupProperties(row["job_share"], row["job_sharing"], row["allows_background"])
        for row in rows
    }


async def corrections(connection: asyncpg.Connection) -> Corrections:
    """Read factors of groups of users, of users in them and of users within shares."""
    of_groups: dict[GroupName, float] = {}
    of_users: dict[Entity, float] = {}
    for row in await SQL.rows(connection, "corrections_of_groups"):
        if row["user_name"]:
            of_users[row["vo"], row["user_group"], row["user_name"]] = row["correction_factor"]
        else:
            of_groups[row["vo"], row["user_group"]] = row["correction_factor"]
    within = await SQL.rows(connection, "corrections_of_users")
    return Corrections(
        of_groups, of_users, {(row["gshare"], row["user_name"]): row["correction_factor"] for row in within}
    )


async def waiting_jobs(connection: asyncpg.Connection, order_key_ids: Sequence[int] | None = None) -> dict[int, int]:
    """Count the activated jobs of each order key; of all keys, or of these."""
    if order_key_ids is None:
        rows = await SQL.rows(connection, "waiting_of_all")
    else:
        rows = await SQL.rows(connection, "waiting_of_some", order_key_ids=list(order_key_ids))
    return {row["order_key_id"]: row["n_jobs"] for row in rows}


async def order_keys(connection: asyncpg.Connection, order_key_ids: Sequence[int]) -> Sequence[Any]:
    """Read these order keys with the identities of their task queues."""
    rows: Sequence[Any] = await SQL.rows(connection, "order_keys", order_key_ids=list(order_key_ids))
    return rows


async def at_pilots(connection: asyncpg.Connection) -> list[tuple[str, int, int]]:
    """Count jobs with an order key that pilots have: queue, order key, how many."""
    rows = await SQL.rows(connection, "at_pilots")
    return [(row["queue"], row["order_key_id"], row["n_jobs"]) for row in rows]


async def one_at_a_time(connection: asyncpg.Connection) -> None:
    """Keep other dispatchers from permitting jobs from here to the end of the transaction."""
    await SQL.value(connection, "one_at_a_time")


async def at_pilots_of_queues(
    connection: asyncpg.Connection, queues: Sequence[str], permit_s: float
) -> list[tuple[str, int, int]]:
    """Count jobs with an order key that pilots have at queues, or may get now: queue, key, how many."""
    rows = await SQL.rows(connection, "at_pilots_of_queues", queues=list(queues), permit_s=permit_s)
    return [(row["queue"], row["order_key_id"], row["n_jobs"]) for row in rows]


async def permitted(connection: asyncpg.Connection, job_ids: Sequence[int], permit_s: float) -> set[int]:
    """Read which of these jobs may be claimed already, by whomever: they are among those that count."""
    rows = await SQL.rows(connection, "permitted", job_ids=list(job_ids), permit_s=permit_s)
    return {row["job_id"] for row in rows}


async def permit(connection: asyncpg.Connection, job_ids: Sequence[int], permit_s: float) -> None:
    """Permit these jobs to be claimed within so many seconds."""
    await SQL.run(connection, "permit", job_ids=list(job_ids), permit_s=permit_s)


async def running_delays(connection: asyncpg.Connection, names: Sequence[str]) -> dict[str, tuple[int, float]]:
    """Read which of these delays have not ended: the job that began each, and the seconds left."""
    if not names:
        return {}
    rows = await SQL.rows(connection, "running_delays", names=list(names))
    return {row["name"]: (row["job_id"], row["seconds_left"]) for row in rows}


async def begin_delays(connection: asyncpg.Connection, begun: Mapping[str, tuple[int, float]]) -> None:
    """Begin delays by name, each with the job that was matched, for so many seconds."""
    if begun:
        jobs, seconds = [job_id for job_id, _ in begun.values()], [one for _, one in begun.values()]
        await SQL.run(connection, "begin_delays", names=list(begun), job_ids=jobs, seconds=seconds)


async def forget_empty(connection: asyncpg.Connection, kept_s: float) -> int:
    """Note which task queues are empty, and delete those that have been for so long; how many."""
    await SQL.run(connection, "note_empty")
    rows = await SQL.rows(connection, "forget_empty", kept_s=kept_s)
    return len(rows)
