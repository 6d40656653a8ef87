"""The consuming half of the RabbitMQ transport: one FastStream subscriber per subscription.

What FastStream does by default and what is set here: unlimited concurrency -> a prefetch per subscriber, of twice what
is handled in one transaction where events share one; drop on error
-> manual acknowledgement after the transaction; decoding by content type -> the raw message, decoded by the dispatcher;
`running` only after consuming began, so that the first deliveries are dropped unacknowledged -> set before.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from faststream import AckPolicy
from faststream.rabbit import Channel, ExchangeType, QueueType, RabbitBroker, RabbitExchange, RabbitQueue

from shared.cancelling import cancellations_of_others_are_errors, end
from shared.messaging import dead_letters
from shared.messaging.collector import MOST_EVENTS, Collector
from shared.messaging.dispatcher import Dispatcher, tell
from shared.messaging.ledger import QueueCount
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.relay import is_bus_error
from shared.messaging.subscription import Delivery, DeliveryOutcome, NewsSubscription, WorkSubscription
from shared.messaging.topology import Topology
from shared.messaging.transport import Attached

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
RECONNECT_EVERY_S = 1.0
DEAD_PREFETCH = 10
NEWS_PREFETCH = 100


async def _keep_raw(message: Any) -> Any:
    """A FastStream decoder that decodes nothing: the handler gets the message itself."""
    return message


class Consumers:
    """Subscribers of all attached services on one connection."""

    def __init__(
        self, url: str, topology: Topology, metrics: MessagingMetrics, attached: Sequence[Attached], *, prefetch: int
    ) -> None:
        self._topology = topology
        self._metrics = metrics
        self._attached = attached
        self._prefetch = prefetch
        self._replica = uuid.uuid4().hex[:12]
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._collectors: list[Collector] = []
        self._draining = False
        self._news_queues: dict[str, list[str]] = {}
        self.broker = RabbitBroker(
            url,
            timeout=CONNECT_TIMEOUT_S,
            reconnect_interval=RECONNECT_EVERY_S,
            graceful_timeout=0.1,  # our own draining, below, comes first
            ack_policy=AckPolicy.MANUAL,
            apply_types=False,
            logger=None,
        )
        for service in attached:
            for service_news in _by_event(service.news):
                self._subscribe_news(service_news)
            if service.dispatcher is None:
                continue
            for work in service.work:
                self._subscribe_work(service.dispatcher, work)
            if service.drains_dead_queue:
                self._subscribe_dead(service.dispatcher)

    async def start(self) -> None:
        """Connect and consume. Raises what aio-pika raises when RabbitMQ is away."""
        for subscriber in self.broker.subscribers:
            cast(Any, subscriber).running = True
        await self.broker.start()
        connection: Any = await self.broker.connect()
        connection.reconnect_callbacks.add(self._news_were_interrupted)
        self._news_were_interrupted()

    def _news_were_interrupted(self, *_: Any) -> None:
        """News queues live as long as their connection: after a new one, what was said meanwhile is lost."""
        for service in self._attached:
            for interrupted in service.on_news_interrupted:
                interrupted()

    async def stop(self, grace_s: float) -> None:
        """Start no further handler, wait for the running ones, cancel those that take longer, disconnect.

        Messages that were fetched but not begun go back to their queues when the connection closes.
        """
        self._draining = True
        for collector in self._collectors:
            collector.close()
        running = {task for task in self._in_flight if not task.done()}
        if running:
            _, late = await asyncio.wait(running, timeout=grace_s)
            if late:
                log.warning("%d handlers did not finish within %.0f s: their messages go back", len(late), grace_s)
            await end(late)
        for collector in self._collectors:
            await collector.stop()
        try:
            with cancellations_of_others_are_errors():
                async with asyncio.timeout(10.0):
                    await self.broker.stop()
        except Exception as error:  # the connection is not used again, whatever state it is in
            level = logging.DEBUG if is_bus_error(error) else logging.WARNING
            log.log(level, "disconnecting from RabbitMQ failed", exc_info=True)

    async def unattached(self) -> list[str]:
        """Queues that this process should consume and does not; queues the broker lost are made again."""
        missing = []
        connection = await self.broker.connect()
        for subscriber in self.broker.subscribers:
            queue = cast(Any, subscriber).queue.name
            if not await _is_consuming(cast(Any, subscriber)):
                missing.append(queue)
        if not missing:
            return []
        channel = await connection.channel()
        try:
            await self._topology.declare(channel)
            for queue, keys in self._news_queues.items():
                if queue in missing:
                    declared = await channel.declare_queue(queue, exclusive=True, auto_delete=True, robust=False)
                    for key in keys:
                        await declared.bind(self._topology.events_exchange, routing_key=key, robust=False)
        finally:
            await channel.close()
        return missing

    async def waiting(self) -> list[QueueCount]:
        """Count what waits in the queues of work of this process, and who takes from them."""
        consumers = [work.consumer for service in self._attached if service.dispatcher for work in service.work]
        connection = await self.broker.connect()
        channel = await connection.channel()
        try:
            found = []
            for consumer in sorted(set(consumers)):
                name = self._topology.queue_of(consumer)
                declared = (await channel.declare_queue(name, passive=True, robust=False)).declaration_result
                found.append(QueueCount(consumer, declared.message_count or 0, declared.consumer_count or 0))
            return found
        finally:
            await channel.close()

    def _subscribe_work(self, dispatcher: Dispatcher, work: WorkSubscription) -> None:
        collector = Collector(dispatcher, work)
        self._collectors.append(collector)

        async def on_message(message: Any) -> None:
            raw = message.raw_message
            delivery = Delivery(work.consumer, raw.type or raw.routing_key or "", message.body)
            outcome = await collector.deliver(delivery)
            if outcome is DeliveryOutcome.UNDECODABLE:
                await message.reject(requeue=False)  # to the dead queue
            elif outcome is not None:
                await message.ack()

        queue = RabbitQueue(
            self._topology.queue_of(work.consumer),
            queue_type=QueueType.QUORUM,
            routing_key=work.event.routing_key(),
            durable=True,
            arguments=cast(Any, self._topology.work_arguments()),
        )
        prefetch = max(self._prefetch, 2 * MOST_EVENTS) if work.event.shares_transaction else self._prefetch
        self._subscribe(queue, prefetch, on_message)

    def _subscribe_news(self, news: Sequence[NewsSubscription]) -> None:
        """All listeners of a service to one event share a queue of this replica."""
        first = news[0]

        async def on_message(message: Any) -> None:
            raw = message.raw_message
            delivery = Delivery(first.consumer, raw.type or raw.routing_key or "", message.body)
            for listener in news:
                await tell(listener, delivery, self._metrics)
            await message.ack()

        replica = f"{first.event.queue_words()}.{self._replica}"
        name = self._topology.news_queue(first.service, replica)
        self._news_queues[name] = [first.event.routing_key()]
        queue = RabbitQueue(
            name, routing_key=first.event.routing_key(), durable=False, exclusive=True, auto_delete=True
        )
        self._subscribe(queue, NEWS_PREFETCH, on_message)

    def _subscribe_dead(self, dispatcher: Dispatcher) -> None:
        async def on_message(message: Any) -> None:
            await dead_letters.park(dispatcher.database, dispatcher.gate, self._topology, message.raw_message)
            await message.ack()

        queue = RabbitQueue(self._topology.dead_queue, queue_type=QueueType.QUORUM, durable=True)
        exchange = RabbitExchange(self._topology.dead_exchange, type=ExchangeType.FANOUT, durable=True)
        self._subscribe(queue, DEAD_PREFETCH, on_message, exchange)

    def _subscribe(
        self,
        queue: RabbitQueue,
        prefetch: int,
        on_message: Callable[[Any], Awaitable[None]],
        exchange: RabbitExchange | None = None,
    ) -> None:
        events = RabbitExchange(self._topology.events_exchange, type=ExchangeType.TOPIC, durable=True)

        async def tracked(message: Any) -> None:
            if self._draining:
                return  # unsettled: it goes back to the queue when the connection closes
            task = asyncio.current_task()
            assert task is not None
            self._in_flight.add(task)
            try:
                await on_message(message)
            except Exception as error:
                if is_bus_error(error):
                    # The acknowledgement did not get through; the message comes again and the inbox knows it.
                    log.warning("%s: acknowledgement lost: %s", queue.name, error)
                else:
                    log.exception("%s: unexpected error; the message stays unsettled", queue.name)
            finally:
                self._in_flight.discard(task)

        subscriber = self.broker.subscriber(
            queue,
            exchange or events,
            channel=Channel(prefetch_count=prefetch),
            ack_policy=AckPolicy.MANUAL,
            decoder=_keep_raw,
            no_reply=True,
        )
        subscriber(tracked)


def _by_event(news: Sequence[NewsSubscription]) -> list[list[NewsSubscription]]:
    groups: dict[str, list[NewsSubscription]] = {}
    for subscription in news:
        groups.setdefault(subscription.consumer, []).append(subscription)
    return list(groups.values())


async def _is_consuming(subscriber: Any) -> bool:
    """Whether RabbitMQ still knows this subscriber's consumer, as far as this connection has been told."""
    queue, tag = subscriber._queue_obj, subscriber._consumer_tag
    if queue is None or tag is None:
        return False
    try:
        async with asyncio.timeout(2.0):
            channel = await queue.channel.get_underlay_channel()
    except (AMQPError, ChannelInvalidStateError, OSError, TimeoutError, RuntimeError):
        return False
    return not channel.is_closed and tag in channel.consumers
