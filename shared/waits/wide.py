"""Changes that lift checks of many tasks at once, without saying for how many there is room.

They are a new grid, a parameter, an advertisement, a replica. Tasks that were decided on before it are looked at again
in slices, the next when the last has been decided about, so that no change causes a burst of decisions.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from shared.brokerage.lifts import Lift
from shared.waits.index import WaitIndex, Waiting
from shared.waits.store import Part, Wake

GRID, PARAMETER, ADVERTISEMENT, REPLICA, NUCLEUS = (
    "the grid",
    "a runtime parameter",
    "an advertisement",
    "a replica",
    "work of the nucleus",
)
#: so many are asked in one look: many may have gone on meanwhile
AT_MOST_ASKED = 1000
#: more than that are put in order together; so many are kept before it is looked who of them still waits
FEW, KEPT_WITHOUT_LOOK = 20, 256
_OF_THE_GRID = frozenset({Lift.GRID, Lift.LINK, Lift.STORAGE})


@dataclass(frozen=True)
class Wide:
    """The state of things now. `changed_at`: when something of each kind happened last, if it is known.

    `parameters_changed(names, version)`: whether one of these may have changed after a version. `replicas`: (what
    waits, wake_nr) of those whose input has more copies.
    """

    world_version: int
    config_version: int
    parameters_changed: Callable[[Iterable[str], int], bool]
    changed_at: Mapping[Lift, datetime] = field(default_factory=dict)
    replicas: frozenset[tuple[Part, int]] = frozenset()

    def cause(self, one: Waiting) -> str | None:
        """What has changed for a task since it was decided about; None: nothing."""
        lifts = one.causes.lifts
        if one.world_version < self.world_version and lifts & _OF_THE_GRID:
            return GRID
        names = one.causes.parameters if one.config_version < self.config_version else frozenset[str]()
        if names and self.parameters_changed(names, one.config_version):
            return PARAMETER
        if (one.key, one.wake_nr) in self.replicas:
            return REPLICA
        for lift, cause in ((Lift.ADVERTISEMENT, ADVERTISEMENT), (Lift.NUCLEUS, NUCLEUS)):
            at = self.changed_at.get(lift)
            if lift in lifts and at is not None and at > one.decided_at:
                return cause
        return None

    def may_lift(self, lifts: frozenset[Lift], parameters: frozenset[str], before: Wide | None) -> bool:
        """Whether anything changed after `before` (None: nothing is known of it) for checks that these lift."""
        if before is None:
            return True
        if self.world_version != before.world_version and lifts & _OF_THE_GRID:
            return True
        if parameters and self.config_version != before.config_version:
            return True
        return any(self.changed_at.get(lift) != before.changed_at.get(lift) for lift in lifts)


#: minus the priority, since when it waits, what, wake
_Entry = tuple[int, datetime, Part, int]


class _InOrder:
    """Tasks of one share that the same lifts, the most important first; those before `n_asked` were asked."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.n_asked = 0
        self._n_waited = 0

    def add(self, ones: Sequence[Waiting], index: WaitIndex) -> list[Waiting]:
        """Put these in their places; those of them that stand before some that were asked."""
        entries = [(-one.priority, one.since, one.key, one.wake_nr) for one in ones]
        before = list[Waiting]()
        if not self.n_asked and len(ones) > FEW:
            self.entries = sorted({*self.entries, *entries})
        else:
            before = [one for one, entry in zip(ones, entries, strict=True) if self._insert(entry)]
        if len(self.entries) > 2 * self._n_waited + KEPT_WITHOUT_LOOK:
            self._forget_who_went(index)
        return before

    def _insert(self, entry: _Entry) -> bool:
        """Whether its place is before some that were asked. One that rested is there already."""
        place = bisect_left(self.entries, entry)
        if place == len(self.entries) or self.entries[place] != entry:
            self.entries.insert(place, entry)
            self.n_asked += place < self.n_asked
        return place < self.n_asked

    def _forget_who_went(self, index: WaitIndex) -> None:
        asked = [entry for entry in self.entries[: self.n_asked] if index.has(*entry[2:])]
        self.entries = asked + [entry for entry in self.entries[self.n_asked :] if index.has(*entry[2:])]
        self.n_asked, self._n_waited = len(asked), len(self.entries)


