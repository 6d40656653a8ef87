"""Chooses the next message and what fails with it: the one decision of the in-process transport.

`InOrder` is what a machine without RabbitMQ runs with. A simulation gives its own, seeded, that reorders, duplicates,
delays and drops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from shared.messaging.subscription import Delivery


class Handling(StrEnum):
    DELIVER = "deliver"
    DUPLICATE = "duplicate"  # delivered, but the acknowledgement is lost: it will be delivered again
    DROP = "drop"  # lost on the way; only the watchdog's sweep will notice


@dataclass(frozen=True)
class Choice:
    """The delivery at `index` of the waiting ones is made now, with this handling.

    `others` are handled in one transaction with it: deliveries to the same consumer, of an event that allows it.
    """

    index: int
    handling: Handling = Handling.DELIVER
    others: tuple[int, ...] = ()


class Schedule(Protocol):
    def choose(self, waiting: Sequence[Delivery]) -> Choice | None:
        """What happens next, or None: nothing for now (all of them are delayed).

        `waiting` is in the order of the outbox; a delivery stays in it until it was settled. Never empty.
        """


class InOrder:
    """First come, first served, nothing goes wrong."""

    def choose(self, waiting: Sequence[Delivery]) -> Choice | None:
        return Choice(0)
