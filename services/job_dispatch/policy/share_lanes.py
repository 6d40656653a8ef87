"""The lanes of one share and order key at one queue, and the best job of them for a kind of pilot.

For each kind of pilot the heads of the fitting lanes form a heap, so that a pick costs the logarithm of their number.
The heap may be behind: an entry whose job has been taken is replaced when it comes to the top, and a lane that gets a
better job tells it. What stands in a heap for a lane is never worse than the lane's head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from services.job_dispatch.policy.lane import FOREIGN, Entry, Lane

#: kinds of pilots whose heaps are kept; beyond them all are made again as they are needed
MOST_KINDS = 64

#: whether a shape fits a kind of pilot; the same function for the same kind, as long as the shapes are known
Fits = Callable[[int], bool]
#: (negated priority plus handicap, job id, shape id): the smallest is served first
Head = tuple[int, int, int]


@dataclass(frozen=True)
class PickedJob:
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


@dataclass(frozen=True)
class NeedsShares:
    """A share comes first of which no lane is in memory; the pick waits until more shares are read."""


class Heads:
    """The heads of the lanes that fit one kind of pilot; `listed` is the entry that stands for each lane."""

    __slots__ = ("band", "heap", "listed")

    def __init__(self, heads: list[Head], band: int) -> None:
        self.band = band
        self.heap = heads
        self.listed = {head[2]: head for head in heads}
        heapify(self.heap)

    def better(self, head: Head) -> None:
        """Let a job that a lane has got stand for it, if it is served before what does now."""
        listed = self.listed.get(head[2])
        if listed is None or head < listed:
            self.listed[head[2]] = head
            heappush(self.heap, head)

    def behind(self, head: Head) -> None:
        """Put this head of a lane in the place of the entry on top, which is no longer its head."""
        self.listed[head[2]] = head
        heapreplace(self.heap, head)

    def drop(self) -> None:
        """Drop the entry on top: nothing stands for its lane any more."""
        del self.listed[heappop(self.heap)[2]]


class ShareLanes:
    """Lanes by shape, of one share and order key.

    A lane that was read to its end and is empty is removed; news makes it again. `on_first` is told when a lane gets a
    job that comes before its others, `on_end` of a lane that is removed.
    """

    __slots__ = ("_empty", "_heads", "_on_end", "_on_first", "lanes")

    def __init__(self, on_first: Callable[[], None], on_end: Callable[[Lane], None]) -> None:
        self._on_first = on_first
        self._on_end = on_end
        self.lanes: dict[int, Lane] = {}
        self._heads: dict[Fits, Heads] = {}
        self._empty: dict[int, Lane] = {}

    def add(self, lane: Lane) -> None:
        """Add a new lane, empty as yet."""
        self.lanes[lane.shape_id] = lane
        self._empty[lane.shape_id] = lane
        lane.on_first = self._has_first

    def pick(self, fits: Fits, unwanted: Callable[[int], bool], band: int) -> PickedJob | NeedsRefill | None:
        """Take the best job of the lanes that fit out of its lane; None when there is none.

        NeedsRefill while a fitting lane is empty and not read to its end: what it has may come first.
        """
        heads = self._heads.get(fits)
        if heads is None or heads.band != band:
            heads = self._heads_of(fits, unwanted, band)
        if self._empty:
            unread = self._unread(fits)
            if unread:
                return NeedsRefill(unread)
        while heads.heap:
            listed = heads.heap[0]
            shape_id = listed[2]
            if heads.listed.get(shape_id) != listed:  # a better one of its lane was served before it
                heappop(heads.heap)
                continue
            lane = self.lanes.get(shape_id)
            head = lane.head(band, unwanted) if lane is not None else None
            if lane is None or head is None:
                heads.drop()
                if lane is not None and not self.has_ended(lane):
                    self._empty[shape_id] = lane
                    return NeedsRefill((lane,))
            elif head[0] != listed[0] or head[1] != listed[1]:
                heads.behind((head[0], head[1], shape_id))
            else:
                return PickedJob(lane, lane.pop(head[2]))
        return None

    def next_job(self, fits: Fits, unwanted: Callable[[int], bool], band: int) -> int | None:
        """The id of the job that comes next, as far as the heap knows; None when nothing fits."""
        heads = self._heads.get(fits)
        if heads is None or heads.band != band:
            heads = self._heads_of(fits, unwanted, band)
        return heads.heap[0][1] if heads.heap else None

    def _heads_of(self, fits: Fits, unwanted: Callable[[int], bool], band: int) -> Heads:
        if len(self._heads) >= MOST_KINDS:
            self._heads.clear()
        found: list[Head] = []
        for shape_id, lane in self.lanes.items():
            if not fits(shape_id):
                continue
            head = lane.head(band, unwanted)
            if head is not None:
                found.append((head[0], head[1], shape_id))
            else:
                self._empty[shape_id] = lane
        heads = self._heads[fits] = Heads(found, band)
        return heads

    def _unread(self, fits: Fits) -> tuple[Lane, ...]:
        """Empty lanes that fit and may have more; those that have ended are removed."""
        unread = []
        for shape_id, lane in list(self._empty.items()):
            if len(lane):
                del self._empty[shape_id]
            elif not self.has_ended(lane) and fits(shape_id):
                unread.append(lane)
        return tuple(unread)

    def has_ended(self, lane: Lane) -> bool:
        """Whether an empty lane has no more; then it is removed."""
        if not lane.complete or lane.refilling:
            return False
        self._empty.pop(lane.shape_id, None)
        if self.lanes.pop(lane.shape_id, None) is not None:
            self._on_end(lane)
        return True

    def _has_first(self, lane: Lane, entry: Entry, which: int) -> None:
        """Let a job stand for its lane, before whose others of the same heap it comes."""
        self._empty.pop(lane.shape_id, None)
        for fits, heads in self._heads.items():
            if fits(lane.shape_id):
                handicap = heads.band if which == FOREIGN else 0
                heads.better((entry[0] + handicap, entry[1], lane.shape_id))
        self._on_first()
