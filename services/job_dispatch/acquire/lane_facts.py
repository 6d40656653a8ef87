"""What lanes have beside their queue: interned shapes and order keys, as far as they are known here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from services.job_dispatch.acquire.shapes import KnownShapes
from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.queue_window import QueueWindow
from services.job_dispatch.policy.queues_of_share import TaskQueueView
from services.job_dispatch.policy.share_lanes import PickedJob


class LaneFacts:
    """Without `task_queues` no job has an order key (tests of windows alone)."""

    def __init__(self, shapes: KnownShapes, task_queues: TaskQueues | None = None) -> None:
        self.shapes = shapes
        self.task_queues = task_queues

    def expect(self, order_key_id: int, shape_id: int) -> None:
        """A job of this order key and shape exists."""
        self.shapes.expect(shape_id)
        if order_key_id and self.task_queues is not None:
            self.task_queues.orders.expect(order_key_id)

    @property
    def has_unknown(self) -> bool:
        """Whether shapes or task queues were met that were not read yet."""
        return self.shapes.has_missing or (self.task_queues is not None and self.task_queues.orders.has_missing)

    async def load_unknown(self) -> None:
        """Read them."""
        await self.shapes.load_missing()
        if self.task_queues is not None and self.task_queues.orders.has_missing:
            await self.task_queues.orders.load_missing()

    def picks_for(self, offer: Offer) -> bool:
        """Whether jobs for it are picked by lane: anybody's, and those of users with task queues."""
        has_task_queues = self.task_queues is not None and self.task_queues.orders.in_use
        return offer.is_for_all or (has_task_queues and offer.task_id is None)

    def view(self, offer: Offer, window: QueueWindow) -> TaskQueueView | None:
        """The task queues of a window as the offer's kind of pilot sees them; None: it has none."""
        if self.task_queues is None or not window.task_queues.members:
            return None
        return self.task_queues.view(offer)

    def fitting(self, offer: Offer) -> Callable[[int, int], bool]:
        """Whether jobs of an order key and a shape fit the offer, of those that it asks for.

        Jobs of task queues are picked by lane, unless it asks for those of one task.
        """
        fits = self.shapes.fits(self.shapes.kind_of(offer))
        if self.task_queues is None:
            return lambda order_key_id, shape_id: not order_key_id and fits(shape_id)
        view, is_of_owner = self.task_queues.view(offer), self.task_queues.is_of_owner
        may_be_any = offer.task_id is not None
        return lambda order_key_id, shape_id: (
            fits(shape_id)
            and (not order_key_id or is_of_owner(order_key_id) or (may_be_any and view.fits(order_key_id)))
        )

    def is_held(self, queue: str, candidate: PickedJob) -> bool:
        """Whether a limit of the site holds a job back now."""
        key = candidate.lane.order_key_id
        return bool(key) and self.task_queues is not None and self.task_queues.holding(queue, key) is not None

    def picked(self, queue: str, found: PickedJob) -> None:
        """A job is being claimed: it counts for limits of the site."""
        if found.lane.order_key_id and self.task_queues is not None:
            self.task_queues.picked(queue, found.lane.order_key_id, found.job_id)

    def claimed(self, job_ids: Iterable[int]) -> None:
        """These were handed out."""
        if self.task_queues is not None and self.task_queues.limits.counts:
            self.task_queues.limits.claimed(job_ids)

    def not_claimed(self, job_id: int) -> None:
        """A pick came to nothing."""
        if self.task_queues is not None and self.task_queues.limits.counts:
            self.task_queues.limits.not_claimed(job_id)

    def why_nothing(self, offer: Offer, window: QueueWindow | None) -> tuple[str | None, str | None]:
        """Why no task queue was taken, in words; None: for no such reason.

        The limit that holds one back, and why one does not match.
        """
        if window is None or self.task_queues is None or not window.task_queues.members:
            return None, None
        keys = {one.order_key_id for one in window.lanes() if len(one)}
        if 0 in keys and offer.is_for_all:
            return None, None
        return self.task_queues.why_nothing(offer, keys)
