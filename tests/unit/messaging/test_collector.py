"""Who is idle is served at once, who is busy does several events in one transaction; a bad event harms no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.events import JobsFinished, TaskDefined
from shared.messaging import collector as collecting
from shared.messaging.collector import Collector
from shared.messaging.subscription import (
    COLLECT_COUNTS_S,
    COLLECT_S,
    Delivery,
    DeliveryOutcome,
    Received,
    WorkSubscription,
)

HANDLED, PARKED = DeliveryOutcome.HANDLED, DeliveryOutcome.PARKED
NOW = datetime(2026, 3, 1, tzinfo=UTC)


async def nothing(event: Any, work: Any) -> None:
    """A handler that nobody calls."""


FINISHED = WorkSubscription("job-generation", JobsFinished, nothing)


class Dispatching:
    """In place of a dispatcher: `batches` are the ids it had together, `alone` those it had by themselves.

    A batch that has one of `bad` fails; each batch waits for `go`.
    """

    def __init__(self, *bad: int) -> None:
        self.bad, self.batches, self.alone = set(bad), list[list[int]](), list[int]()
        self.go = asyncio.Event()
        self.go.set()

    def received(self, delivery: Delivery) -> Received | None:
        if not delivery.body:
            return None
        n_jobs, event_id = int(delivery.routing_key), int(delivery.body)
        return Received(delivery, JobsFinished(event_id=event_id, occurred_at=NOW, job_ids=tuple(range(n_jobs))))

    async def deliver_together(self, received: Sequence[Received]) -> list[DeliveryOutcome] | None:
        ids = [one.event.event_id for one in received]
        self.batches.append(ids)
        await self.go.wait()
        return None if self.bad & set(ids) else [HANDLED] * len(ids)

    async def deliver(self, delivery: Delivery) -> DeliveryOutcome:
        if not delivery.body:
            return DeliveryOutcome.UNDECODABLE
        self.alone.append(int(delivery.body))
        return PARKED if int(delivery.body) in self.bad else HANDLED


def delivery(event_id: int, n_jobs: int = 1) -> Delivery:
    return Delivery(FINISHED.consumer, str(n_jobs), str(event_id).encode())


def collector(dispatching: Dispatching) -> Collector:
    return Collector(dispatching, FINISHED)  # type: ignore[arg-type]


async def test_an_idle_consumer_handles_an_event_at_once() -> None:
    dispatching = Dispatching()
    async with asyncio.timeout(COLLECT_S / 2):
        assert await collector(dispatching).deliver(delivery(1)) is HANDLED
    assert dispatching.batches == [[1]]


async def test_what_arrives_during_a_transaction_is_the_next_one() -> None:
    dispatching = Dispatching()
    one = collector(dispatching)
    dispatching.go.clear()
    first = asyncio.create_task(one.deliver(delivery(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(one.deliver(delivery(number))) for number in range(2, 6)]
    await asyncio.sleep(0)
    dispatching.go.set()
    assert set(await asyncio.gather(first, *others)) == {HANDLED}
    assert dispatching.batches == [[1], [2, 3, 4, 5]]


async def test_a_busy_consumer_collects_for_a_bounded_time() -> None:
    dispatching = Dispatching()
    one = collector(dispatching)
    await asyncio.gather(*(one.deliver(delivery(number)) for number in range(30)))
    dispatching.batches.clear()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    first = asyncio.create_task(one.deliver(delivery(100)))
    await asyncio.sleep(COLLECT_S / 4)
    await asyncio.gather(first, one.deliver(delivery(101)))
    assert dispatching.batches == [[100, 101]] and loop.time() - begun >= 0.9 * COLLECT_S


async def test_enough_events_or_jobs_are_not_waited_for() -> None:
    dispatching = Dispatching()
    one = collector(dispatching)
    many = [delivery(number) for number in range(2 * collecting.MOST_EVENTS + 1)]
    await asyncio.gather(*map(one.deliver, many))
    assert max(map(len, dispatching.batches)) == collecting.MOST_EVENTS
    dispatching.batches.clear()
    await asyncio.gather(*(one.deliver(delivery(number, n_jobs=500)) for number in range(8)))
    assert [len(batch) for batch in dispatching.batches] == [4, 4]


async def test_after_a_long_transaction_the_next_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LONGEST_S", 0.0)
    dispatching = Dispatching()
    one = collector(dispatching)
    await one.deliver(delivery(1))
    await asyncio.gather(*(one.deliver(delivery(number, n_jobs=500)) for number in range(2, 6)))
    assert [len(batch) for batch in dispatching.batches][:2] == [1, 2]


async def test_one_bad_event_is_tried_alone_and_so_are_those_that_failed_with_it() -> None:
    dispatching = Dispatching(3)
    one = collector(dispatching)
    dispatching.go.clear()
    first = asyncio.create_task(one.deliver(delivery(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(one.deliver(delivery(number))) for number in (2, 3, 4)]
    await asyncio.sleep(0)
    dispatching.go.set()
    assert await asyncio.gather(first, *others) == [HANDLED, HANDLED, PARKED, HANDLED]
    assert sorted(dispatching.alone) == [2, 3, 4]


async def test_what_is_no_event_goes_alone_and_is_not_waited_for() -> None:
    dispatching = Dispatching()
    one = collector(dispatching)
    empty = Delivery(FINISHED.consumer, "1", b"")
    assert await asyncio.gather(one.deliver(delivery(1)), one.deliver(empty)) == [HANDLED, DeliveryOutcome.UNDECODABLE]


async def test_at_the_end_what_was_begun_is_settled_and_what_was_not_is_left() -> None:
    dispatching = Dispatching()
    one = collector(dispatching)
    dispatching.go.clear()
    begun = asyncio.create_task(one.deliver(delivery(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting = asyncio.create_task(one.deliver(delivery(2)))
    await asyncio.sleep(0)
    one.close()
    assert await waiting is None and await one.deliver(delivery(3)) is None
    dispatching.go.set()
    assert await begun is HANDLED
    await one.stop()
    assert dispatching.batches == [[1]]


async def test_what_is_cancelled_in_the_middle_is_not_settled() -> None:
    dispatching = Dispatching()
    one = collector(dispatching)
    dispatching.go.clear()
    begun = asyncio.create_task(one.deliver(delivery(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await one.stop()
    assert await begun is None


def test_who_only_counts_collects_for_longer() -> None:
    assert FINISHED.collects_s == COLLECT_S
    assert WorkSubscription("job-brokerage", JobsFinished, nothing).collects_s == COLLECT_COUNTS_S
    assert WorkSubscription("task-brokerage", TaskDefined, nothing).collects_s == COLLECT_S
