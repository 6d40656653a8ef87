"""All lanes of one queue, and the pick.

The first share in rank order that has a fitting job is picked, then its best lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.job_dispatch.policy.lane import Entry, Lane
from services.job_dispatch.policy.ranking import Ranks


@dataclass(frozen=True)
class Picked:
    """A job to try to claim."""

    lane: Lane
    entry: Entry

    @property
    def job_id(self) -> int:
        """The job that was picked."""
        return self.entry[1]


@dataclass(frozen=True)
class NeedsRefill:
    """These lanes come first but are not in memory; the pick waits for them, to keep the order right."""

    lanes: tuple[Lane, ...]


class QueueWindow:
    """Lanes by share, then by shape.

    A lane that was read to its end and is empty is removed; news makes it again.
    """

    def __init__(self, queue: str, *, owns: Callable[[int], bool] | None = None) -> None:
        self.queue = queue
        self.owns = owns
        self.shares: dict[str, dict[int, Lane]] = {}
        self._order: tuple[Ranks | None, int, list[str]] = (None, -1, [])

    def lane(self, gshare: str, shape_id: int, *, complete: bool) -> Lane:
        """The lane, made if it is not there; `complete` for a new lane that news announced."""
        lanes = self.shares.setdefault(gshare, {})
        lane = lanes.get(shape_id)
        if lane is None:
            lane = lanes[shape_id] = Lane(gshare, shape_id, complete=complete, owns=self.owns)
        return lane

    def arrive(self, gshare: str, shape_id: int, entry: Entry) -> Lane:
        """A job was activated at this queue. A lane that was not there had nothing: the window is all of it."""
        lane = self.lane(gshare, shape_id, complete=True)
        lane.arrive(entry)
        return lane

    def lanes(self) -> list[Lane]:
        """All lanes of all shares."""
        return [lane for lanes in self.shares.values() for lane in lanes.values()]

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
        self, ranks: Ranks, fits: Callable[[int], bool], unwanted: Callable[[int], bool], *, band: int = 0
    ) -> Picked | NeedsRefill | None:
        """The best job for an offer, taken out of the window; None when nothing here fits."""
        for share in self.order(ranks):
            found = self._pick_in(self.shares[share], fits, unwanted, band)
            if found is not None:
                return found
        return None

    def _pick_in(
        self, lanes: dict[int, Lane], fits: Callable[[int], bool], unwanted: Callable[[int], bool], band: int
    ) -> Picked | NeedsRefill | None:
        best: tuple[int, int, int] | None = None
        best_lane: Lane | None = None
        unread: list[Lane] = []
        ended: list[int] = []
        for shape_id, lane in lanes.items():
            if not fits(shape_id):
                continue
            head = lane.head(band, unwanted)
            if head is not None:
                if best is None or head < best:
                    best, best_lane = head, lane
            elif not lane.complete or lane.refilling:
                unread.append(lane)
            else:
                ended.append(shape_id)
        for shape_id in ended:
            del lanes[shape_id]
        if unread:
            return NeedsRefill(tuple(unread))
        if best is None or best_lane is None:
            return None
        return Picked(best_lane, best_lane.pop(best[2]))
