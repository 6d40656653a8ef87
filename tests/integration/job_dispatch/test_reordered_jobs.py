"""Two dispatchers on one database while priorities and shares of waiting jobs change under them."""

from __future__ import annotations

import asyncio
import random

import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.lifecycle.reordering import Reordering
from services.job_dispatch.policy.fitting import Offer
from shared.db import Database
from shared.events import JobsReordered, TaskCommanded
from shared.order.ranking import Ranks
from tests.handlers.job_dispatch.grid_of_jobs import Rows

OFFER = Offer("Q1")


@pytest.fixture
async def rows(database: Database) -> Rows:
    rows = Rows(database)
    await rows.grid({"Q1": "SITE-A"})
    await rows.task(1)
    await rows.task(2)
    return rows


async def tell(rows: Rows, pair: list[Parts]) -> None:
    """What the relay would bring to every replica."""
    for event in await rows.events("jobs.reordered.v1"):
        for one in pair:
            await one.news.on_jobs_reordered(JobsReordered.model_validate(event))


async def got(one: Parts) -> int:
    granted = await one.claims.acquire(OFFER)
    assert granted is not None
    return granted.job_id


async def reorder(rows: Rows, priorities: dict[int, int]) -> list[int]:
    async with rows.database.begin(reason="test") as work:
        return await Reordering().set_priorities(work, priorities)


@pytest.mark.parametrize("first", [0, 1])
async def test_a_raised_job_is_handed_out_next_by_whichever_replica_is_asked(
    rows: Rows, pair: list[Parts], first: int
) -> None:
    ids = await rows.jobs(40)
    for one in pair:
        await got(one)  # both have read the lane
    waiting = [one for one in ids[-10:] if await rows.statuses([one]) == ["activated"]]
    raised = waiting[:2]
    assert await reorder(rows, dict.fromkeys(raised, 900)) == raised
    await tell(rows, pair)
    assert {await got(pair[first]), await got(pair[1 - first])} == set(raised)


async def test_of_a_claim_and_a_change_at_the_same_moment_exactly_one_wins(rows: Rows, pair: list[Parts]) -> None:
    """Never a job that was taken by its old priority and changed after that, never one taken twice, none lost."""
    ids = await rows.jobs(400)
    choice = random.Random(7)
    taken: list[int] = []
    changed: dict[int, int] = {}

    async def pilot(one: Parts) -> None:
        granted = await one.claims.acquire(OFFER)
        if granted is not None:
            taken.append(granted.job_id)

    async def change(priorities: dict[int, int]) -> None:
        for job_id in await reorder(rows, priorities):
            changed[job_id] = priorities[job_id]

    for turn in range(40):
        some = dict.fromkeys(choice.sample(ids, 10), 200 + turn)
        await asyncio.gather(*(pilot(choice.choice(pair)) for _ in range(4)), change(some))
        if turn % 3 == 0:
            await tell(rows, pair)
    assert len(taken) == len(set(taken)), "no job is given twice"
    async with rows.database.read() as connection:
        found = await connection.fetch("SELECT job_id, status, current_priority FROM jobs")
    for row in found:
        assert row["current_priority"] == changed.get(row["job_id"], 100), "who was told that it changed has it"
        assert row["status"] == ("sent" if row["job_id"] in taken else "activated")
    for one in pair:
        one.windows.forget_all()
    while (granted := await pair[len(taken) % 2].claims.acquire(OFFER)) is not None:
        taken.append(granted.job_id)
    assert sorted(taken) == ids, "and none is lost"


async def test_a_change_of_share_moves_the_jobs_of_a_task_to_the_other_share_at_both_replicas(
    rows: Rows, pair: list[Parts]
) -> None:
    mine, others = await rows.jobs(6, gshare="Low", task_id=1), await rows.jobs(6, gshare="Middle", task_id=2)
    for one in pair:
        one.windows.ranks = Ranks(("High", "Middle", "Low"))
        assert await got(one) in others
    async with rows.database.begin(reason="test") as work:
        await work.connection.execute("UPDATE tasks SET gshare = 'High' WHERE task_id = 1")
        await pair[0].handlers.on_task_commanded(
            TaskCommanded(task_id=1, command="change_share", status="running"), work
        )
    await tell(rows, pair)
    assert {await got(one) for one in (*pair, *pair, *pair)} == set(mine)
    assert await got(pair[0]) in others
