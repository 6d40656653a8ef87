"""Who wants which event: registrations of this process's services, and one delivery to one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.db.unit_of_work import UnitOfWork
from shared.events.base import Event
from shared.events.catalogue import BY_ROUTING_KEY

#: a busy consumer collects for so long where somebody waits for what follows, and where it only counts
COLLECT_S, COLLECT_COUNTS_S = 0.1, 0.4


def consumer_name(service: str, event: type[Event]) -> str:
    """The inbox's consumer and the queue's name.

    `task-brokerage`, TaskDefined -> `task-brokerage.task-defined`.
    """
    return f"{service.replace('_', '-')}.{event.queue_words()}"


@dataclass(frozen=True)
class WorkSubscription:
    """One shared queue per (service, event): one replica handles each event once, through the inbox."""

    service: str
    event: type[Event]
    handler: Callable[[Any, UnitOfWork], Awaitable[None]]

    @property
    def consumer(self) -> str:
        return consumer_name(self.service, self.event)

    @property
    def collects_s(self) -> float:
        """For how long it may wait for more events when it is busy."""
        if self.event.collects_s is not None:
            return self.event.collects_s
        entry = BY_ROUTING_KEY.get(self.event.routing_key())
        only_counts = entry is not None and self.service.replace("-", "_") in entry.counting
        return COLLECT_COUNTS_S if only_counts else COLLECT_S


@dataclass(frozen=True)
class NewsSubscription:
    """Every replica receives the event; it may be lost."""

    service: str
    event: type[Event]
    handler: Callable[[Any], Awaitable[None]]

    @property
    def consumer(self) -> str:
        return consumer_name(self.service, self.event)


@dataclass(frozen=True)
class Deferred:
    """A delivery that comes from `deferred_messages`: its event and how often it was tried.

    Also how often it could not be tried, because somebody else held what it needs.
    """

    event_id: int
    attempts: int
    waits: int = 0


@dataclass(frozen=True)
class Delivery:
    """One message on its way to one consumer; `deferred` is None for one that comes from the bus."""

    consumer: str
    routing_key: str
    body: bytes
    deferred: Deferred | None = None

    @property
    def attempts(self) -> int:
        return self.deferred.attempts if self.deferred else 0

    @property
    def waits(self) -> int:
        return self.deferred.waits if self.deferred else 0


@dataclass(frozen=True)
class Received:
    """A delivery and the event in it."""

    delivery: Delivery
    event: Event


class DeliveryOutcome(StrEnum):
    """What became of a delivery; all but UNDECODABLE mean that it is settled."""

    HANDLED = "handled"
    DUPLICATE = "duplicate"
    DEFERRED = "deferred"
    PARKED = "parked"
    UNDECODABLE = "undecodable"
