"""What a kind of pilot sees of order keys, where a test is not about them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from services.job_dispatch.policy.order_changes import OrderChanges
from services.job_dispatch.policy.queues_of_share import KeyPlace, TaskQueueView


class KnownOrders:
    """Every order key is a task queue of the same weight."""

    def __init__(self) -> None:
        self.changes = OrderChanges()

    @property
    def version(self) -> int:
        return self.changes.version

    def changed_since(self, version: int) -> set[int] | None:
        return self.changes.since(version)

    def place(self, order_key_id: int, gshare: str) -> KeyPlace:
        return KeyPlace(order_key_id, 1.0, 1.0)


def view_of(orders: KnownOrders, is_held: Callable[[int], bool] = lambda _: False) -> TaskQueueView:
    """Every order key fits, and so do jobs without one; draws repeat."""
    return TaskQueueView(orders, lambda _: True, is_held, Random(3).random, lambda: 0)


EVERYTHING = view_of(KnownOrders())
