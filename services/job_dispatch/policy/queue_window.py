"""All lanes of one queue, and the pick.

The first share in rank order that has a fitting job is picked, then its best lane, or one of its task queues is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from services.job_dispatch.policy.beside_shares import oldest_share, pick_urgent
from services.job_dispatch.policy.lane import Entry, Lane
from services.job_dispatch.policy.queues_of_share import QueuesOfShare, TaskQueueView
from services.job_dispatch.policy.reading import IN_ORDER, LaneKey, Picking
from services.job_dispatch.policy.share_lanes import Fits, NeedsRefill, NeedsShares, PickedJob, ShareLanes
from services.job_dispatch.policy.task_queue_lanes import NO_SLOTS, TaskQueueLanes, rank_of
from shared.order.ranking import Ranks

NOTHING_URGENT: frozenset[int] = frozenset()


class QueueWindow:
    """Lanes by share, then by shape; `owns` tells this replica's own ids from those it leaves to others.

    Those of task queues are by order key, then by shape. Of the shares in `unread` nothing is known but that they have
    jobs, none of them with an order key or urgent; the pick goes past none of them.
    """

    def __init__(
        self, queue: str, *, owns: Callable[[int], bool] | None = None, unread: frozenset[str] = frozenset()
    ) -> None:
        self.queue = queue
        self.owns = owns
        self.unread = unread
        self.shares: dict[str, ShareLanes] = {}
        self.task_queues = TaskQueueLanes(self._ended)
        self._lanes_of_shape: dict[int, dict[tuple[str, int, int], Lane]] = {}
        self._order: tuple[Ranks | None, int, Mapping[str, QueuesOfShare], list[str]] = (None, -1, NO_SLOTS, [])

    def lane(self, gshare: str, shape_id: int, *, complete: bool, order_key_id: int = 0) -> Lane:
        """The lane, made if it is not there; `complete` for a new lane that news announced."""
        share = self.task_queues.lanes((gshare, order_key_id)) if order_key_id else self._share(gshare)
        lane = share.lanes.get(shape_id)
        if lane is None:
            lane = Lane(gshare, shape_id, order_key_id=order_key_id, complete=complete, owns=self.owns)
            share.add(lane)
            self._lanes_of_shape.setdefault(shape_id, {})[lane.key] = lane
        return lane

    def _ended(self, lane: Lane) -> None:
        """A lane was removed."""
        lanes = self._lanes_of_shape.get(lane.shape_id, {})
        if lanes.pop(lane.key, None) is not None and not lanes:
            del self._lanes_of_shape[lane.shape_id]

    def _share(self, gshare: str) -> ShareLanes:
        share = self.shares.get(gshare)
        if share is None:
            share = self.shares[gshare] = ShareLanes(lambda: self.task_queues.has_plain_job(gshare), self._ended)
            self.task_queues.has_other_shares()
        return share

    def misses(self, gshare: str, order_key_id: int) -> bool:
        """Whether such a job is of what was not read; a draw among task queues needs all shares."""
        return bool(self.unread) and (order_key_id != 0 or gshare in self.unread)

    def arrive(self, gshare: str, shape_id: int, entry: Entry, order_key_id: int = 0) -> Lane | None:
        """A job was activated at this queue. A lane that was not there had nothing: the window is all of it.

        None where its share was not read: the read will find it.
        """
        if self.misses(gshare, order_key_id):
            return None
        lane = self.lane(gshare, shape_id, complete=True, order_key_id=order_key_id)
        lane.arrive(entry)
        return lane

    def put_back(self, key: LaneKey, entry: Entry) -> None:
        """A job that waits, read or picked before; not where its share was not read.

        Its lane may have been shortened meanwhile: behind the cursor it would come before jobs that are not in memory.
        """
        gshare, order_key_id, shape_id = key
        if not self.misses(gshare, order_key_id):
            self.lane(gshare, shape_id, complete=True, order_key_id=order_key_id).arrive(entry)

    def leave(self, gshare: str, shape_id: int, job_id: int, order_key_id: int = 0) -> None:
        """A job is no longer where it was."""
        share = self.task_queues.members.get((gshare, order_key_id)) if order_key_id else self.shares.get(gshare)
        lane = share.lanes.get(shape_id) if share is not None else None
        if lane is not None:
            lane.leave(job_id)

    def lanes(self) -> list[Lane]:
        """All lanes of all shares."""
        return [lane for share in (*self.shares.values(), *self.task_queues) for lane in share.lanes.values()]

    def lanes_beside(self, lane: Lane) -> Iterable[Lane]:
        """All lanes of the share or order key that a lane belongs to."""
        share = self._beside(lane)
        return () if share is None else share.lanes.values()

    def _beside(self, lane: Lane) -> ShareLanes | None:
        if lane.order_key_id:
            return self.task_queues.members.get((lane.gshare, lane.order_key_id))
        return self.shares.get(lane.gshare)

    def __len__(self) -> int:
        return sum(len(lane) for lane in self.lanes())

    def _lanes_of(self, shape_ids: AbstractSet[int], fits: Fits, view: TaskQueueView | None) -> Iterator[Lane]:
        """The lanes of those of the shapes that fit, of shares and of task queues that may be served."""
        fitting = [shape_id for shape_id in self._lanes_of_shape.keys() & shape_ids if fits(shape_id)]
        for lane in [lane for shape_id in fitting for lane in self._lanes_of_shape[shape_id].values()]:
            key = lane.order_key_id
            if key:
                may_be_served = view is not None and view.fits(key) and not view.is_held(key)
            else:
                may_be_served = view is None or view.takes_others
            if may_be_served and not self._is_over(lane):
                yield lane

    def _is_over(self, lane: Lane) -> bool:
        """Whether a lane is empty and has no more; then it is removed."""
        share = self._beside(lane) if not len(lane) else None
        return share is not None and share.has_ended(lane)

    def order(self, ranks: Ranks, slots: Mapping[str, QueuesOfShare] = NO_SLOTS) -> list[str]:
        """The shares present here, the most deserving first.

        A VO that does without shares is as deserving as the best share of its jobs. Kept until the ranks are swapped, a
        share appears, or anything about order keys changes.
        """
        known_ranks, n_shares, known_slots, order = self._order
        if known_ranks is not ranks or n_shares != len(self.shares) or known_slots is not slots:
            order = sorted(
                self.shares.keys() | slots.keys() | self.unread,
                key=lambda one: rank_of(one, slots[one].gshares if one in slots else None, ranks),
            )
            self._order = (ranks, len(self.shares), slots, order)
        return order

    def pick(
        self,
        ranks: Ranks,
        fits: Fits,
        unwanted: Callable[[int], bool],
        how: Picking = IN_ORDER,
        *,
        view: TaskQueueView | None = None,
        urgent: AbstractSet[int] = NOTHING_URGENT,
    ) -> PickedJob | NeedsRefill | NeedsShares | None:
        """The best job for an offer, taken out of the window; None when nothing here fits.

        Without a `view` of task queues those are left out. Jobs of `urgent` shapes come before all others.
        """
        band = how.band
        if not urgent.isdisjoint(self._lanes_of_shape.keys()):
            found = pick_urgent(self._lanes_of(urgent, fits, view), unwanted, band)
            if found is not None:
                return found
        slots = self.task_queues.slots(view.orders, self.shares) if view is not None else NO_SLOTS
        if how.by_age and self.unread:
            return NeedsShares()  # the oldest job may be of any share
        if how.by_age and (view is None or view.takes_others):
            oldest = oldest_share(self.shares, ranks.not_above_due - slots.keys(), fits, unwanted, band)
            found = self.shares[oldest].pick(fits, unwanted, band) if oldest is not None else None
            if found is not None:
                return found
        for share in self.order(ranks, slots):
            if share in self.unread:
                return NeedsShares()
            if view is not None and share in slots:
                found = self.task_queues.pick(slots[share], self.shares, fits, view, unwanted, band)
            elif view is None or view.takes_others:
                found = self.shares[share].pick(fits, unwanted, band)
            else:
                continue
            if found is not None:
                return found
        return None
