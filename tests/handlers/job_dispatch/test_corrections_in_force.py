"""Corrections of groups, of users in them and of users within shares order the task queues that dispatch draws from."""

from __future__ import annotations

from collections import Counter

import asyncpg
import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.policy.fitting import Offer, PilotKind
from services.job_generation.store.order_keys import intern
from shared.events import JobsReordered, ReorderedJob, SharesCorrected
from shared.order.identity import of_owner
from tests.handlers.job_dispatch.grid_of_jobs import Rows

USERS = ("ann", "bob")


async def a_task_queue(connection: asyncpg.Connection, group: str, user: str) -> int:
    number = await connection.fetchval(
        "INSERT INTO task_queues"
        " (identity, vo, user_name, user_group, cpu_segment_s, sites, banned_sites, platforms, tags, job_types)"
        " VALUES ($1, 'demo', $2, $3, 3600, '{}', '{}', '{}', '{}', '{}') RETURNING task_queue_id",
        f"{group}/{user}", user, group,
    )  # fmt: skip
    key: int = await connection.fetchval(
        "INSERT INTO order_keys (task_queue_id, user_priority) VALUES ($1, 1) RETURNING order_key_id", number
    )
    return key


async def waiting(rows: Rows, gshare: str, group: str, n_jobs: int) -> dict[str, list[int]]:
    """Jobs of each user that wait in a task queue of theirs."""
    found = {}
    for user in USERS:
        async with rows.database.pool.acquire() as connection:
            key = await a_task_queue(connection, group, user)
            found[user] = await rows.jobs(n_jobs, gshare=gshare)
            await connection.execute("UPDATE jobs SET order_key_id = $1 WHERE job_id = ANY($2)", key, found[user])
    return found


async def begin(rows: Rows, parts: Parts, mode: str) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type) VALUES ('order', 'TASK_QUEUES', $1, 'str')", mode
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    await dict(parts.service.news)[SharesCorrected](SharesCorrected(shares_version=2))
    for name in ("parameters", "recheck-lost"):
        (periodic,) = (one for one in parts.service.periodic if one.name == name)
        async with rows.database.begin(reason="test") as work:
            await periodic.run(work)


async def taken(parts: Parts, jobs: dict[str, list[int]], count: int) -> Counter[str]:
    """Whose jobs so many pilots got."""
    owners = {job_id: user for user, ids in jobs.items() for job_id in ids}
    granted = [await parts.claims.acquire(Offer("Q1")) for _ in range(count)]
    return Counter(owners[one.job_id] for one in granted if one is not None)


@pytest.mark.parametrize(
    ("mode", "table", "values"),
    [
        ("within", "user_corrections (gshare, user_name, correction_factor)", "('MC', '{user}', {factor})"),
        ("within", "group_corrections (vo, user_group, user_name, correction_factor)",
         "('demo', 'physics', '{user}', {factor})"),
        ("instead", "group_corrections (vo, user_group, user_name, correction_factor)",
         "('demo', 'physics', '{user}', {factor})"),
    ],
)  # fmt: skip
async def test_a_user_who_ran_more_than_due_gets_less_at_dispatch(
    rows: Rows, parts: Parts, mode: str, table: str, values: str
) -> None:
    """Factors 1/3 and 3, as far as the documents let them go: nine in ten jobs are those of the user who ran less."""
    async with rows.database.pool.acquire() as connection:
        for user, factor in zip(USERS, (1 / 3, 3.0), strict=True):
            await connection.execute(f"INSERT INTO {table} VALUES {values.format(user=user, factor=factor)}")
    jobs = await waiting(rows, "MC", "physics", 60)
    await begin(rows, parts, mode)
    got = await taken(parts, jobs, 60)
    assert got["bob"] >= 44 and got["ann"] >= 1, got


async def test_without_corrections_users_get_alike(rows: Rows, parts: Parts) -> None:
    jobs = await waiting(rows, "MC", "physics", 60)
    await begin(rows, parts, "within")
    got = await taken(parts, jobs, 60)
    assert 18 <= got["ann"] <= 42, got


