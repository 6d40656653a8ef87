"""What lifts checks of many tasks at once, without saying for how many there is room: a new grid, a parameter, an

advertisement, a replica. Tasks that were decided on before it are looked at again in slices, the next when the last has
been decided about, so that no change is followed by a stampede.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from shared.brokerage.lifts import Lift
from shared.waits.index import Group, WaitIndex, Waiting
from shared.waits.store import Wake

GRID, PARAMETER, ADVERTISEMENT, REPLICA, NUCLEUS = (
    "the grid", "a runtime parameter", "an advertisement", "a replica", "work of the nucleus",
)  # fmt: skip
#: of those that are due, so many are asked at once: many may have gone on meanwhile
AT_MOST_ASKED = 1000
_OF_THE_GRID = frozenset({Lift.GRID, Lift.LINK, Lift.STORAGE})


@dataclass(frozen=True)
class Wide:
    """The state of things now. `changed_at`: when something of each kind happened last, if it is known.

    `parameters_changed(names, version)`: whether one of these may have changed after a version. `replicas`: (task,
    wake_nr) of those whose input has more copies.
    """

    world_version: int
    config_version: int
    parameters_changed: Callable[[Iterable[str], int], bool]
    changed_at: Mapping[Lift, datetime] = field(default_factory=dict)
    replicas: frozenset[tuple[int, int]] = frozenset()

    def cause(self, one: Waiting) -> str | None:
        """What has changed for a task since it was decided about; None: nothing."""
        lifts = one.causes.lifts
        if one.world_version < self.world_version and lifts & _OF_THE_GRID:
            return GRID
        names = one.causes.parameters if one.config_version < self.config_version else frozenset[str]()
        if names and self.parameters_changed(names, one.config_version):
            return PARAMETER
        if (one.task_id, one.wake_nr) in self.replicas:
            return REPLICA
        for lift, cause in ((Lift.ADVERTISEMENT, ADVERTISEMENT), (Lift.NUCLEUS, NUCLEUS)):
            at = self.changed_at.get(lift)
            if lift in lifts and at is not None and at > one.decided_at:
                return cause
        return None

    @property
    def state(self) -> tuple[object, ...]:
        """Equal as long as nothing changed."""
        return self.world_version, self.config_version, tuple(sorted(self.changed_at.items()))


class WideChanges:
    """Who is still to be looked at since the last change: asked once for everybody, later only for who waits anew."""

    def __init__(self) -> None:
        self._state: tuple[object, ...] | None = None
        self._due: dict[tuple[int, int], None] = {}

    def wakes(
        self, index: WaitIndex, wide: Wide, need: Callable[[str], float], now: datetime, *, at_most: int
    ) -> list[Wake]:
        """The next slice. Asking twice gives the same: a task stays due until it no longer waits."""
        arrived = index.arrived()
        if wide.state != self._state:
            self._state = wide.state
            arrived = list(index.in_order(list[Group](index.groups.values()), need))
            self._due.clear()
        self._due.update(((one.task_id, one.wake_nr), None) for one in arrived if wide.cause(one) is not None)
        news = [index.waiting[task_id] for task_id, _ in wide.replicas if task_id in index.waiting]
        news.sort(key=lambda one: (-one.priority, one.since, one.task_id))
        self._due.update(((one.task_id, one.wake_nr), None) for one in news)
        found: list[Wake] = []
        for task_id, wake_nr in list(islice(self._due, AT_MOST_ASKED)):
            if len(found) >= at_most:
                break
            one = index.waiting.get(task_id)
            cause = wide.cause(one) if one is not None and one.wake_nr == wake_nr else None
            if cause is not None:
                found.append(Wake(task_id, wake_nr, cause, now))
            else:
                del self._due[task_id, wake_nr]
        return found
