"""Acquire over HTTP, on a real database."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.policy.fitting import Offer, PilotKind
from shared.auth import Authority
from shared.events import JobsDispatched
from shared.order.ranking import Ranks
from shared.runtime.service import Context
from tests.handlers.job_dispatch.calls import ACQUIRE, acquire
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import by_curl

OFFER = Offer("Q1", PilotKind())


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


async def test_what_would_have_to_change_is_told_counted_and_kept_for_who_asks_why_a_job_waits(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(1, shape="large")
    offers: list[tuple[str, dict[str, object]]] = [
        ("label", {"prod_source_label": "user"}), ("resource_type", {"resource_type": "SCORE"}),
        ("memory", {"memory": 4000}), ("disk", {"disk_space": 1000}), ("time", {"remaining_time": 600}),
        ("nothing_queued", {"site_name": "Q2"}), ("unknown_queue", {"site_name": "NOWHERE"}),
        ("memory", {"memory": 8000}),
    ]  # fmt: skip
    assert [(await acquire(pilot, **fields))["why"] for _, fields in offers] == [why for why, _ in offers]
    flat = (await by_curl(pilot, "getJob", siteName="Q1", mem=4000)).json()
    assert (flat["why"], flat["retry_after_s"]) == ("memory", 60)
    assert parts.activity.known_queues["Q1"] == "online"
    metrics = parts.reporting.metrics.no_match
    assert [metrics.labels(why)._value.get() for why in ("memory", "label", "taken")] == [3, 1, 0]
    for _ in range(2):
        async with rows.database.begin(reason="test") as work:
            await parts.activity.flush(work)
    async with rows.database.read() as connection:
        kept = await connection.fetch("SELECT queue, why, n_pilots, reason FROM pilots_without_a_job ORDER BY 1, 2")
    assert [(row["queue"], row["why"], row["n_pilots"]) for row in kept] == [
        ("Q1", "disk", 1), ("Q1", "label", 1), ("Q1", "memory", 3), ("Q1", "resource_type", 1), ("Q1", "time", 1),
        ("Q2", "nothing_queued", 1),
    ]  # fmt: skip
    assert "the pilot has 4000 MB" in kept[2]["reason"]


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


async def test_a_pilot_that_asks_for_a_user_or_a_working_group_gets_their_best_jobs_only(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    for task_id, status in ((2, "running"), (3, "running"), (4, "aborted")):
        await rows.task(task_id, status=status)
    async with rows.database.read() as connection:
        await connection.execute("UPDATE tasks SET user_name = 'bob' WHERE task_id IN (2, 3, 4)")
        await connection.execute("UPDATE tasks SET working_group = 'HIGG' WHERE task_id IN (1, 3)")
    (other,) = await rows.jobs(1, task_id=1, priority=900)
    (low,) = await rows.jobs(1, task_id=2, priority=1)
    (high,) = await rows.jobs(1, task_id=3, priority=5)
    await rows.jobs(1, task_id=4, priority=9)
    await rows.jobs(1, task_id=3, priority=9, shape="large")
    await rows.jobs(1, task_id=3, priority=9, queue="Q2")
    flat = (await by_curl(pilot, "getJob", siteName="Q1", prodUserID="bob", mem=4000, workingGroup="HIGG")).json()
    assert flat["PandaID"] == high
    assert (await acquire(pilot, prod_user_id="bob", memory=4000))["jobs"][0]["PandaID"] == low
    assert (await acquire(pilot, working_group="HIGG", memory=4000))["jobs"][0]["PandaID"] == other
    none = await acquire(pilot, prod_user_id="carol", working_group="HIGG")
    assert (none["StatusCode"], none["why"]) == (20, "nothing_queued")  # nobody asked for others' jobs at the queue yet
    assert none["reason"] == "user carol, working group HIGG has no activated job at Q1 that fits"
    rest = (await acquire(pilot))["jobs"]
    none = await acquire(pilot, prod_user_id="carol", working_group="HIGG")
    assert rest and none["why"] == "share" and none["reason"].endswith("; jobs of others that fit wait there")


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


async def test_nobody_without_a_role_of_pilots_acquires_jobs_of_others(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    await rows.jobs(1)
    async with client(parts, authority, "alice", "user") as user:
        assert (await user.post(ACQUIRE, json={"site_name": "Q1"})).json()["data"]["StatusCode"] == 20
        nobody = {"Authorization": f"Bearer {authority.issue('nobody', [])}"}
        response = await user.post(ACQUIRE, json={"site_name": "Q1"}, headers=nobody)
        assert response.status_code == 403 and response.json()["data"]["StatusCode"] == 60
        response = await user.post(ACQUIRE, json={"site_name": "Q1"}, headers={"Authorization": "Bearer x"})
        assert response.status_code == 401
    assert await rows.statuses([1]) == ["activated"]


async def test_while_postgresql_is_away_a_pilot_is_told_to_try_again(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(1)
    await parts.windows.open("Q1")
    parts.claims.limits.give_up_after_s = 0.0

    async def away(session: int, wanted: object) -> list[object]:
        raise ConnectionRefusedError("PostgreSQL is away")

    claim, parts.claims.batches._sessions.claim = parts.claims.batches._sessions.claim, away  # type: ignore[method-assign]
    response = await pilot.post(ACQUIRE, json={"site_name": "Q1"}, headers={"Idempotency-Key": "k"})
    assert response.status_code == 503 and response.json()["data"]["StatusCode"] == 10
    parts.claims.batches._sessions.claim = claim  # type: ignore[method-assign]
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


async def test_one_pilot_with_an_impossible_name_does_not_fail_the_requests_of_others(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(4)
    bodies = [{"site_name": "Q1", "node": f"node-{number}\x00"} for number in range(2)] + [{"site_name": "Q1"}] * 2
    answers = await asyncio.gather(*(pilot.post(ACQUIRE, json=body) for body in bodies))
    assert sorted(one.json()["data"]["jobs"][0]["PandaID"] for one in answers) == [1, 2, 3, 4]
