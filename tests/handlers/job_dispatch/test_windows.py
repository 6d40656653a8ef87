"""The windows of a dispatcher: news, sweeps, stale entries, throttled jobs; on a real database."""

from __future__ import annotations

from typing import Any

import httpx

from services.job_dispatch.app import Parts
from services.job_dispatch.lifecycle.transitions import kill_jobs
from services.job_dispatch.policy.fitting import Offer, PilotKind
from shared.events import JobMove, JobsActivated, JobsDispatched, JobsThrottled, LaneJob, TaskCommanded
from tests.handlers.job_dispatch.calls import acquire
from tests.handlers.job_dispatch.grid_of_jobs import Rows

OFFER = Offer("Q1", PilotKind())


async def test_news_of_activated_jobs_reaches_an_open_window_and_a_late_duplicate_changes_nothing(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    assert (await acquire(pilot))["StatusCode"] == 20  # opens the queue's windows
    (job_id,) = await rows.jobs(1, priority=5)
    assert (await acquire(pilot))["StatusCode"] == 20  # not heard of yet
    lane_job = LaneJob(job_id=job_id, queue="Q1", gshare="MC", shape_id=rows.shapes["small"], priority=5)
    news = JobsActivated(job_ids=(job_id,), lane_jobs=(lane_job,))
    await parts.news.on_jobs_activated(news)
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == job_id
    await parts.news.on_jobs_activated(news)
    assert (await acquire(pilot))["StatusCode"] == 20


async def test_a_missed_arrival_is_found_by_the_sweep(rows: Rows, parts: Parts, pilot: httpx.AsyncClient) -> None:
    assert (await acquire(pilot))["StatusCode"] == 20
    (job_id,) = await rows.jobs(1)
    parts.windows._queues["Q1"].sweep_at = 0.0
    assert await parts.windows.sweep() == 1
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == job_id


async def test_a_sweep_that_takes_too_long_goes_on_the_next_time_with_what_has_waited_longest(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    for place, queue in enumerate(("Q1", "Q2")):
        await acquire(pilot, site_name=queue)
        parts.windows._queues[queue].sweep_at = -float(place)
    parts.windows.limits.sweep_at_most_s = 0.0
    assert await parts.windows.sweep() == 0
    parts.windows.limits.sweep_at_most_s = 60.0
    read: list[str] = []
    first_lanes = parts.windows.reader.first_lanes

    async def slow(queue: str, *how: Any) -> Any:
        read.append(queue)
        parts.windows.limits.sweep_at_most_s = 0.0  # its time is over behind the first
        return await first_lanes(queue, *how)

    parts.windows.reader.first_lanes = slow  # type: ignore[method-assign]
    assert await parts.windows.sweep() == 1 and read == ["Q2"]
    parts.windows.limits.sweep_at_most_s = 60.0
    assert await parts.windows.sweep() == 1 and read == ["Q2", "Q1"]


async def test_an_idle_queue_is_forgotten_and_read_again_at_the_next_touch(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    await acquire(pilot)
    parts.windows._queues["Q1"].used_at -= 1000
    await parts.windows.sweep()
    assert not parts.windows.is_open("Q1")
    (job_id,) = await rows.jobs(1)
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == job_id


async def test_a_job_locked_by_a_transaction_that_rolls_back_is_offered_again(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1)
    async with rows.database.pool.acquire() as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT 1 FROM jobs WHERE job_id = $1 FOR UPDATE", job_id)
        assert (await acquire(pilot))["StatusCode"] == 20
        await transaction.rollback()
    parts.windows._lost[job_id] = 0.0  # the second has passed
    async with rows.database.read() as connection:
        assert await parts.windows.recheck_lost(connection) == 1
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == job_id


async def test_a_stale_entry_never_wins(rows: Rows, parts: Parts, pilot: httpx.AsyncClient) -> None:
    first, second = await rows.jobs(2)
    await parts.windows.open("Q1")
    async with rows.database.begin(reason="killed") as work:
        await kill_jobs(work, [first], "killed")
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == second
    assert await rows.statuses([first]) == ["cancelled"]


async def test_jobs_taken_by_another_replica_are_not_tried(rows: Rows, parts: Parts) -> None:
    first, second = await rows.jobs(2)
    await parts.windows.open("Q1")
    await parts.news.on_jobs_dispatched(JobsDispatched(job_ids=(first,)))
    granted = await parts.claims.acquire(Offer("Q1", PilotKind()))
    assert granted is not None and granted.job_id == second


async def test_a_lane_longer_than_its_window_is_served_to_its_end_in_order(rows: Rows, parts: Parts) -> None:
    parts.windows.limits.refill_size, parts.windows.limits.refill_below = 16, 4
    parts.windows.limits.first_read = 8
    ids = await rows.jobs(100)
    got = [await parts.claims.acquire(Offer("Q1")) for _ in ids]
    assert [one.job_id for one in got if one is not None] == ids
    assert await parts.claims.acquire(Offer("Q1")) is None


async def test_a_window_full_of_killed_jobs_is_read_again_instead_of_tried_through(rows: Rows, parts: Parts) -> None:
    killed = await rows.jobs(200, priority=900)
    (left,) = await rows.jobs(1, priority=1)
    await parts.windows.open("Q1")
    async with rows.database.begin(reason="task killed") as work:
        await kill_jobs(work, killed, "task killed")
    granted = await parts.claims.acquire(Offer("Q1"))
    assert granted is not None and granted.job_id == left
    lost = parts.claims.batches._metrics.claims.labels("lost")._value.get()
    assert 0 < lost <= 2 * parts.claims.limits.lost_before_reread


async def test_a_pause_leaves_the_window_as_it_is_without_its_own_jobs(rows: Rows, parts: Parts) -> None:
    paused, other, third = await rows.jobs(3)
    await parts.windows.open("Q1")
    await rows.becomes(paused, "throttled")
    before = parts.windows._queues["Q1"].window
    move = JobMove(
        task_id=1,
        queue="Q1",
        resource_type="SCORE",
        gshare="MC",
        user_name="alice",
        from_status="activated",
        to_status="throttled",
        n_jobs=1,
        n_cores=1,
    )
    await parts.news.on_jobs_throttled(JobsThrottled(job_ids=(paused,), moves=(move,)))
    assert parts.windows._queues["Q1"].window is before
    granted = await parts.claims.acquire(OFFER)
    assert granted is not None and granted.job_id == other
    assert parts.claims.batches._metrics.claims.labels("lost")._value.get() == 0
    await rows.becomes(paused, "activated")
    lane_job = LaneJob(job_id=paused, queue="Q1", gshare="MC", shape_id=rows.shapes["small"], priority=100)
    await parts.news.on_jobs_activated(JobsActivated(job_ids=(paused,), lane_jobs=(lane_job,)))
    granted = await parts.claims.acquire(OFFER)
    assert granted is not None and granted.job_id == paused
    assert (last := await parts.claims.acquire(OFFER)) is not None and last.job_id == third


async def test_a_release_whose_news_was_lost_is_found_by_the_next_reading(rows: Rows, parts: Parts) -> None:
    (job_id,) = await rows.jobs(1)
    await parts.windows.open("Q1")
    await parts.news.on_jobs_throttled(JobsThrottled(job_ids=(job_id,)))
    assert await parts.claims.acquire(OFFER) is None
    await parts.windows.reread("Q1")
    granted = await parts.claims.acquire(OFFER)
    assert granted is not None and granted.job_id == job_id


async def test_a_window_is_dropped_for_much_news_at_once_and_never_for_what_it_holds(rows: Rows, parts: Parts) -> None:
    now = 1000.0
    parts.windows._clock = lambda: now
    parts.windows.limits.most_news, parts.windows.limits.most_of_lane = 50, 16
    await parts.windows.open("Q1")
    window = parts.windows._queues["Q1"].window
    ids = await rows.jobs(200)
    for first in range(0, 200, 40):
        now += 1.0
        await parts.news.on_jobs_activated(activated(rows, ids[first : first + 40]))
    assert parts.windows._queues["Q1"].window is window and len(window) <= 16
    got = [await parts.claims.acquire(OFFER) for _ in ids]
    assert [one.job_id for one in got if one is not None] == ids  # what the window did not keep was read again
    more = await rows.jobs(60)
    for first in (0, 30):  # 60 within one second
        await parts.news.on_jobs_activated(activated(rows, more[first : first + 30]))
    assert not parts.windows.is_open("Q1")
    assert (next_one := await parts.claims.acquire(OFFER)) is not None and next_one.job_id == more[0]


def activated(rows: Rows, job_ids: list[int]) -> JobsActivated:
    shape_id = rows.shapes["small"]
    lanes = [LaneJob(job_id=one, queue="Q1", gshare="MC", shape_id=shape_id, priority=100) for one in job_ids]
    return JobsActivated(job_ids=tuple(job_ids), lane_jobs=tuple(lanes))


async def test_throttled_jobs_are_not_offered_and_return_when_released(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    first, second = await rows.jobs(2)
    await parts.windows.open("Q1")
    for command, key, status in (("pause", "throttled", "paused"), ("resume", "activated", "running")):
        await rows.task_is(status)
        async with rows.database.begin(reason="test") as work:
            await parts.handlers.on_task_commanded(TaskCommanded(task_id=1, command=command, status="running"), work)
        (event,) = await rows.events(f"jobs.{key}.v1")
        if key == "throttled":
            await parts.news.on_jobs_throttled(JobsThrottled.model_validate(event))
            assert (await acquire(pilot))["StatusCode"] == 20
        else:
            await parts.news.on_jobs_activated(JobsActivated.model_validate(event))
    assert [(await acquire(pilot))["jobs"][0]["PandaID"] for _ in range(2)] == [first, second]
