"""Acquires that wait: for how long, for whom, and what they leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import orjson
import pytest

from services.job_dispatch.acquire.sessions import ClaimLine, ClaimOutcome
from services.job_dispatch.acquire.waiting import Unavailable
from services.job_dispatch.app import Parts
from services.job_dispatch.policy.fitting import Offer, PilotKind
from services.job_dispatch.policy.lane import Lane
from shared.auth import Authority
from tests.handlers.job_dispatch.grid_of_jobs import Rows

ACQUIRE = "/api/v1/pilot/acquire_jobs"
OFFER = Offer("Q1", PilotKind())


class HeldBack:
    """Claims that begin and do not end until `go_on`: every claim session is busy."""

    def __init__(self, parts: Parts) -> None:
        self.go_on, self.busy = asyncio.Event(), asyncio.Event()
        self.n_busy = 0
        self._sessions = parts.claims.batches._sessions
        self._claim = self._sessions.claim
        self._sessions.claim = self.claim  # type: ignore[method-assign]

    async def claim(self, session: int, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]:
        self.n_busy += 1
        if self.n_busy == self._sessions.count:
            self.busy.set()
        await self.go_on.wait()
        return await self._claim(session, wanted)


@pytest.fixture
async def held(parts: Parts, rows: Rows) -> HeldBack:
    """All sessions are claiming for somebody; ten more jobs wait."""
    await rows.jobs(12)
    await parts.windows.open("Q1")
    return HeldBack(parts)


async def all_busy(parts: Parts, held: HeldBack) -> list[asyncio.Task[Any]]:
    first = []
    parts.claims.limits.worth_another_session = 1
    for _ in range(parts.claims.batches._sessions.count):
        first.append(asyncio.create_task(parts.claims.acquire(OFFER)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.wait_for(held.busy.wait(), 60)
    return first


async def test_a_second_session_claims_only_when_enough_wait_for_it(parts: Parts, rows: Rows) -> None:
    few = parts.claims.limits.worth_another_session
    await rows.jobs(few + 2)
    await parts.windows.open("Q1")
    held = HeldBack(parts)
    asked = [asyncio.create_task(parts.claims.acquire(OFFER))]
    await asyncio.sleep(0.01)  # its claim has begun, and the turns of the loop after it
    asked += [asyncio.create_task(parts.claims.acquire(OFFER)) for _ in range(few - 1)]
    await asyncio.sleep(0.01)
    assert held.n_busy == 1
    asked.append(asyncio.create_task(parts.claims.acquire(OFFER)))
    await asyncio.wait_for(held.busy.wait(), 60)
    held.go_on.set()
    granted = await asyncio.gather(*asked)
    assert len({one.job_id for one in granted if one is not None}) == few + 1


async def test_what_waits_is_too_little_for_one_of_two_sessions_and_left_to_the_other(parts: Parts, rows: Rows) -> None:
    few = parts.claims.limits.worth_another_session
    await rows.jobs(4)
    await parts.windows.open("Q1")
    held = HeldBack(parts)
    claim, ends = held.claim, [asyncio.Event(), asyncio.Event()]

    async def ends_alone(session: int, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]:
        found = await claim(session, wanted)
        await ends[session].wait()
        return found

    held._sessions.claim = ends_alone  # type: ignore[method-assign]
    held.go_on.set()
    first, second = await all_busy(parts, held)
    parts.claims.limits.worth_another_session = few
    later = [asyncio.create_task(parts.claims.acquire(OFFER)) for _ in range(2)]
    await asyncio.sleep(0)
    ends[0].set()
    await asyncio.wait_for(first, 60)
    assert held.n_busy == 2 and not any(one.done() for one in later)
    ends[1].set()
    await asyncio.wait_for(asyncio.gather(second, *later), 60)
    assert held.n_busy == 3, "those that waited were claimed together"


async def test_the_next_claim_is_sent_before_the_answers_to_the_last_are_given(parts: Parts, rows: Rows) -> None:
    await rows.jobs(2)
    await parts.windows.open("Q1")
    held = HeldBack(parts)
    claim, answered = held.claim, list[bool]()

    async def noted(session: int, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]:
        answered.append(first.done())
        return await claim(session, wanted)

    held._sessions.claim = noted  # type: ignore[method-assign]
    first = asyncio.create_task(parts.claims.acquire(OFFER))
    await asyncio.sleep(0.01)  # its claim has begun
    second = asyncio.create_task(parts.claims.acquire(OFFER))
    await asyncio.sleep(0)
    held.go_on.set()
    await asyncio.wait_for(asyncio.gather(first, second), 60)
    assert answered == [False, False]


async def n_sent(rows: Rows) -> int:
    async with rows.database.read() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM jobs WHERE status <> 'activated'"))


async def ask(parts: Parts, token: str, has_gone: asyncio.Event) -> list[dict[str, Any]]:
    """An acquire over ASGI whose caller goes when the event is set; what was sent to it."""
    sent: list[dict[str, Any]] = []
    body = [orjson.dumps({"site_name": "Q1"})]

    async def receive() -> dict[str, Any]:
        if body:
            return {"type": "http.request", "body": body.pop(), "more_body": False}
        await has_gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": ACQUIRE, "raw_path": ACQUIRE.encode(), "query_string": b"",
        "headers": headers, "http_version": "1.1", "scheme": "http", "server": ("s", 80), "root_path": "",
    }  # fmt: skip
    assert parts.service.web is not None
    await parts.service.web(scope, receive, send)
    return sent


async def test_nothing_is_claimed_for_a_caller_that_has_gone_while_it_waited(
    rows: Rows, parts: Parts, held: HeldBack, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    first = await all_busy(parts, held)
    has_gone = asyncio.Event()
    token = authority.issue("pilot-1", ["pilot"])
    waiting = [asyncio.create_task(ask(parts, token, has_gone)) for _ in range(5)]
    has_gone.set()
    answers = await asyncio.wait_for(asyncio.gather(*waiting), 60)  # they end although no session is free
    assert [messages[0]["status"] for messages in answers] == [499] * 5
    held.go_on.set()
    await asyncio.gather(*first)
    assert (await pilot.post(ACQUIRE, json={"site_name": "Q1"})).json()["data"]["jobs"]
    assert await n_sent(rows) == len(first) + 1


async def test_a_request_whose_time_is_over_is_told_so_and_nothing_is_claimed_for_it(
    rows: Rows, parts: Parts, held: HeldBack, pilot: httpx.AsyncClient
) -> None:
    first = await all_busy(parts, held)
    parts.claims.limits.give_up_after_s = 0.05
    late = await pilot.post(ACQUIRE, json={"site_name": "Q1"}, headers={"Idempotency-Key": "k"})
    assert late.status_code == 503 and late.headers["Retry-After"] == "5"
    assert "within 0.05 s" in late.json()["message"]
    parts.claims.limits.give_up_after_s = 20.0
    held.go_on.set()
    await asyncio.gather(*first)
    again = await pilot.post(ACQUIRE, json={"site_name": "Q1"}, headers={"Idempotency-Key": "k"})
    assert again.json()["data"]["jobs"] and await n_sent(rows) == len(first) + 1


async def test_a_caller_that_goes_takes_nothing_from_another_with_the_same_key(
    rows: Rows, parts: Parts, held: HeldBack
) -> None:
    first = await all_busy(parts, held)
    leaving, staying = (asyncio.create_task(parts.claims.acquire(OFFER, "k")) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    held.go_on.set()
    granted = await staying
    assert granted is not None and leaving.cancelled()
    await asyncio.gather(*first)
    assert await n_sent(rows) == len(first) + 1


async def test_a_key_whose_callers_have_all_gone_is_forgotten(rows: Rows, parts: Parts, held: HeldBack) -> None:
    first = await all_busy(parts, held)
    leaving = [asyncio.create_task(parts.claims.acquire(OFFER, "k")) for _ in range(2)]
    await asyncio.sleep(0)
    for one in leaving:
        one.cancel()
    await asyncio.wait(leaving)
    held.go_on.set()
    await asyncio.gather(*first)
    assert not parts.claims._by_key and await n_sent(rows) == len(first)


async def test_what_was_granted_is_returned_when_another_claim_of_the_request_fails(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    await rows.jobs(5)
    acquire, n_asked = parts.claims.acquire, 0

    async def failing(offer: Offer, key: str | None = None, **asked: bool) -> Any:
        nonlocal n_asked
        n_asked += 1
        if n_asked > 2:
            raise Unavailable("PostgreSQL is away")
        return await acquire(offer, key, **asked)

    parts.claims.acquire = failing  # type: ignore[method-assign]
    some = await pilot.post(ACQUIRE, json={"site_name": "Q1", "n_jobs": 4})
    assert [job["PandaID"] for job in some.json()["data"]["jobs"]] == [1, 2]
    none = await pilot.post(ACQUIRE, json={"site_name": "Q1", "n_jobs": 2})
    assert none.status_code == 503 and await n_sent(rows) == 2


async def test_beyond_so_many_waiting_requests_pilots_are_told_when_to_come_again(
    rows: Rows, parts: Parts, held: HeldBack, pilot: httpx.AsyncClient
) -> None:
    first = await all_busy(parts, held)
    room = parts.service.web._room  # type: ignore[union-attr]
    room.most_requests = 2
    waiting = [asyncio.create_task(pilot.post(ACQUIRE, json={"site_name": "Q1"})) for _ in range(2)]
    while room.n_requests < 2:  # noqa: ASYNC110  (there is no event for it)
        await asyncio.sleep(0)
    refused = await pilot.post(ACQUIRE, json={"site_name": "Q1"})
    assert refused.status_code == 503 and refused.headers["Retry-After"] == "5"
    held.go_on.set()
    assert [bool((await one).json()["data"]["jobs"]) for one in waiting] == [True, True]
    await asyncio.gather(*first)
    assert room.n_requests == 0 and await n_sent(rows) == len(first) + 2


@pytest.mark.parametrize("fault_at", ["pick", "site", "count", "refill"])
async def test_a_pick_that_fails_fails_its_request_only_and_its_job_can_be_picked_again(
    rows: Rows, parts: Parts, monkeypatch: pytest.MonkeyPatch, fault_at: str
) -> None:
    broken, *others = await rows.jobs(1, queue="Q2") + await rows.jobs(3)
    for queue in ("Q1", "Q2"):
        await parts.windows.open(queue)
    pick, asks = parts.windows.pick, parts.sites.asks
    task_queues = parts.windows.facts.task_queues
    picked, refill = task_queues.picked, parts.windows.refill

    def failing_pick(offer: Offer) -> Any:
        return {}["pick"] if offer.queue == "Q2" else pick(offer)

    def failing_asks(queue: str) -> bool:
        return {}["site"] if queue == "Q2" else asks(queue)

    def failing_count(queue: str, order_key_id: int, job_id: int) -> None:
        return {}["count"] if queue == "Q2" else picked(queue, order_key_id, job_id)

    def failing_refill(queue: str, lane: Lane) -> Any:
        return {}["refill"] if queue == "Q2" else refill(queue, lane)

    faults: dict[str, tuple[Any, str, Any]] = {
        "pick": (parts.windows, "pick", failing_pick),
        "site": (parts.sites, "asks", failing_asks),
        "count": (task_queues, "picked", failing_count),
        "refill": (parts.windows, "refill", failing_refill),
    }
    with monkeypatch.context() as patched:
        patched.setattr(*faults[fault_at])
        if fault_at == "refill":  # the lane was not read to its end
            for lane in parts.windows._queues["Q2"].window.lanes():
                lane.complete = False
        offers = [OFFER, Offer("Q2", PilotKind()), OFFER, OFFER]
        waited = asyncio.gather(*(parts.claims.acquire(one) for one in offers), return_exceptions=True)
        found = await asyncio.wait_for(waited, 10)
    assert isinstance(found.pop(1), Unavailable)
    assert sorted(one.job_id for one in found) == others and not parts.windows.in_flight
    await parts.windows.reread("Q2")
    again = await parts.claims.acquire(Offer("Q2", PilotKind()))
    assert again is not None and again.job_id == broken
