"""How much of a queue is read at its first use and later, and when news of it are too many to follow.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shared.order.ranking import Ranks

NEWS_TOGETHER_S = 1.0

#: share, order key, shape
LaneKey = tuple[str, int, int]


class Picking(NamedTuple):
    """How one job is picked.

    `band`: by so many points of priority jobs of other replicas are behind; `by_age`: the next job is that of the share
    with the oldest, of those that are not above their due.
    """

    band: int = 0
    by_age: bool = False


IN_ORDER = Picking()


@dataclass
class WindowLimits:
    """How much is kept, and how often it is looked at again; times in seconds of the process's clock."""

    refill_size: int = 256
    refill_below: int = 64
    first_shares: int = 2  # in rank order, at the first use of a queue; the others when it is their turn
    first_entries: int = 8  # of each of their lanes
    first_read: int = 4_000  # entries when a queue in use is read again, over all its lanes
    read_together: int = 2_000  # entries at a refill, over all lanes that are read with it
    most_news: int = 20_000  # of one queue within a second; reading it again is cheaper than following them
    most_of_lane: int = 4_096  # entries in memory; the rest of a longer lane is read when it is its turn
    idle_after_s: float = 300.0
    sweep_after_s: float = 45.0
    sweep_spread_s: float = 15.0
    sweep_at_most_s: float = 1.5  # the transaction of the periodic work waits meanwhile
    recheck_after_s: float = 1.5
    remembered_ids: int = 100_000
    band: int = 50
    sloppy_percent: float = 0.0  # of picks that do without the order of shares

    def how(self, n_shares: int, random: Callable[[], float]) -> Picking:
        """How one job is picked at a queue where jobs of so many shares wait; one share needs no draw."""
        by_age = n_shares > 1 and self.sloppy_percent > 0 and 100.0 * random() < self.sloppy_percent
        return Picking(self.band, by_age)


def read_ahead(lanes: Sequence[LaneKey], ranks: Ranks, limits: WindowLimits) -> tuple[list[LaneKey], int]:
    """Which lanes to read on in when a queue in use is read again, and how many entries of each.

    All of them where they are few, else those of the share that is served first. Of the others their first job is
    known, and more is read when it is taken.

    Example: with `refill_size` 10 and `refill_below` 4, four lanes have ten each of a `first_read` of 40; of one of 8
    the two lanes of the share that is served first have four each.
    """
    if len(lanes) * limits.refill_below > limits.first_read:
        served_first = min({lane[0] for lane in lanes}, key=ranks.key)
        lanes = [lane for lane in lanes if lane[0] == served_first][: max(1, limits.first_read // 2)]
    return list(lanes), max(2, min(limits.refill_size, limits.first_read // max(1, len(lanes))))


class News:
    """Counts the news of each queue within a second: reading it again is cheaper than following too many."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}

    def is_too_much(self, queue: str, count: int, *, now: float, most: int) -> bool:
        """Whether so many more are above `most`; then the count begins again at zero."""
        since, before = self._seen.get(queue, (now, 0))
        if now - since >= NEWS_TOGETHER_S:
            since, before = now, 0
        is_too_much = before + count > most
        self._seen[queue] = (now, 0) if is_too_much else (since, before + count)
        return is_too_much