async def test_a_correction_within_another_share_or_of_a_group_that_shares_does_not_count(
    rows: Rows, parts: Parts
) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO user_corrections VALUES ('Data', 'ann', 0.001), ('MC', 'ann', 0.001)")
        await connection.execute("INSERT INTO user_groups (vo, name, job_sharing) VALUES ('demo', 'physics', true)")
    jobs = await waiting(rows, "MC", "physics", 60)
    await begin(rows, parts, "within")
    got = await taken(parts, jobs, 60)
    assert 18 <= got["ann"] <= 42, got


async def of_owners(rows: Rows, n_jobs: int, **task: str) -> dict[str, list[int]]:
    """Jobs of a share that is divided among its owners, of a VO without task queues."""
    found = {}
    async with rows.database.begin(reason="test") as work:
        wanted = [(of_owner("demo", user), 1) for user in USERS]
        keys = await intern(work, wanted)
        for user, one in zip(USERS, wanted, strict=True):
            found[user] = await rows.jobs(n_jobs, user_name=user, **task)
            await work.connection.execute(
                "UPDATE jobs SET order_key_id = $1 WHERE job_id = ANY($2)", keys[one], found[user]
            )
    return found


async def test_without_task_queues_the_owners_of_a_corrected_share_get_their_parts(rows: Rows, parts: Parts) -> None:
    """Factors 1/3 and 3 of equal parts, whatever the priorities of their jobs: nine in ten are bob's."""
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO user_corrections VALUES ('MC', 'ann', 1.0 / 3), ('MC', 'bob', 3)")
    jobs = await of_owners(rows, 60)
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE jobs SET current_priority = 900 WHERE job_id = ANY($1)", jobs["ann"])
    await begin(rows, parts, "off")
    got = await taken(parts, jobs, 60)
    assert got["bob"] >= 44 and got["ann"] >= 1, got
    assert (await taken(parts, jobs, 60)).total() == 60  # whose part is left goes to the others


@pytest.mark.parametrize("asked", [{"user_name": "bob"}, {"user_name": "bob", "working_group": "physics"}])
async def test_a_pilot_of_a_user_or_group_finds_the_jobs_of_a_divided_share(
    rows: Rows, parts: Parts, asked: dict[str, str]
) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE tasks SET working_group = 'physics', user_name = 'bob'")
    jobs = await of_owners(rows, 2)
    await begin(rows, parts, "off")
    offer = Offer("Q1", PilotKind(remaining_s=100_000), **asked)
    granted = await parts.claims.acquire(offer)
    assert granted is not None and granted.job_id in {*jobs["ann"], *jobs["bob"]}


async def test_jobs_that_get_other_keys_while_they_wait_are_given_once_each(rows: Rows, parts: Parts) -> None:
    jobs = await of_owners(rows, 3)
    await begin(rows, parts, "off")
    first = await parts.claims.acquire(Offer("Q1"))
    assert first is not None
    left = [one for ids in jobs.values() for one in ids if one != first.job_id]
    async with rows.database.pool.acquire() as connection:
        found = await connection.fetch(
            "SELECT job_id, queue, gshare, shape_id, current_priority AS priority, gshare AS from_gshare,"
            " order_key_id AS from_order_key_id, 0 AS order_key_id FROM jobs WHERE job_id = ANY($1)", left
        )  # fmt: skip
        await connection.execute("UPDATE jobs SET order_key_id = 0 WHERE job_id = ANY($1)", left)
    news = JobsReordered(job_ids=tuple(left), lane_jobs=tuple(ReorderedJob(**dict(row)) for row in found))
    await parts.news.on_jobs_reordered(news)
    window = parts.windows._queues["Q1"].window
    assert {lane.order_key_id for lane in window.lanes() if lane._entries} == {0}
    got = [await parts.claims.acquire(Offer("Q1")) for _ in range(6)]
    assert sorted(one.job_id for one in got if one is not None) == sorted(left)
