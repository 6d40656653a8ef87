"""The order of shares between two readings of what executes (PanDA: global shares, dispatch).

What executes is read every few seconds. In between pilots may take thousands of jobs: without counting them, all would
go to the share that was first at the reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from shared.order.ranking import Ranks, rank_shares
from shared.order.tree import Node

#: jobs granted so shortly before a reading may not be in it
LAG_S = 2.0
#: at least so long between two orders: what makes an order costs as much as many picks
ORDER_EVERY_S = 0.05

#: share, queue and cores of jobs that were granted
Grant = tuple[str, str, int]


class ShareOrder:
    """Counts what is granted on top of what was read; times are those of any clock that only goes forward."""

    def __init__(self, usual_core_power_hs06: float) -> None:
        self._usual_hs06 = usual_core_power_hs06
        self._nodes: Sequence[Node] = ()
        self._powers: Mapping[str, float] = {}
        self._executing_hs06: Mapping[str, float] = {}
        #: HS06 granted, by second of the clock and by share
        self._granted_hs06: dict[int, dict[str, float]] = {}
        self._n_queued: Mapping[str, int] = {}
        self._ordered_at_s = float("-inf")

    def read(
        self,
        nodes: Sequence[Node],
        executing_hs06: Mapping[str, float],
        core_powers_hs06: Mapping[str, float],
        n_queued: Mapping[str, int],
        now_s: float,
    ) -> Ranks:
        """The order after a reading; what was granted more than `LAG_S` ago is part of it.

        `core_powers_hs06`: of a core at queues that have a benchmark. `n_queued`: waiting jobs by share.
        """
        self._n_queued = n_queued
        self._nodes, self._executing_hs06, self._powers = nodes, executing_hs06, core_powers_hs06
        for second in [second for second in self._granted_hs06 if second + 1 < now_s - LAG_S]:
            del self._granted_hs06[second]
        return self._order(now_s)

    def granted(self, grants: Iterable[Grant], now_s: float) -> Ranks | None:
        """The order after these grants, or None as long as the present one is too new to be replaced.

        Example: A and B are due half each and use 100 HS06 each, so A is first. After a grant of one core of 10 HS06 in
        A, B is first.
        """
        here = self._granted_hs06.setdefault(int(now_s), defaultdict(float))
        for gshare, queue, n_cores in grants:
            here[gshare] += n_cores * self._powers.get(queue, self._usual_hs06)
        if now_s - self._ordered_at_s < ORDER_EVERY_S:
            return None
        return self._order(now_s)

    def _order(self, now_s: float) -> Ranks:
        self._ordered_at_s = now_s
        used_hs06 = defaultdict(float, self._executing_hs06)
        for granted in self._granted_hs06.values():
            for gshare, hs06 in granted.items():
                used_hs06[gshare] += hs06
        return rank_shares(self._nodes, used_hs06, self._n_queued)
