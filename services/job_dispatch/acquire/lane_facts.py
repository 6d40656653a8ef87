"""What lanes have beside their queue: interned shapes and order keys, as far as they are known here."""

from __future__ import annotations

from collections.abc import Callable

from services.job_dispatch.acquire.shapes import KnownShapes
from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.queue_window import QueueWindow


class LaneFacts:
    """Shapes decide what a pilot can run, task queues whose jobs it may take."""

    def __init__(self, shapes: KnownShapes, task_queues: TaskQueues) -> None:
        self.shapes = shapes
        self.task_queues = task_queues

    def expect(self, order_key_id: int, shape_id: int) -> None:
        """Note that a job of this order key and shape exists."""
        self.shapes.expect(shape_id)
        self.task_queues.orders.expect(order_key_id)

    @property
    def has_unknown(self) -> bool:
        """Whether shapes or task queues were met that were not read yet."""
        return self.shapes.has_missing or self.task_queues.orders.has_missing

    async def load_unknown(self) -> None:
        """Read those shapes and task queues."""
        await self.shapes.load_missing()
        if self.task_queues.orders.has_missing:
            await self.task_queues.orders.load_missing()

    def picks_for(self, offer: Offer) -> bool:
        """Whether jobs for it are picked by lane: anybody's, and those of users with task queues."""
        return offer.is_for_all or (self.task_queues.orders.in_use and offer.task_id is None)

    def fitting(self, offer: Offer) -> Callable[[int, int], bool]:
        """Whether jobs of an order key and a shape fit the offer, of those that it asks for.

        Jobs of task queues are picked by lane, unless it asks for those of one task.
        """
        fits = self.shapes.fits(self.shapes.kind_of(offer))
        view, is_of_owner = self.task_queues.view(offer, fits), self.task_queues.is_of_owner
        may_be_any = offer.task_id is not None
        return lambda order_key_id, shape_id: (
            fits(shape_id)
            and (not order_key_id or is_of_owner(order_key_id) or (may_be_any and view.fits(order_key_id)))
        )

    def why_nothing(self, offer: Offer, window: QueueWindow | None) -> tuple[str | None, str | None]:
        """Why no task queue was taken, in words; None: for no such reason.

        The limit that holds one back, and why one does not match.
        """
        keys = set() if window is None else {one.order_key_id for one in window.lanes() if len(one)}
        if 0 in keys and offer.is_for_all:
            return None, None
        return self.task_queues.why_nothing(offer, keys)
