"""All lanes of one queue, and the pick.

The first share in rank order that has a fitting job is picked: one of its task queues is drawn, then its best lane,
whose first job has the highest priority (less its lane's handicap), then the lowest id. Urgent work, and a part of all
picks by age, do without the order of shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet

from services.job_dispatch.policy.lane import Entry, Lane
from services.job_dispatch.policy.queues_of_share import TaskQueueView
from services.job_dispatch.policy.reading import IN_ORDER, LaneKey, Picking
from services.job_dispatch.policy.share_lanes import Fits, NeedsRefill, NeedsShares, PickedJob
from services.job_dispatch.policy.task_queue_lanes import TaskQueueLanes
from shared.order.ranking import Ranks

NOTHING_URGENT: frozenset[int] = frozenset()


class QueueWindow:
    """Lanes by share and order key, then by shape.

    `owns` tells this replica's own ids from those it leaves to others. Of the shares in `unread` nothing is known but
    that they have jobs, none of them with an order key or urgent; the pick goes past none of them.
    """

    def __init__(
        self, queue: str, *, owns: Callable[[int], bool] | None = None, unread: frozenset[str] = frozenset()
    ) -> None:
        self.queue = queue
        self.owns = owns
        self.unread = unread
        self.task_queues = TaskQueueLanes(self._ended)
        self._lanes_of_shape: dict[int, dict[LaneKey, Lane]] = {}

    def lane(self, gshare: str, shape_id: int, *, complete: bool, order_key_id: int = 0) -> Lane:
        """Give the lane, made if it is not there; `complete` for a new lane that news announced."""
        share = self.task_queues.lanes((gshare, order_key_id))
        lane = share.lanes.get(shape_id)
        if lane is None:
            lane = Lane(gshare, shape_id, order_key_id=order_key_id, complete=complete, owns=self.owns)
            share.add(lane)
            self._lanes_of_shape.setdefault(shape_id, {})[lane.key] = lane
        return lane

    def _ended(self, lane: Lane) -> None:
        """Forget a lane that was removed."""
        lanes = self._lanes_of_shape.get(lane.shape_id, {})
        if lanes.pop(lane.key, None) is not None and not lanes:
            del self._lanes_of_shape[lane.shape_id]

    @property
    def n_shares(self) -> int:
        """How many shares have jobs without an order key."""
        return len(self.task_queues.without_keys) + len(self.unread)

    def misses(self, gshare: str, order_key_id: int) -> bool:
        """Whether such a job is of what was not read; a draw among task queues needs all shares."""
        return bool(self.unread) and (order_key_id != 0 or gshare in self.unread)

    def arrive(self, gshare: str, shape_id: int, entry: Entry, order_key_id: int = 0) -> Lane | None:
        """Add a job that was activated. A lane that was not there had nothing: the window is all of it.

        None where its share was not read: the read will find it.
        """
        if self.misses(gshare, order_key_id):
            return None
        lane = self.lane(gshare, shape_id, complete=True, order_key_id=order_key_id)
        lane.arrive(entry)
        return lane

    def put_back(self, key: LaneKey, entry: Entry) -> None:
        """Add a job that waits, read or picked before; not where its share was not read.

        Its lane may have been shortened meanwhile: behind the cursor it would come before jobs that are not in memory.
        """
        gshare, order_key_id, shape_id = key
        self.arrive(gshare, shape_id, entry, order_key_id)

    def leave(self, gshare: str, shape_id: int, job_id: int, order_key_id: int = 0) -> None:
        """Forget a job that is no longer where it was."""
        share = self.task_queues.members.get((gshare, order_key_id))
        lane = share.lanes.get(shape_id) if share is not None else None
        if lane is not None:
            lane.leave(job_id)

    def lanes(self) -> list[Lane]:
        """All lanes of all shares."""
        return [lane for share in self.task_queues.members.values() for lane in share.lanes.values()]

    def lanes_beside(self, lane: Lane) -> Iterable[Lane]:
        """All lanes of the share and order key that a lane belongs to."""
        share = self.task_queues.members.get((lane.gshare, lane.order_key_id))
        return () if share is None else share.lanes.values()

    def __len__(self) -> int:
        return sum(len(lane) for lane in self.lanes())

    def _lanes_of(self, shape_ids: AbstractSet[int], fits: Fits, view: TaskQueueView) -> Iterator[Lane]:
        """The lanes of those of the shapes that fit, of shares and of task queues that may be served."""
        fitting = [shape_id for shape_id in self._lanes_of_shape.keys() & shape_ids if fits(shape_id)]
        for lane in [lane for shape_id in fitting for lane in self._lanes_of_shape[shape_id].values()]:
            if view.may_serve(lane.order_key_id) and not self._is_over(lane):
                yield lane

    def _is_over(self, lane: Lane) -> bool:
        """Whether a lane is empty and has no more; then it is removed."""
        share = self.task_queues.members.get((lane.gshare, lane.order_key_id)) if not len(lane) else None
        return share is not None and share.has_ended(lane)

    def pick(
        self,
        ranks: Ranks,
        fits: Fits,
        unwanted: Callable[[int], bool],
        how: Picking = IN_ORDER,
        *,
        view: TaskQueueView,
        urgent: AbstractSet[int] = NOTHING_URGENT,
    ) -> PickedJob | NeedsRefill | NeedsShares | None:
        """Take the best job for an offer out of the window; None when nothing here fits.

        `view`: which order keys fit it, and whether jobs without one do. Jobs of `urgent` shapes come first.
        """
        if not urgent.isdisjoint(self._lanes_of_shape.keys()):
            found = pick_urgent(self._lanes_of(urgent, fits, view), unwanted, how.band)
            if found is not None:
                return found
        lanes, takes_others = self.task_queues, view.fits(0)
        lanes.slots(view.orders)
        if how.by_age and takes_others:
            if self.unread:
                return NeedsShares()  # the oldest job may be of any share
            found = lanes.pick_oldest(ranks.not_above_due, fits, unwanted, how.band)
            if found is not None:
                return found
        for name, only in lanes.turns(ranks, self.unread):
            if only is not None and name not in self.unread:
                found = only.pick(fits, unwanted, how.band) if takes_others else None
                if found is not None:
                    return found
            elif name not in self.unread:
                found = lanes.pick(name, fits, view, unwanted, how.band)
                if found is not None:
                    return found
            elif takes_others:
                return NeedsShares()
        return None


def pick_urgent(lanes: Iterable[Lane], unwanted: Callable[[int], bool], band: int) -> PickedJob | NeedsRefill | None:
    """Take the best job of these lanes of urgent work, by priority and age (JEDI: Express transfers).

    NeedsRefill while one of them is empty and not read to its end.
    """
    best: tuple[tuple[int, int, int], Lane] | None = None
    missing = []
    for lane in lanes:
        head = lane.head(band, unwanted)
        if head is None:
            if not lane.complete or lane.refilling:
                missing.append(lane)
        elif best is None or head[:2] < best[0][:2]:
            best = (head, lane)
    if missing:
        return NeedsRefill(tuple(missing))
    return PickedJob(best[1], best[1].pop(best[0][2])) if best is not None else None
