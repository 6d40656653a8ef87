"""From deliveries to one transaction: inbox, handler, outbox, or the record of why not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from shared.db.database import Database, is_retryable
from shared.db.unit_of_work import InboxKey
from shared.db.waits import RowHeld
from shared.events.base import Event, merged
from shared.messaging import ledger
from shared.messaging.codec import Undecodable, decode
from shared.messaging.failure_records import FailureRecords, RetryPolicy
from shared.messaging.failures import Permanent, Transient
from shared.messaging.gate import DatabaseGate
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.subscription import (
    Delivery,
    DeliveryOutcome,
    NewsSubscription,
    Received,
    WorkSubscription,
)

log = logging.getLogger(__name__)

DUE_AT_ONCE = 100
DUE_BUSY_S = 60.0
DUE_TOGETHER = 4
#: how often a transaction of several events that PostgreSQL refused is repeated before each is tried alone
TOGETHER_TRIES = 3


class Dispatcher:
    """Handles deliveries for the work subscriptions of one service.

    Every transport calls `deliver`; it returns when the delivery may be acknowledged, and stays inside while PostgreSQL
    is away.
    """

    def __init__(
        self,
        database: Database,
        subscriptions: Mapping[str, WorkSubscription],
        metrics: MessagingMetrics,
        *,
        retry: RetryPolicy | None = None,
        gate: DatabaseGate | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.database = database
        self._subscriptions = dict(subscriptions)
        self._metrics = metrics
        self._retry = retry or RetryPolicy()
        self.gate = gate or DatabaseGate(database, sleep=sleep)
        self._sleep = sleep
        self._records = FailureRecords(database, metrics, self._retry)

    async def deliver(self, delivery: Delivery) -> DeliveryOutcome:
        """Have the delivery's consumer handle it. Raises nothing but cancellation."""
        subscription = self._subscriptions[delivery.consumer]
        try:
            event = decode(subscription.event, delivery.body, routing_key=delivery.routing_key)
        except Undecodable as error:
            log.error("%s: undecodable message: %s", delivery.consumer, error)
            outcome = DeliveryOutcome.UNDECODABLE
        else:
            outcome = await self._until_settled(subscription, event, delivery)
        self._metrics.messages.labels(delivery.consumer, outcome.value).inc()
        return outcome

    def received(self, delivery: Delivery) -> Received | None:
        """Decode a delivery; None for one that is handled alone: it shares no transaction, or is no event."""
        subscription = self._subscriptions[delivery.consumer]
        if not subscription.event.shares_transaction or delivery.deferred is not None:
            return None
        try:
            return Received(delivery, decode(subscription.event, delivery.body, routing_key=delivery.routing_key))
        except Undecodable:
            return None

    async def deliver_together(self, received: Sequence[Received]) -> list[DeliveryOutcome] | None:
        """Have one consumer handle events in one transaction; their outcomes.

        None: it failed, and each delivery is to be made alone. Events that the consumer knows are left out before the
        others are merged. Raises nothing but cancellation.
        """
        consumer = received[0].delivery.consumer
        subscription, tries = self._subscriptions[consumer], 0
        while True:
            await self.gate.opened()
            started = time.perf_counter()
            try:
                new = await self._handle_merged(subscription, received)
            except Exception as error:
                tries += 1
                cause, may_help = _cause(error), is_retryable(error) and not isinstance(error, RowHeld)
                if may_help and (not await self.gate.probe() or tries < TOGETHER_TRIES):
                    await self._sleep(min(0.01 * 2**tries, 1.0))
                    continue
                said = "%s: %d events failed together and are tried alone: %s"
                log.warning(said, consumer, len(received), error, exc_info=cause == "bug")
                self._metrics.tried_alone.labels(consumer, cause).inc()
                return None
            self._metrics.handler_seconds.labels(consumer).observe(time.perf_counter() - started)
            self._metrics.events_together.labels(consumer).observe(len(new))
            outcomes = _outcomes(received, new)
            for outcome in outcomes:
                self._metrics.messages.labels(consumer, outcome.value).inc()
            return outcomes

    async def _handle_merged(self, subscription: WorkSubscription, received: Sequence[Received]) -> frozenset[int]:
        """The ids of the events that were new. Raises whatever the handler or the database does."""
        events = {one.event.event_id: one.event for one in received}
        keys = [_inbox_key(subscription, event) for event in events.values()]
        async with self.database.begin(reason=received[0].delivery.routing_key, inbox=keys) as work:
            for event in merged(events[event_id] for event_id in work.new_events):
                await subscription.handler(event, work)
        return work.new_events

    async def park_undecodable(self, delivery: Delivery) -> None:
        """Put aside what is not an event (deliveries that did not come from a broker with a dead queue)."""
        try:
            decode(self._subscriptions[delivery.consumer].event, delivery.body, routing_key=delivery.routing_key)
        except Undecodable as error:
            reason = str(error)
        else:
            return
        async with self.database.begin(reason="undecodable message") as work:
            event_id = delivery.deferred.event_id if delivery.deferred else None
            if event_id is not None:
                await ledger.forget_deferred(work.connection, delivery.consumer, event_id)
            await ledger.park(
                work.connection,
                consumer=delivery.consumer,
                routing_key=delivery.routing_key,
                body=delivery.body,
                reason=reason,
                event_id=event_id,
            )

    async def deliver_due(self) -> int:
        """Try the deferred messages of this service whose time has come; how many there were."""
        async with self.database.begin(reason="deferred messages") as work:
            due = await ledger.claim_due(
                work.connection, list(self._subscriptions), limit=DUE_AT_ONCE, busy_s=DUE_BUSY_S
            )
        # Some at a time: one whose row is held must not keep the others waiting. A simulation has one transaction.
        together = asyncio.Semaphore(1 if self.database.is_simulated else DUE_TOGETHER)
        await asyncio.gather(*(self._deliver_due(delivery, together) for delivery in due))
        return len(due)

    async def _deliver_due(self, delivery: Delivery, together: asyncio.Semaphore) -> None:
        async with together:
            if await self.deliver(delivery) is DeliveryOutcome.UNDECODABLE:
                await self.park_undecodable(delivery)  # deferred by another version, or replayed although broken

    async def _until_settled(self, subscription: WorkSubscription, event: Event, delivery: Delivery) -> DeliveryOutcome:
        refused = 0
        while True:
            await self.gate.opened()
            started = time.perf_counter()
            try:
                if refused >= self._retry.database_tries:
                    await self._records.transient(delivery, event, Transient("PostgreSQL keeps refusing it", 60.0))
                    return DeliveryOutcome.DEFERRED
                outcome = await self._handle(subscription, event, delivery)
                self._metrics.handler_seconds.labels(delivery.consumer).observe(time.perf_counter() - started)
                return outcome
            except Exception as error:
                # Only errors of the database come out of _handle, from the handler's transaction or from the one
                # that records a failure. Whether a COMMIT under way took effect is unknown; the inbox will tell.
                self._metrics.database_retries.labels(delivery.consumer).inc()
                log.warning("%s: event %d: %s: %s", delivery.consumer, event.event_id, type(error).__name__, error)
                if await self.gate.probe():
                    refused += 1
                await self._sleep(min(0.01 * 2**refused, 1.0))

    async def _handle(self, subscription: WorkSubscription, event: Event, delivery: Delivery) -> DeliveryOutcome:
        """One try. Raises only what `is_retryable`."""
        try:
            keys = [_inbox_key(subscription, event)]
            async with self.database.begin(reason=delivery.routing_key, inbox=keys) as work:
                if work.new_events:
                    await subscription.handler(event, work)
                if delivery.deferred is not None:
                    await ledger.forget_deferred(work.connection, delivery.consumer, event.event_id)
            return DeliveryOutcome.HANDLED if work.new_events else DeliveryOutcome.DUPLICATE
        except Transient as failure:
            await self._records.transient(delivery, event, failure)
            return DeliveryOutcome.DEFERRED
        except Permanent as failure:
            task_id = failure.task_id if failure.task_id is not None else getattr(event, "task_id", None)
            await self._records.permanent(delivery, event, failure.reason, task_id)
            return DeliveryOutcome.PARKED
        except RowHeld as held:
            await self._records.wait(delivery, event, str(held))
            return DeliveryOutcome.DEFERRED
        except Exception as error:
            if is_retryable(error):
                raise
            return await self._records.bug(delivery, event, error)


