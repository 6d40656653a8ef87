"""Acquire over HTTP, on a real database."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from typing import Any

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.policy.fitting import Offer, PilotKind
from services.job_dispatch.policy.ranking import Ranks
from shared.auth import Authority
from shared.events import JobMove, JobsActivated, JobsDispatched, JobsThrottled, LaneJob, TaskCommanded
from shared.runtime.service import Context
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows

OFFER = Offer("Q1", PilotKind())
ACQUIRE = "/api/v1/pilot/acquire_jobs"


async def acquire(pilot: httpx.AsyncClient, key: str | None = None, **fields: object) -> dict[str, object]:
    headers = {"Idempotency-Key": key} if key else {}
    response = await pilot.post(ACQUIRE, json={"site_name": "Q1", **fields}, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()["data"]


async def test_a_pilot_gets_the_job_with_the_highest_priority_and_the_lowest_id(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    low = await rows.jobs(2, priority=100)
    high = await rows.jobs(2, priority=900)
    got = [(await acquire(pilot))["jobs"][0]["PandaID"] for _ in range(4)]
    assert got == [*high, *low]
    assert await rows.statuses(got) == ["sent"] * 4


async def test_a_claim_is_logged_announced_and_stamped(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1)
    await acquire(pilot, node="node7")
    row = await rows.row(job_id)
    assert row["worker"] == "node7" and row["heartbeat_at"] is not None
    (event,) = await rows.events("jobs.dispatched.v1")
    parsed = JobsDispatched.model_validate(event)
    assert parsed.job_ids == (job_id,) and parsed.event_id > 0 and parsed.occurred_at is not None
    (move,) = parsed.moves
    assert (move.from_status, move.to_status, move.n_jobs, move.n_cores) == ("activated", "sent", 1, 1)
    async with rows.database.read() as connection:
        log = await connection.fetchrow("SELECT * FROM transition_log WHERE entity = 'job' AND entity_id = $1", job_id)
    assert (log["from_status"], log["to_status"], log["actor"]) == ("activated", "sent", "test")
    assert log["reason"] == "taken by a pilot"


async def test_no_job_says_why_and_when_to_ask_again(rows: Rows, pilot: httpx.AsyncClient) -> None:
    none = await acquire(pilot)
    assert none["StatusCode"] == 20 and none["reason"] == "no activated jobs at Q1" and none["retry_after_s"] == 60
    await rows.jobs(1, queue="Q2", shape="large")
    misfit = await acquire(pilot, site_name="Q2", memory=4000)
    assert misfit["StatusCode"] == 20 and "memory 16000 MB, the pilot has 4000 MB" in str(misfit["reason"])


async def test_a_pilot_gets_only_what_fits_its_offer(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (large,) = await rows.jobs(1, shape="large", priority=900)
    (user,) = await rows.jobs(1, shape="user", priority=800)
    (small,) = await rows.jobs(1, shape="small", priority=1)
    assert (await acquire(pilot, memory="4000", prod_source_label="managed"))["jobs"][0]["PandaID"] == small
    assert (await acquire(pilot, prod_source_label="user"))["jobs"][0]["PandaID"] == user
    assert (await acquire(pilot, resource_type="SCORE"))["StatusCode"] == 20
    assert (await acquire(pilot, remaining_time=36_000))["jobs"][0]["PandaID"] == large


async def test_shares_are_served_in_rank_order_whatever_the_priorities(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    (rich,) = await rows.jobs(1, gshare="Rich", priority=900)
    (poor,) = await rows.jobs(1, gshare="Poor", priority=1)
    parts.windows.ranks = Ranks(("Poor", "Rich"))
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == poor
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == rich


async def test_the_same_idempotency_key_gets_the_same_job_at_once_and_later(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(10)
    answers = await asyncio.gather(*(acquire(pilot, key="k-1") for _ in range(5)))
    first = {answer["jobs"][0]["PandaID"] for answer in answers}
    again = (await acquire(pilot, key="k-1"))["jobs"][0]["PandaID"]
    other = (await acquire(pilot, key="k-2"))["jobs"][0]["PandaID"]
    assert first == {again} and other != again
    assert Counter(await rows.statuses(range(1, 11))) == {"sent": 2, "activated": 8}


async def test_a_repeated_key_gets_its_job_when_no_other_job_is_left(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.jobs(1)
    first = await acquire(pilot, key="only")
    assert (await acquire(pilot))["StatusCode"] == 20
    assert await acquire(pilot, key="only") == first


@pytest.mark.parametrize("ended", ["holding", "transferring", "finished", "failed", "closed", "cancelled"])
async def test_a_repeated_key_gets_another_job_once_its_pilot_no_longer_has_the_first(
    rows: Rows, pilot: httpx.AsyncClient, ended: str
) -> None:
    first, second, third = await rows.jobs(3)
    assert (await acquire(pilot, key="k"))["jobs"][0]["PandaID"] == first
    await rows.becomes(first, ended)
    assert [(await acquire(pilot, key="k"))["jobs"][0]["PandaID"] for _ in range(2)] == [second, second]
    assert await rows.statuses([first, second, third]) == [ended, "sent", "activated"]
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT array_agg(job_id ORDER BY job_id) FROM job_claims") == [second]


@pytest.mark.parametrize("held", ["sent", "starting", "running"])
async def test_a_repeated_key_gets_its_job_as_long_as_its_pilot_has_it(
    rows: Rows, pilot: httpx.AsyncClient, held: str
) -> None:
    first, _ = await rows.jobs(2)
    await acquire(pilot, key="k")
    await rows.becomes(first, held)
    assert (await acquire(pilot, key="k"))["jobs"][0]["PandaID"] == first


async def test_a_repeated_key_whose_job_has_ended_gets_nothing_from_an_empty_queue(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    (first,) = await rows.jobs(1)
    await acquire(pilot, key="k")
    await rows.becomes(first, "failed")
    assert (await acquire(pilot, key="k"))["StatusCode"] == 20


async def test_pilots_that_share_a_token_and_count_from_1_get_different_jobs(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(8)
    who: list[dict[str, object]] = [
        {"node": "n1"}, {"node": "n2"}, {"harvester_id": "h", "worker_id": 1}, {"harvester_id": "h", "worker_id": 2},
    ]  # fmt: skip
    given = [(await acquire(pilot, key="1", **one))["jobs"][0]["PandaID"] for one in [*who, *who]]
    assert given[:4] == given[4:] == [1, 2, 3, 4]


async def test_a_call_that_is_larger_than_any_pilot_sends_is_refused_unread(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1)
    many_fields = {f"more{number}": 0 for number in range(60_000)}
    cases = (
        ("pilot/acquire_jobs", {"site_name": "Q1", "node": "n" * 16_384}, "at most 16384 are"),
        ("pilot/acquire_jobs", {"site_name": "Q1", "more": [0] * 600}, "more than 500 values"),
        ("pilot/update_worker_status", {"more": "n" * 70_000}, "at most 65536 are"),
        ("pilot/get_job_status", {"job_ids": [1] * 12_000}, "more than 11000 values"),
        ("job/kill", {"job_ids": [2**62] * 20_000}, "at most 262144 are"),
        ("pilot/update_job", {"job_id": job_id, "job_status": "running", **many_fields}, "more than 50000"),
        ("pilot/update_jobs_bulk", {"job_list": [{"more": "x" * 900_000}] * 40}, "at most 33554432 are"),
    )
    for path, body, said in cases:
        answer = await pilot.post(f"/api/v1/{path}", json=body)
        status = 200 if path.startswith("pilot/") else 413
        assert answer.status_code == status and said in answer.json()["message"], (path, answer.text[:300])
        assert answer.json()["success"] is False
    assert await rows.statuses([job_id]) == ["activated"]


async def test_a_reply_lost_with_its_process_is_given_again_by_another(
    rows: Rows, parts: Parts, context: Context, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    """The crash lies between the commit of the claim and the reply: only the database knows."""
    await rows.jobs(5)
    first = await acquire(pilot, key="crash")
    context.metrics.__init__()  # a new process has its own metrics
    survivor = build_parts(context)
    for action in survivor.service.on_start:
        await action()
    async with client(survivor, authority, "pilot-1", "pilot") as again:
        assert await acquire(again, key="crash") == first
    await survivor.close()


async def test_several_jobs_of_one_request_are_different_and_repeatable(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.jobs(5)
    first = await acquire(pilot, key="many", n_jobs=3)
    ids = [job["PandaID"] for job in first["jobs"]]
    assert len(set(ids)) == 3
    assert [job["PandaID"] for job in (await acquire(pilot, key="many", n_jobs=3))["jobs"]] == ids


async def test_a_pilot_may_ask_for_one_task(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.task(2)
    await rows.jobs(3, task_id=1, priority=900)
    (mine,) = await rows.jobs(1, task_id=2, priority=1)
    assert (await acquire(pilot, task_id=2))["jobs"][0]["PandaID"] == mine
    assert (await acquire(pilot, task_id=2))["StatusCode"] == 20


async def test_a_body_may_be_gzip_without_header_a_form_or_json(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.jobs(3)
    zipped = gzip.compress(orjson.dumps({"site_name": "Q1", "memory": "2000"}))
    for content, kind in (
        (zipped, "application/json"),
        (b"site_name=Q1&memory=2000", "application/x-www-form-urlencoded"),
        (b'{"siteName": "Q1", "mem": 2000.0}', "application/json"),
    ):
        response = await pilot.post(ACQUIRE, content=content, headers={"Content-Type": kind})
        assert response.json()["data"]["StatusCode"] == 0, response.text


async def test_requests_that_cannot_be_understood_change_nothing(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.jobs(3)
    for content, said in (
        (b"{", "not JSON"),
        (b"\x1f\x8bxxxx", "broken gzip"),
        (b"[1]", "neither a JSON object nor a form"),
        (b"{}", "site_name: is missing"),
        (b'{"site_name": "Q1", "memory": "much"}', "memory"),
        (b'{"site_name": "Q1", "n_jobs": 0}', "n_jobs"),
        (b'{"site_name": "Q1", "disk_space": -5}', "disk_space"),
    ):
        answer = (await pilot.post(ACQUIRE, content=content)).json()
        assert answer["success"] is False and answer["data"]["StatusCode"] == 30, answer
        assert said in answer["message"], answer
    unknown = await acquire(pilot, site_name="NO-SUCH-QUEUE")
    assert unknown["StatusCode"] == 20 and "not known" in str(unknown["reason"])
    assert await rows.statuses([1, 2, 3]) == ["activated"] * 3


async def test_only_pilots_may_acquire(rows: Rows, parts: Parts, authority: Authority) -> None:
    await rows.jobs(1)
    async with client(parts, authority, "alice", "user") as user:
        response = await user.post(ACQUIRE, json={"site_name": "Q1"})
        assert response.status_code == 403 and response.json()["data"]["StatusCode"] == 60
        response = await user.post(ACQUIRE, json={"site_name": "Q1"}, headers={"Authorization": "Bearer x"})
        assert response.status_code == 401
    assert await rows.statuses([1]) == ["activated"]


async def test_news_of_activated_jobs_reaches_an_open_window_and_a_late_double_harms_nobody(
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
    lanes_of = parts.windows.reader.lanes_of

    async def slow(queue: str) -> Any:
        read.append(queue)
        parts.windows.limits.sweep_at_most_s = 0.0  # its time is over behind the first
        return await lanes_of(queue)

    parts.windows.reader.lanes_of = slow  # type: ignore[method-assign]
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
        await parts.lifecycle.kill(work, [first], "killed")
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
        await parts.lifecycle.kill(work, killed, "task killed")
    granted = await parts.claims.acquire(Offer("Q1"))
    assert granted is not None and granted.job_id == left
    lost = parts.claims._metrics.claims.labels("lost")._value.get()
    assert 0 < lost <= 2 * parts.claims.limits.lost_before_reread


async def test_a_pause_leaves_the_window_as_it_is_without_its_own_jobs(rows: Rows, parts: Parts) -> None:
    paused, other, third = await rows.jobs(3)
    await parts.windows.open("Q1")
    await rows.becomes(paused, "throttled")
    before = parts.windows._queues["Q1"].window
    move = JobMove(
        task_id=1, queue="Q1", resource_type="SCORE", gshare="MC", user_name="alice", from_status="activated",
        to_status="throttled", n_jobs=1, n_cores=1,
    )  # fmt: skip
    await parts.news.on_jobs_throttled(JobsThrottled(job_ids=(paused,), moves=(move,)))
    assert parts.windows._queues["Q1"].window is before
    granted = await parts.claims.acquire(OFFER)
    assert granted is not None and granted.job_id == other
    assert parts.claims._metrics.claims.labels("lost")._value.get() == 0
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


async def test_while_postgresql_is_away_a_pilot_is_told_to_try_again(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(1)
    await parts.windows.open("Q1")
    parts.claims.limits.give_up_after_s = 0.0

    async def away(session: int, wanted: object) -> list[object]:
        raise ConnectionRefusedError("PostgreSQL is away")

    claim, parts.claims._sessions.claim = parts.claims._sessions.claim, away  # type: ignore[method-assign]
    response = await pilot.post(ACQUIRE, json={"site_name": "Q1"}, headers={"Idempotency-Key": "k"})
    assert response.status_code == 503 and response.json()["data"]["StatusCode"] == 10
    parts.claims._sessions.claim = claim  # type: ignore[method-assign]
    parts.claims.limits.give_up_after_s = 20.0
    parts.windows._lost[1] = 0.0
    async with rows.database.read() as connection:
        await parts.windows.recheck_lost(connection)
    assert (await acquire(pilot, key="k"))["jobs"][0]["PandaID"] == 1


async def test_the_same_key_at_another_queue_or_from_another_caller_is_another_request(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, authority: Authority
) -> None:
    await rows.jobs(3)
    await rows.jobs(1, queue="Q2")
    async with client(parts, authority, "pilot-2", "pilot") as other:
        asked = [(pilot, "Q1"), (other, "Q1"), (pilot, "Q2"), (pilot, "Q1"), (other, "Q1"), (pilot, "Q2")]
        given = []
        for who, queue in asked:
            answer = await who.post(ACQUIRE, json={"site_name": queue}, headers={"Idempotency-Key": "1"})
            given.append(answer.json()["data"]["jobs"][0]["PandaID"])
    assert given[:3] == given[3:] == [1, 2, 4]


async def test_one_pilot_with_a_broken_name_harms_nobody_who_asks_at_the_same_time(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(4)
    bodies = [{"site_name": "Q1", "node": f"node-{number}\x00"} for number in range(2)] + [{"site_name": "Q1"}] * 2
    answers = await asyncio.gather(*(pilot.post(ACQUIRE, json=body) for body in bodies))
    assert sorted(one.json()["data"]["jobs"][0]["PandaID"] for one in answers) == [1, 2, 3, 4]
