"""Exchanges and queues, in one place.

Every service declares all of them at start, so that an event published before its consumer ever ran waits in a queue
instead of being unroutable.

    orrery.events   topic exchange, routing key = the event's name and version
    <service>.<event-words>   one quorum queue per (service, event): work, shared by the service's replicas
    news.<service>.<random>   one exclusive queue per replica, bound to the news it listens to
    orrery.dead     fanout exchange and quorum queue: what could not be decoded or crashed its consumer too often

Arguments of a queue cannot be changed once it exists: change the name with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel

from shared.events.base import Event
from shared.events.catalogue import ENTRIES, Entry
from shared.messaging.subscription import consumer_name

DELIVERY_LIMIT = 20
DECLARE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class ConsumerQueue:
    """The queue of one consumer."""

    name: str
    consumer: str
    event: type[Event]


@dataclass(frozen=True)
class Topology:
    """`namespace` goes before every name: several systems, or tests, on one virtual host."""

    namespace: str = ""
    entries: Sequence[Entry] = field(default=ENTRIES)

    @property
    def events_exchange(self) -> str:
        return self._name("orrery.events")

    @property
    def dead_exchange(self) -> str:
        return self._name("orrery.dead")

    @property
    def dead_queue(self) -> str:
        return self._name("orrery.dead")

    def queue_of(self, consumer: str) -> str:
        return self._name(consumer)

    def news_queue(self, service: str, replica: str) -> str:
        return self._name(f"news.{service.replace('_', '-')}.{replica}")

    def consumer_of(self, queue: str) -> str:
        """The consumer whose queue has this name."""
        return queue.removeprefix(f"{self.namespace}.") if self.namespace else queue

    def work_queues(self) -> list[ConsumerQueue]:
        """Every work queue of the catalogue."""
        found = []
        for entry in self.entries:
            for service in entry.consumers:
                consumer = consumer_name(service, entry.event)
                found.append(ConsumerQueue(self.queue_of(consumer), consumer, entry.event))
        return found

    def needs_queue(self, routing_key: str) -> bool:
        """Whether an event that no queue took is an error. News without a listener is not."""
        for entry in self.entries:
            if entry.event.routing_key() == routing_key:
                return bool(entry.consumers)
        return True

    def work_arguments(self) -> dict[str, Any]:
        """Arguments of a work queue, beside its type."""
        return {
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": self.dead_exchange,
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",  # at-least-once dead-lettering demands it
        }

    async def declare(self, channel: AbstractChannel) -> None:
        """Make whatever is missing. Raises what aio-pika raises when an existing queue has other arguments."""
        events = await channel.declare_exchange(
            self.events_exchange, aio_pika.ExchangeType.TOPIC, durable=True, timeout=DECLARE_TIMEOUT_S
        )
        dead = await channel.declare_exchange(
            self.dead_exchange, aio_pika.ExchangeType.FANOUT, durable=True, timeout=DECLARE_TIMEOUT_S
        )
        dead_queue = await channel.declare_queue(
            self.dead_queue, durable=True, arguments={"x-queue-type": "quorum"}, timeout=DECLARE_TIMEOUT_S
        )
        await dead_queue.bind(dead, timeout=DECLARE_TIMEOUT_S)
        for work in self.work_queues():
            queue = await channel.declare_queue(
                work.name,
                durable=True,
                arguments={"x-queue-type": "quorum", **self.work_arguments()},
                timeout=DECLARE_TIMEOUT_S,
            )
            await queue.bind(events, routing_key=work.event.routing_key(), timeout=DECLARE_TIMEOUT_S)

    async def remove(self, channel: AbstractChannel) -> None:
        """Delete every exchange and queue of this namespace (tests). Raises ValueError without a namespace."""
        if not self.namespace:
            raise ValueError("only a topology with a namespace can be removed")
        for name in [self.dead_queue, *(work.name for work in self.work_queues())]:
            await channel.queue_delete(name)
        for name in (self.events_exchange, self.dead_exchange):
            await channel.exchange_delete(name)

    def _name(self, name: str) -> str:
        return f"{self.namespace}.{name}" if self.namespace else name
