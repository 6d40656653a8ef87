"""All lanes of one queue, and the pick.

The first share in rank order that has a fitting job is picked, then its best lane.
"""

from __future__ import annotations

from collections.abc import Callable

from services.job_dispatch.policy.lane import Entry, Lane
from services.job_dispatch.policy.share_lanes import Fits, NeedsRefill, PickedJob, ShareLanes
from shared.order.ranking import Ranks


class QueueWindow:
    """Lanes by share, then by shape; `owns` tells this replica's own ids from those it leaves to others."""

    def __init__(self, queue: str, *, owns: Callable[[int], bool] | None = None) -> None:
        self.queue = queue
        self.owns = owns
        self.shares: dict[str, ShareLanes] = {}
        self._order: tuple[Ranks | None, int, list[str]] = (None, -1, [])

    def lane(self, gshare: str, shape_id: int, *, complete: bool) -> Lane:
        """The lane, made if it is not there; `complete` for a new lane that news announced."""
        share = self.shares.get(gshare)
        if share is None:
            share = self.shares[gshare] = ShareLanes()
        lane = share.lanes.get(shape_id)
        if lane is None:
            lane = Lane(gshare, shape_id, complete=complete, owns=self.owns)
            share.add(lane)
        return lane

    def arrive(self, gshare: str, shape_id: int, entry: Entry) -> Lane:
        """A job was activated at this queue. A lane that was not there had nothing: the window is all of it."""
        lane = self.lane(gshare, shape_id, complete=True)
        lane.arrive(entry)
        return lane

    def leave(self, gshare: str, shape_id: int, job_id: int) -> None:
        """A job is no longer where it was."""
        share = self.shares.get(gshare)
        lane = share.lanes.get(shape_id) if share is not None else None
        if lane is not None:
            lane.leave(job_id)

    def lanes(self) -> list[Lane]:
        """All lanes of all shares."""
        return [lane for share in self.shares.values() for lane in share.lanes.values()]

    def __len__(self) -> int:
        return sum(len(lane) for lane in self.lanes())

    def order(self, ranks: Ranks) -> list[str]:
        """The shares present here, the most deserving first.

        Kept until the ranks are swapped or a share appears.
        """
        known_ranks, n_shares, order = self._order
        if known_ranks is not ranks or n_shares != len(self.shares):
            order = sorted(self.shares, key=ranks.key)
            self._order = (ranks, len(self.shares), order)
        return order

    def pick(
        self, ranks: Ranks, fits: Fits, unwanted: Callable[[int], bool], *, band: int = 0
    ) -> PickedJob | NeedsRefill | None:
        """The best job for an offer, taken out of the window; None when nothing here fits."""
        for share in self.order(ranks):
            found = self.shares[share].pick(fits, unwanted, band)
            if found is not None:
                return found
        return None
