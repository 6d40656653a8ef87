"""Pilots of queues that are offline or paused get no new job; what they have they keep."""

from __future__ import annotations

import httpx
import pytest

from services.job_dispatch.app import Parts
from tests.handlers.job_dispatch.calls import ACQUIRE, acquire
from tests.handlers.job_dispatch.grid_of_jobs import Rows


async def becomes(rows: Rows, parts: Parts, status: str, *, is_told: bool = True) -> None:
    """The queue Q1 of another grid version; the news of it may be lost."""
    async with rows.database.pool.acquire() as connection:
        record = {"status": status}
        await connection.execute("UPDATE queues SET data = data || $1::jsonb WHERE queue = 'Q1'", record)
        await connection.execute(
            "INSERT INTO versions (name, version) VALUES ('grid', 2)"
            " ON CONFLICT (name) DO UPDATE SET version = versions.version + 1"
        )
    if is_told:
        await parts.activity.load_queues()


@pytest.mark.parametrize("status", ["offline", "paused"])
async def test_a_queue_that_is_offline_or_paused_hands_out_nothing_and_says_so(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, status: str
) -> None:
    (job_id,) = await rows.jobs(1)
    await becomes(rows, parts, status)
    told = await acquire(pilot)
    assert told["jobs"] == [] and told["reason"] == f"Q1 is {status}: its pilots get no jobs"
    assert await rows.statuses([job_id]) == ["activated"]
    await becomes(rows, parts, "online")
    assert [one["PandaID"] for one in (await acquire(pilot))["jobs"]] == [job_id]


@pytest.mark.parametrize("status", ["brokeroff", "test", "standby"])
async def test_a_queue_that_gets_no_new_work_hands_out_what_waits_there(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, status: str
) -> None:
    (job_id,) = await rows.jobs(1)
    await becomes(rows, parts, status)
    assert [one["PandaID"] for one in (await acquire(pilot))["jobs"]] == [job_id]


async def test_a_request_that_is_repeated_gets_the_job_it_had_before_the_queue_went_offline(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(2)
    asked = {"json": {"site_name": "Q1"}, "headers": {"Idempotency-Key": "k"}}
    first = (await pilot.post(ACQUIRE, **asked)).json()["data"]["jobs"]
    await becomes(rows, parts, "offline")
    assert (await pilot.post(ACQUIRE, **asked)).json()["data"]["jobs"] == first
    other = {"json": {"site_name": "Q1"}, "headers": {"Idempotency-Key": "another"}}
    assert (await pilot.post(ACQUIRE, **other)).json()["data"]["jobs"] == []


async def test_a_queue_whose_pilots_get_jobs_again_is_known_soon_also_when_the_news_was_lost(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1)
    await becomes(rows, parts, "offline")
    assert (await acquire(pilot))["jobs"] == []
    await becomes(rows, parts, "online", is_told=False)
    for periodic in parts.service.periodic:
        if periodic.every_s <= 10:
            async with rows.database.begin(reason=periodic.name) as work:
                await periodic.run(work)
    assert [one["PandaID"] for one in (await acquire(pilot))["jobs"]] == [job_id]
