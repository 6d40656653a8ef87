"""Reads which tasks wait, asks who may go on, and wakes them.

Every replica has its own index over the same rows.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Histogram

from shared.db.unit_of_work import UnitOfWork
from shared.waits.causes import Causes
from shared.waits.index import WaitIndex, Waiting
from shared.waits.store import SQL, Kind, Part, Placed, Wake, not_told_yet, wake_tasks

LOOK_EVERY_S = 1.0
FORGET_EVERY_S = 60.0
READ_ALL_EVERY = timedelta(minutes=10)
#: a woken task of which nothing was heard for so long takes no room
WOKEN_COUNTS_FOR = timedelta(seconds=60)
#: a task that has not been told yet that it waits is tried again after so long
TOLD_WITHIN = timedelta(seconds=1)
#: tasks woken at once; and, where it is unknown for how many there is room, woken and not yet decided about
AT_ONCE, SLICE = 100, 20

Plan = Callable[[WaitIndex, UnitOfWork], Awaitable[Sequence[Wake]]]
_SECONDS = (0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 300, 1800)


class WakeMetrics:
    """How many wakes, for which cause, how many placed work, and how long that took; one for each process."""

    _known: WeakKeyDictionary[CollectorRegistry, WakeMetrics] = WeakKeyDictionary()

    @classmethod
    def of(cls, registry: CollectorRegistry) -> WakeMetrics:
        """The one of a registry."""
        found = cls._known.get(registry)
        if found is None:
            found = cls._known[registry] = cls(registry)
        return found

    def __init__(self, registry: CollectorRegistry) -> None:
        self._woken = Counter("orrery_wakes", "Waiting tasks that were woken, by cause", ["cause"], registry=registry)
        self._placed = Counter(
            "orrery_wakes_placed",
            "Woken tasks that were placed, by the cause of the wake",
            ["cause"],
            registry=registry,
        )
        self._futile = Counter(
            "orrery_wakes_futile",
            "Woken tasks that found nothing, by the cause of the wake",
            ["cause"],
            registry=registry,
        )
        self._seconds = Histogram(
            "orrery_room_to_placement_seconds",
            "From room to the placement of the task that was woken for it",
            buckets=_SECONDS,
            registry=registry,
        )

    def woken(self, cause: str, n_tasks: int) -> None:
        self._woken.labels(cause).inc(n_tasks)

    def placed(self, placed: Placed | None) -> None:
        if placed is not None:
            self._placed.labels(placed.cause).inc()
            self._seconds.observe(max(0.0, placed.waited_s))

    def futile(self, cause: str | None) -> None:
        if cause is not None:
            self._futile.labels(cause).inc()


class Waker:
    """Wakes tasks; `plan` says who may go on, from the index and what it reads.

    It is asked again under the lock, as another replica may have woken some meanwhile. `dirty`: rows of queues to be
    looked at, with since when; `is_behind`: somebody waits of whom the index does not know yet.
    """

    def __init__(self, kind: Kind, plan: Plan, metrics: WakeMetrics) -> None:
        self.index = WaitIndex()
        self.dirty: dict[str, datetime] = {}
        self._kind, self._plan, self._metrics = kind, plan, metrics
        self.is_behind = True
        self._horizon: int | None = None
        self._read_all_at: datetime | None = None
        self._looking = asyncio.Lock()

    async def look(self, work: UnitOfWork) -> dict[str, tuple[int, ...]]:
        """Wake whom something has changed for; tasks by the cause. At most one look at a time in a process."""
        async with self._looking:
            await self._read(work)
            if not len(self.index):
                self.dirty.clear()
                return {}
            if not await self._plan(self.index, work):
                return {}
            if not await SQL.value(work.connection, "try_lock", kind=self._kind):
                return {}  # another replica is at it; what is left for this one is seen at the next look
            await self._read(work)
            return await self._wake(work, (await self._plan(self.index, work))[:AT_ONCE])

    async def _wake(self, work: UnitOfWork, wakes: Sequence[Wake]) -> dict[str, tuple[int, ...]]:
        woken = await wake_tasks(work, self._kind, wakes) if wakes else set[Part]()
        by_cause: dict[str, dict[int, None]] = defaultdict(dict)
        for one in wakes:
            if one.key in woken:
                by_cause[one.cause][one.key.task_id] = None
                self._metrics.woken(one.cause, 1)
        missed = [one for one in wakes if one.key not in woken]
        untold = await not_told_yet(work, self._kind, missed) if missed else set[Part]()
        for one in missed:
            if one.key in untold:
                self.index.rest(one.key, work.now + TOLD_WITHIN)
            else:
                self.index.drop(one.key)  # gone on by itself; should it wait again, its row is read again
        return {cause: tuple(task_ids) for cause, task_ids in by_cause.items()}

    async def _read(self, work: UnitOfWork) -> None:
        """What changed since the last read; everything at the start and now and then."""
        self.is_behind = False
        is_old = self._read_all_at is None or not timedelta(0) <= work.now - self._read_all_at < READ_ALL_EVERY
        if is_old:
            self.index = WaitIndex()
            self._horizon, self._read_all_at = 0, work.now
        horizon = await SQL.value(work.connection, "horizon")
        rows = await SQL.rows(work.connection, "changed_waits", kind=self._kind, horizon=self._horizon or 0)
        self._horizon = horizon
        labels: set[str] = set()
        for row in rows:
            labels.update(self.index.put(Waiting.of(dict(row), Causes.of(row["causes"])), work.now))
        labels.update(self.index.rested(work.now))
        for label in labels:
            self.dirty.setdefault(label, work.now)