class WideChanges:
    """Who is still to be looked at since the last change.

    The order in which tasks would go on is kept, by share and by what lifts what held them: a change costs what it may
    lift, and in one look no more than may be asked at once.
    """

    def __init__(self) -> None:
        self._index: WaitIndex | None = None
        self._before: Wide | None = None
        self._waiting: dict[tuple[str, frozenset[Lift], frozenset[str]], _InOrder] = {}
        self._due: dict[tuple[Part, int], None] = {}

    def wakes(
        self, index: WaitIndex, wide: Wide, need: Callable[[str], float], now: datetime, *, at_most: int
    ) -> list[Wake]:
        """The next slice. Asking twice gives the same: a task stays due until it no longer waits."""
        self._note(index, wide)
        for key, wake_nr in list(islice(self._due, AT_MOST_ASKED)):
            if key not in index.waiting or index.waiting[key].wake_nr != wake_nr:
                del self._due[key, wake_nr]
        self._ask(index, wide, need, at_most)
        news = [index.waiting[key] for key, _ in wide.replicas if key in index.waiting]
        news.sort(key=lambda one: (-one.priority, one.since, one.key))
        self._due.update(((one.key, one.wake_nr), None) for one in news)
        found: list[Wake] = []
        for key, wake_nr in list(islice(self._due, AT_MOST_ASKED)):
            if len(found) >= at_most:
                break
            one = index.waiting.get(key)
            cause = wide.cause(one) if one is not None and one.wake_nr == wake_nr else None
            if cause is not None:
                found.append(Wake(key, wake_nr, cause, now))
            else:
                del self._due[key, wake_nr]
        return found

    def _note(self, index: WaitIndex, wide: Wide) -> None:
        """Who came, and whom the last change may have lifted: these are asked again, from the first on."""
        if index is not self._index:  # everything was read again
            self._index, self._before = index, None
            self._waiting.clear()
            self._due.clear()
        for (_, lifts, parameters), ordered in self._waiting.items():
            if wide.may_lift(lifts, parameters, self._before):
                ordered.n_asked = 0
        self._before = wide
        arrived = defaultdict[tuple[str, frozenset[Lift], frozenset[str]], list[Waiting]](list)
        for one in index.arrived():
            arrived[one.gshare, one.causes.lifts, one.causes.parameters].append(one)
        for key, ones in arrived.items():
            for one in self._waiting.setdefault(key, _InOrder()).add(ones, index):
                if wide.cause(one) is not None:
                    self._due[one.key, one.wake_nr] = None

    def _ask(self, index: WaitIndex, wide: Wide, need: Callable[[str], float], at_most: int) -> None:
        """Go on until there are as many as may be woken, the share that needs most first."""
        heads = [
            (need(gshare), ordered.entries[ordered.n_asked], place, ordered)
            for place, ((gshare, _, _), ordered) in enumerate(self._waiting.items())
            if ordered.n_asked < len(ordered.entries)
        ]
        heapq.heapify(heads)
        for _ in range(AT_MOST_ASKED):
            if not heads or len(self._due) >= at_most:
                return
            needed, (_, _, key, wake_nr), place, ordered = heapq.heappop(heads)
            if index.has(key, wake_nr):
                ordered.n_asked += 1
            else:
                del ordered.entries[ordered.n_asked]
            one = index.waiting.get(key)
            if one is not None and one.wake_nr == wake_nr and wide.cause(one) is not None:
                self._due[key, wake_nr] = None
            if ordered.n_asked < len(ordered.entries):
                heapq.heappush(heads, (needed, ordered.entries[ordered.n_asked], place, ordered))
