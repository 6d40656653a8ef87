"""The in-process transport: every service in one process, no RabbitMQ.

The outbox itself is the queue. A row stays there until every subscriber settled it, so a restart delivers again what
was not settled; the inbox makes that harmless. `step` does one thing at a time and is what a simulation calls: its
schedule says which deliveries are handled together. `start` runs the same steps for real, several deliveries at once,
which collectors put together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from shared.cancelling import end
from shared.db.database import Database, is_retryable
from shared.messaging.collector import Collector
from shared.messaging.dispatcher import Dispatcher, tell
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.outbox import OutboxGauge
from shared.messaging.schedule import Handling, InOrder, Schedule
from shared.messaging.subscription import Delivery, DeliveryOutcome, NewsSubscription, WorkSubscription
from shared.messaging.transport import Attached

log = logging.getLogger(__name__)

LOADED_AT_ONCE = 1000
POLL_S = 1.0
CONCURRENT = 16

_LOAD = """
SELECT event_id, routing_key, body FROM outbox
WHERE NOT event_id = ANY($1) ORDER BY event_id LIMIT $2
"""
_DELETE = "DELETE FROM outbox WHERE event_id = ANY($1)"


class _NotBegun(Exception):
    """The transport stops: what was not begun stays in the outbox."""


@dataclass(frozen=True)
class _Worker:
    """One subscription for work: what handles its deliveries alone, and what collects them."""

    dispatcher: Dispatcher
    subscription: WorkSubscription
    collector: Collector

    async def hand_over(self, deliveries: Sequence[Delivery], alone: asyncio.Semaphore | None) -> None:
        """Have deliveries handled together, if that works, else one after the other.

        Where `alone` is given they are collected with others, or made with a few others at once. Raises _NotBegun.
        """
        if len(deliveries) > 1:
            received = [self.dispatcher.received(one) for one in deliveries]
            if None not in received and await self.dispatcher.deliver_together([one for one in received if one]):
                return
        for one in deliveries:
            made = self.dispatcher.deliver(one) if alone is None else self._collected(one, alone)
            if await made is DeliveryOutcome.UNDECODABLE:
                await self.dispatcher.park_undecodable(one)

    async def _collected(self, delivery: Delivery, alone: asyncio.Semaphore) -> DeliveryOutcome:
        if not self.subscription.event.shares_transaction:
            async with alone:
                return await self.dispatcher.deliver(delivery)
        outcome = await self.collector.deliver(delivery)
        if outcome is None:
            raise _NotBegun
        return outcome


@dataclass(frozen=True)
class _Recipient:
    """Where a routing key leads: to one consumer, or to one listener."""

    consumer: str
    worker: _Worker | None
    listener: NewsSubscription | None


@dataclass
class _Waiting:
    event_id: int
    delivery: Delivery
    recipient: _Recipient


class InProcessTransport:
    """One per process. `schedule` decides what is delivered when; the rest is bookkeeping."""

    def __init__(
        self,
        database: Database,
        metrics: MessagingMetrics,
        *,
        schedule: Schedule | None = None,
        concurrent: int = CONCURRENT,
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._gauge = OutboxGauge(database, metrics)
        self._schedule = schedule or InOrder()
        self._recipients: dict[str, list[_Recipient]] = {}
        self._waiting: list[_Waiting] = []
        self._unsettled: dict[int, int] = {}  # outbox row -> deliveries not settled yet
        self._settled: list[int] = []
        self._running: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Semaphore(concurrent)
        self._woken = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._last_error: str | None = None

    def attach(self, attached: Attached) -> None:
        for work in attached.work:
            assert attached.dispatcher is not None
            worker = _Worker(attached.dispatcher, work, Collector(attached.dispatcher, work))
            recipient = _Recipient(work.consumer, worker, None)
            self._recipients.setdefault(work.event.routing_key(), []).append(recipient)
        for news in attached.news:
            recipient = _Recipient(news.consumer, None, news)
            self._recipients.setdefault(news.event.routing_key(), []).append(recipient)

    def wake(self) -> None:
        self._woken.set()

    async def start(self) -> None:
        self._database.on_commit.append(self.wake)
        self._loop = asyncio.create_task(self._run(), name="in-process transport")

    async def stop(self, grace_s: float) -> None:
        """Deliveries not begun stay in the outbox."""
        if self._loop is not None:
            await end([self._loop])
        for collector in self._collectors():
            collector.close()
        if self._running:
            _, late = await asyncio.wait(set(self._running), timeout=grace_s)
            await end(late)
        for collector in self._collectors():
            await collector.stop()
        with contextlib.suppress(ValueError):
            self._database.on_commit.remove(self.wake)
        try:
            await self.delete_settled()
        except Exception as error:
            log.warning("settled rows stay in the outbox and will be delivered again: %s", error)

    def problems(self) -> list[str]:
        if self._loop is not None and self._loop.done():
            return ["the in-process transport has ended"]
        return [self._last_error] if self._last_error else []

    @property
    def waiting(self) -> tuple[Delivery, ...]:
        """What was taken from the outbox and is not settled."""
        return tuple(entry.delivery for entry in self._waiting)

    async def load(self) -> int:
        """Take new rows of the outbox; how many. A row without a consumer is settled at once."""
        await self.delete_settled()
        room = LOADED_AT_ONCE - len(self._unsettled)
        if room <= 0:
            return 0
        async with self._database.read() as connection:
            rows = await connection.fetch(_LOAD, list(self._unsettled), room)
        for row in rows:
            event_id, key = row["event_id"], row["routing_key"]
            recipients = self._recipients.get(key, [])
            self._unsettled[event_id] = len(recipients)
            if not recipients:
                self._settle_row(event_id)
            body = row["body"].encode()
            for recipient in recipients:
                self._waiting.append(_Waiting(event_id, Delivery(recipient.consumer, key, body), recipient))
        return len(rows)

    async def delete_settled(self) -> None:
        """Remove what every subscriber settled from the outbox; what a crash leaves is delivered again."""
        if not self._settled:
            return
        batch = list(self._settled)
        async with self._database.read() as connection:
            await connection.execute(_DELETE, batch)
        self._settled = self._settled[len(batch) :]
        for event_id in batch:
            self._unsettled.pop(event_id, None)
        self._metrics.published.inc(len(batch))

    def choose(self) -> tuple[list[_Waiting], Handling] | None:
        """Ask the schedule; what it chose is no longer waiting."""
        if not self._waiting:
            return None
        choice = self._schedule.choose(self.waiting)
        if choice is None:
            return None
        chosen = [self._waiting[index] for index in (choice.index, *choice.others)]
        for index in sorted((choice.index, *choice.others), reverse=True):
            del self._waiting[index]
        return chosen, choice.handling

    async def make(self, entries: Sequence[_Waiting], handling: Handling) -> None:
        """Deliver one message to one subscriber, with others of it, and settle them.

        The first is lost, or will come again, where the schedule says so.
        """
        if handling is not Handling.DROP:
            await self._hand_over(entries)
        if handling is Handling.DUPLICATE:
            self._waiting.append(entries[0])
        for entry in entries[1:] if handling is Handling.DUPLICATE else entries:
            self._settle(entry)

    async def step(self) -> bool:
        """Simulation: take new rows, make one delivery to its end; False if there was nothing to do."""
        await self.load()
        chosen = self.choose()
        if chosen is None:
            return False
        await self.make(*chosen)
        return True

    def forget(self) -> None:
        """Simulation of a crash: everything in memory is lost, the outbox is all that is left."""
        self._waiting.clear()
        self._unsettled.clear()
        self._settled.clear()

    def _settle(self, entry: _Waiting) -> None:
        self._unsettled[entry.event_id] -= 1
        if self._unsettled[entry.event_id] == 0:
            self._settle_row(entry.event_id)

    def _settle_row(self, event_id: int) -> None:
        self._settled.append(event_id)

    def _collectors(self) -> list[Collector]:
        return [one.worker.collector for some in self._recipients.values() for one in some if one.worker is not None]

    async def _hand_over(self, entries: Sequence[_Waiting]) -> None:
        worker = entries[0].recipient.worker
        if worker is not None:
            is_simulated = self._loop is None
            await worker.hand_over([one.delivery for one in entries], None if is_simulated else self._alone)
        for entry in entries:
            if entry.recipient.listener is not None:
                await tell(entry.recipient.listener, entry.delivery, self._metrics)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self.load()
                await self._gauge.measure()
                self._last_error = None
            except Exception as error:
                if not is_retryable(error):
                    log.exception("in-process transport: unexpected error")
                self._last_error = f"{type(error).__name__}: {error}"
            self._begin_deliveries()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._woken.wait()

    def _begin_deliveries(self) -> None:
        """All that wait: collectors and `_alone` bound how many are handled at once."""
        while (chosen := self.choose()) is not None:
            entries, handling = chosen
            name = f"delivery {entries[0].delivery.consumer}"
            task = asyncio.create_task(self._make_safely(entries, handling), name=name)
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._woken.set()

    async def _make_safely(self, entries: Sequence[_Waiting], handling: Handling) -> None:
        try:
            await self.make(entries, handling)
        except _NotBegun:
            return
        except Exception as error:
            if not is_retryable(error):
                consumer = entries[0].delivery.consumer
                log.exception("%s: unexpected error; it will be delivered again", consumer)
            await asyncio.sleep(POLL_S)
            self._waiting.extend(entries)
