"""The head of one lane (queue, share, order key, shape) in memory, in the order it is served.

A window decides nothing. An entry may be stale (the claim then fails) but an activated job must not be missing for
long: what is before the cursor came by a read or by news, what is behind it will come by the next read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush, nsmallest

#: (negated priority, job id): the smallest is served first
Entry = tuple[int, int]
OWN, FOREIGN = 0, 1


class Lane:
    """Heaps of entries read or announced so far.

    `cursor` is the last entry read from the database; `complete` means that everything was read, so that every arrival
    belongs into the window. While a read is under way arrivals are buffered: it is unknown whether it includes them.
    A job has one entry that counts, the last that came; one that it had before stays in its heap until it comes first.
    `owns` tells this replica's own ids from those it leaves to others while it can. `on_first` is told of an entry that
    comes before all others of its heap.
    """

    __slots__ = (
        "_buffer", "_entries", "_heaps", "_owns", "complete", "cursor", "gshare", "on_first", "order_key_id",
        "refilling", "shape_id",
    )  # fmt: skip

    def __init__(
        self,
        gshare: str,
        shape_id: int,
        *,
        order_key_id: int = 0,
        complete: bool = False,
        owns: Callable[[int], bool] | None = None,
    ) -> None:
        self.gshare = gshare
        self.order_key_id = order_key_id
        self.shape_id = shape_id
        self.cursor: Entry | None = None
        self.complete = complete
        self.refilling = False
        self._heaps: tuple[list[Entry], list[Entry]] = ([], [])
        self._entries: dict[int, Entry] = {}
        self._buffer: list[Entry] = []
        self._owns = owns
        self.on_first: Callable[[Lane, Entry, int], None] | None = None

    def __len__(self) -> int:
        return len(self._heaps[OWN]) + len(self._heaps[FOREIGN])

    @property
    def key(self) -> tuple[str, int, int]:
        """What names it at its queue: share, order key (0: none), shape."""
        return self.gshare, self.order_key_id, self.shape_id

    def push(self, entry: Entry) -> None:
        """Add an entry unless it is there already; it takes the place of another of its job."""
        if self._entries.get(entry[1]) == entry:
            return
        self._entries[entry[1]] = entry
        own = self._owns is None or self._owns(entry[1])
        which = OWN if own else FOREIGN
        heap = self._heaps[which]
        heappush(heap, entry)
        if heap[0] is entry and self.on_first is not None:
            self.on_first(self, entry, which)

    def arrive(self, entry: Entry) -> None:
        """Add a job that was activated or picked in vain, if a read will not find it."""
        if self.refilling:
            self._buffer.append(entry)
        elif self.complete or (self.cursor is not None and entry <= self.cursor):
            self.push(entry)

    def leave(self, job_id: int) -> None:
        """Let a job's entry count no more: it is no longer of this lane, or has another priority."""
        self._entries.pop(job_id, None)

    def shorten(self, most: int) -> None:
        """Keep the first `most` entries; the next read brings the others."""
        if len(self._entries) <= most:
            return
        kept = nsmallest(most, self._entries.values())
        if self.cursor is None or kept[-1] < self.cursor or self.complete:
            self.cursor, self.complete = kept[-1], False
        self._start_again(kept)

    def begin_refill(self) -> Entry | None:
        """Begin a read; where it starts. Arrivals wait until `end_refill` or `refill_failed`."""
        self.refilling = True
        return self.cursor

    def end_refill(self, entries: Iterable[Entry], limit: int) -> None:
        """Add what the read found, in order; fewer than `limit` means that there is no more."""
        n_read = 0
        for entry in entries:
            n_read += 1
            self.push(entry)
            self.cursor = entry
        self.complete = n_read < limit
        self.refill_failed()

    def refill_failed(self) -> None:
        """End the read: buffered arrivals find their side of the cursor."""
        self.refilling = False
        waiting, self._buffer = self._buffer, []
        for entry in waiting:
            self.arrive(entry)

    def head(self, band: int, unwanted: Callable[[int], bool]) -> tuple[int, int, int] | None:
        """The next entry as (negated priority plus handicap, job id, heap), or None when the window is empty.

        A foreign entry is handicapped by `band` points of priority. Entries of `unwanted` jobs at the front (taken by
        another replica, or being claimed right now) are dropped, and so are entries that count no more.
        """
        best: tuple[int, int, int] | None = None
        for which, heap in enumerate(self._heaps):
            while heap and (self._entries.get(heap[0][1]) != heap[0] or unwanted(heap[0][1])):
                self._forget(heappop(heap))
            if heap:
                candidate = (heap[0][0] + (band if which == FOREIGN else 0), heap[0][1], which)
                if best is None or candidate < best:
                    best = candidate
        return best

    def pop(self, which: int) -> Entry:
        """Take the entry that `head` named."""
        entry = heappop(self._heaps[which])
        self._forget(entry)
        return entry

    def some(self, count: int) -> list[Entry]:
        """So many of the entries, the next one among them; roughly those that come first."""
        own = self._heaps[OWN][:count]
        return [*own, *self._heaps[FOREIGN][: count - len(own)]]

    def reclassify(self, owns: Callable[[int], bool] | None) -> None:
        """Sort the entries into own and foreign again: the replicas changed."""
        self._owns = owns
        self._start_again(list(self._entries.values()))

    def _start_again(self, entries: Iterable[Entry]) -> None:
        self._heaps, self._entries = ([], []), {}
        for entry in entries:
            self.push(entry)

    def _forget(self, entry: Entry) -> None:
        """Forget an entry that has left its heap; another of the same job is not touched."""
        if self._entries.get(entry[1]) == entry:
            del self._entries[entry[1]]
