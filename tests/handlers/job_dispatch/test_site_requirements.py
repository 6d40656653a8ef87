"""Requirements asked once more when a pilot asks for jobs: both ways, of each job as it is, nothing is counted."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from services.job_dispatch.acquire.lane_reader import DatabaseLaneReader
from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.policy.fitting import Offer
from services.task_definition.tasks.explaining import Explanation
from shared.auth import Caller
from shared.brokerage.matchmaking import JobFacts
from shared.cache import NullCache
from shared.events import JobsActivated, LaneJob
from shared.runtime.service import Context
from shared.snapshot import KnownGrid
from tests.handlers.job_dispatch.calls import ACQUIRE, acquire
from tests.handlers.job_dispatch.grid_of_jobs import Rows

ADVERT = {"Site": "SITE-A", "MaxJobs": 5, "CurrentJobs": 2}

OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


async def advertise(pilot: httpx.AsyncClient, **values: Any) -> None:
    reply = (await pilot.post("/api/v1/site/advertise", json={**ADVERT, **values})).json()
    assert reply["success"], reply["message"]


async def got(pilot: httpx.AsyncClient, **fields: Any) -> list[int]:
    return [one["PandaID"] for one in (await acquire(pilot, **fields))["jobs"]]  # type: ignore[attr-defined]


async def change(rows: Rows, statement: str) -> None:
    async with rows.database.read() as connection:
        await connection.execute(statement)


async def refresh(parts: Parts, rows: Rows) -> None:
    """What happens by itself every two seconds."""
    async with rows.database.read() as connection:
        await parts.sites.refresh(connection)


async def replica(context: Context, **values: Any) -> Parts:
    """A dispatcher of its own, started; to be closed."""
    parts = build_parts(dataclasses.replace(context, metrics=CollectorRegistry()), **values)
    for action in parts.service.on_start:
        await action()
    return parts


async def test_the_jobs_that_filled_the_site_are_handed_out_and_nothing_is_counted(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    jobs = await rows.jobs(3)
    await advertise(pilot)
    await change(rows, "UPDATE site_adverts SET current_matches = 5")
    assert await got(pilot, n_jobs=3) == jobs
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT current_matches FROM site_adverts") == 5


async def test_a_site_that_says_it_is_full_gets_no_job_and_the_pilot_is_told_why(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    jobs = await rows.jobs(2)
    await advertise(pilot, CurrentJobs=5)
    answer = await acquire(pilot)
    assert answer["StatusCode"] == 20 and answer["retry_after_s"] == 60
    assert answer["reason"] == (
        "jobs are waiting at Q1 but 2 do not match what site SITE-A advertises:"
        " site SITE-A asks for (CurMatches < MaxJobs) (CurMatches 5, MaxJobs 5)"
    )
    assert await rows.statuses(jobs) == ["activated"] * 2
    await advertise(pilot, CurrentJobs=4)
    assert await got(pilot, n_jobs=2) == jobs


async def test_the_explanation_of_a_job_says_why_its_site_does_not_take_it(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    [large], [small] = await rows.jobs(1, shape="large"), await rows.jobs(1)
    await advertise(pilot, Requirements="TARGET.RequestMemory <= 4000")

    async def explained(job_id: int) -> str:
        async with rows.database.read() as connection:
            found = await Explanation(KnownGrid(NullCache())).job(connection, job_id, OPERATOR)
        assert found is not None
        return str(found["text"])

    assert (
        "not handed out by the site's advertisement: site SITE-A asks for TARGET.RequestMemory <= 4000"
        " (RequestMemory 16000)"
    ) in await explained(large)
    assert "advertisement" not in await explained(small)


async def test_the_site_is_asked_about_the_memory_of_each_job(rows: Rows, pilot: httpx.AsyncClient) -> None:
    large = await rows.jobs(2, shape="large", priority=900)
    small = await rows.jobs(2, shape="small", priority=100)
    await advertise(pilot, Requirements="TARGET.RequestMemory <= 4000 && TARGET.RequestCpus == 1")
    assert await got(pilot, n_jobs=4) == small
    assert await rows.statuses(large) == ["activated"] * 2
    assert "RequestCpus 8, RequestMemory 16000" in str((await acquire(pilot))["reason"])


async def test_the_task_is_asked_about_the_site(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.task(2, requirements='TARGET.Station == "samgrid"')
    await rows.task(3, requirements='TARGET.Station == "other"')
    other, samgrid = await rows.jobs(1, task_id=3, priority=900), await rows.jobs(1, task_id=2)
    await advertise(pilot, Station="samgrid")
    assert await got(pilot, n_jobs=2) == samgrid
    assert await rows.statuses(other) == ["activated"]
    reason = str((await acquire(pilot))["reason"])
    assert reason.endswith('the task asks for TARGET.Station == "other" (Station samgrid)')


async def test_jobs_that_differ_only_by_their_task_share_a_lane_and_are_told_apart(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    await rows.task(2)
    unwanted = await rows.jobs(600, task_id=1, priority=500)
    wanted = await rows.jobs(3, task_id=2, priority=400)
    more = await rows.jobs(3, task_id=2, priority=600)
    await advertise(pilot, Requirements="TARGET.TaskId == 2")
    assert await got(pilot, n_jobs=5) == [*more, *wanted[:2]]
    assert set(await rows.statuses(unwanted)) == {"activated"}


async def test_without_an_advertisement_of_its_site_a_queue_asks_nobody(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, monkeypatch: Any
) -> None:
    await rows.task(2, requirements="false")
    [job_id] = await rows.jobs(1, queue="Q2", task_id=2)
    await advertise(pilot, CurrentJobs=5)
    monkeypatch.setattr(parts.sites, "answer", None)  # whoever asks, fails
    assert await got(pilot, site_name="Q2") == [job_id]


async def test_a_pilot_for_one_task_gets_only_what_its_site_takes(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.jobs(20, shape="large", priority=900)
    [small] = await rows.jobs(1)
    await advertise(pilot, Requirements="TARGET.RequestMemory <= 4000")
    assert await got(pilot, task_id=1) == [small]
    answer = await acquire(pilot, task_id=1)
    assert "RequestMemory 16000" in str(answer["reason"])


async def test_after_five_minutes_without_a_new_advertisement_the_jobs_go_again(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    jobs = await rows.jobs(2)
    await advertise(pilot, CurrentJobs=5)
    assert await got(pilot) == []
    await change(rows, "UPDATE site_adverts SET expires_at = orrery_now()")
    await refresh(parts, rows)
    assert await got(pilot, n_jobs=2) == jobs


async def test_an_advertisement_that_arrives_while_a_job_is_asked_about_is_the_one_that_decides(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, monkeypatch: Any
) -> None:
    jobs = await rows.jobs(1)
    await advertise(pilot, CurrentJobs=5)
    read, asked, go_on = DatabaseLaneReader.job_facts, asyncio.Event(), asyncio.Event()

    async def held(reader: DatabaseLaneReader, job_ids: Sequence[int]) -> dict[int, JobFacts]:
        asked.set()
        await go_on.wait()
        return await read(reader, job_ids)

    monkeypatch.setattr(DatabaseLaneReader, "job_facts", held)
    asking = asyncio.create_task(got(pilot))
    await asked.wait()
    await advertise(pilot, CurrentJobs=2)
    go_on.set()
    assert await asking == jobs


async def test_a_failed_read_keeps_nobody_waiting_and_the_next_request_asks_again(
    rows: Rows, pilot: httpx.AsyncClient, monkeypatch: Any
) -> None:
    [job_id] = await rows.jobs(1)
    await advertise(pilot)

    async def broken(*_: Any) -> dict[int, JobFacts]:
        raise ConnectionError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(DatabaseLaneReader, "job_facts", broken)
        assert (await pilot.post(ACQUIRE, json={"site_name": "Q1"})).status_code == 503
    assert await got(pilot) == [job_id]


async def test_pilots_that_wait_for_one_question_are_served_in_the_order_they_came(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    jobs = await rows.jobs(20)
    await advertise(pilot)
    assert await got(pilot, n_jobs=20) == jobs


async def test_a_replica_does_not_believe_an_advertisement_for_longer_than_it_lasts(
    rows: Rows, context: Context
) -> None:
    now = 1000.0
    parts = await replica(context, clock=lambda: now)
    try:
        await change(
            rows,
            "INSERT INTO site_adverts (site, max_jobs, current_jobs, expires_at)"
            " VALUES ('SITE-A', 1, 1, clock_timestamp() + interval '5 minutes')",
        )
        await refresh(parts, rows)
        [first] = await rows.jobs(1)
        assert await parts.claims.acquire(Offer("Q1")) is None
        now += 301  # nobody has read anything since
        [second] = await rows.jobs(1)
        await parts.news.on_jobs_activated(
            JobsActivated(
                job_ids=(second,),
                lane_jobs=(
                    LaneJob(job_id=second, queue="Q1", gshare="MC", shape_id=rows.shapes["small"], priority=100),
                ),
            )
        )
        granted = await parts.claims.acquire(Offer("Q1"))
        assert granted is not None and granted.job_id == second
        await change(rows, "UPDATE site_adverts SET expires_at = orrery_now()")
        await refresh(parts, rows)
        granted = await parts.claims.acquire(Offer("Q1"))
        assert granted is not None and granted.job_id == first
    finally:
        await parts.close()


async def test_another_replica_hears_of_an_advertisement_at_its_next_look(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, context: Context
) -> None:
    other = await replica(context)
    try:
        jobs = await rows.jobs(2)
        await advertise(pilot, CurrentJobs=5)
        granted = await other.claims.acquire(Offer("Q1"))
        assert granted is not None and granted.job_id == jobs[0]
        await refresh(other, rows)
        assert await other.claims.acquire(Offer("Q1")) is None
        await advertise(pilot, CurrentJobs=1)
        await refresh(other, rows)
        granted = await other.claims.acquire(Offer("Q1"))
        assert granted is not None and granted.job_id == jobs[1]
    finally:
        await other.close()


async def test_a_repeated_request_gets_its_job_although_its_site_is_full_now(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    [job_id] = await rows.jobs(1)
    first = await acquire(pilot, key="one")
    await advertise(pilot, CurrentJobs=5)
    assert (await acquire(pilot, key="one"))["jobs"] == first["jobs"]
    assert first["jobs"][0]["PandaID"] == job_id  # type: ignore[index]


async def test_a_job_that_has_gone_since_it_was_read_holds_nobody_up(rows: Rows, pilot: httpx.AsyncClient) -> None:
    gone, left = await rows.jobs(2, priority=100)
    [other] = await rows.jobs(1, queue="Q1", priority=900)
    assert await got(pilot) == [other]  # the window is in memory
    await advertise(pilot)
    await change(rows, f"DELETE FROM jobs WHERE job_id = {gone}")
    assert await got(pilot) == [left]


async def test_it_is_counted_whose_requirements_do_not_hold(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, context: Context
) -> None:
    await rows.task(2, requirements="false")
    await rows.jobs(1)
    await rows.jobs(2, shape="large")
    await rows.jobs(1, task_id=2)
    await advertise(pilot, Requirements="TARGET.RequestMemory <= 4000")
    await got(pilot, n_jobs=4)
    counted = {
        answer: context.metrics.get_sample_value("orrery_requirements_at_dispatch_total", {"answer": answer})
        for answer in ("hold", "site", "task")
    }
    assert counted == {"hold": 1.0, "site": 2.0, "task": 1.0}