def _inbox_key(subscription: WorkSubscription, event: Event) -> InboxKey:
    assert event.occurred_at is not None
    return InboxKey(subscription.consumer, event.event_id, event.occurred_at)


def _outcomes(received: Sequence[Received], new: frozenset[int]) -> list[DeliveryOutcome]:
    """Of deliveries of the same event the first is the one that was handled."""
    handled: set[int] = set()
    outcomes = []
    for one in received:
        is_first = one.event.event_id in new and one.event.event_id not in handled
        outcomes.append(DeliveryOutcome.HANDLED if is_first else DeliveryOutcome.DUPLICATE)
        handled.add(one.event.event_id)
    return outcomes


def _cause(error: Exception) -> str:
    """Why several events failed together, in one word or two."""
    if isinstance(error, Transient | Permanent):
        return type(error).__name__.lower()
    if isinstance(error, RowHeld):
        return "row held"
    return "database" if is_retryable(error) else "bug"


async def tell(subscription: NewsSubscription, delivery: Delivery, metrics: MessagingMetrics) -> None:
    """Give news to one listener. Its errors are logged and counted: news may be lost."""
    try:
        event = decode(subscription.event, delivery.body, routing_key=delivery.routing_key)
        await subscription.handler(event)
    except Exception as error:
        outcome = "undecodable" if isinstance(error, Undecodable) else "failed"
        log.warning("%s: news lost: %s", subscription.consumer, error, exc_info=outcome == "failed")
    else:
        outcome = "heard"
    metrics.news.labels(subscription.consumer, outcome).inc()
