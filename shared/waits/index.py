"""Waiting tasks by cause. Pure: no clock, no database.

Tasks with equal causes and share are one group, so that what changed is compared once for all of them, and an event
costs what it changes: the groups at one queue, not the tasks that wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from shared.brokerage.room import Held
from shared.waits.causes import Causes
from shared.waits.store import Part

#: need of a share (less is more urgent), minus the priority, since when it waits, what
Order = tuple[float, int, datetime, Part]


@dataclass(frozen=True)
class Waiting:
    """A row of `waits` with what orders its task.

    `resource_type`, `user`, `working_group`: whose limits hold it.
    """

    key: Part
    wake_nr: int
    n_jobs: int
    gshare: str
    priority: int
    since: datetime
    decided_at: datetime
    retry_at: datetime
    user: str = ""
    working_group: str = ""
    resource_type: str = ""
    vo: str = ""
    causes: Causes = field(default_factory=Causes)
    world_version: int = 0
    config_version: int = 0
    not_before: datetime | None = None
    woken_at: datetime | None = None
    woken_for: str | None = None
    placed_at: datetime | None = None
    placed_chunk_id: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], causes: Causes) -> Waiting:
        """A stored row."""
        key = Part(row["task_id"], row["work"], row["part"])
        return cls(**{name: row[name] for name in _STORED}, key=key, causes=causes)


_STORED = tuple(name for name in Waiting.__dataclass_fields__ if name not in ("key", "causes"))
GroupKey = tuple[Causes, str, str]
USER, WORKING_GROUP = "user ", "group "
DISK_QUOTA = "disk_quota"


class Group:
    """Tasks of equal causes and share, most important first; of equal user or group where limited."""

    def __init__(self, key: GroupKey) -> None:
        self.causes, self.gshare, self.owner = key
        self._heap: list[tuple[int, datetime, Part, int]] = []

    def push(self, one: Waiting) -> None:
        heapq.heappush(self._heap, (-one.priority, one.since, one.key, one.wake_nr))

    def in_order(self, waiting: Mapping[Part, Waiting]) -> Iterator[Waiting]:
        """Those that still wait, best first; looks at no more than are taken, and forgets those that went."""
        taken = []
        try:
            while self._heap:
                entry = heapq.heappop(self._heap)
                one = waiting.get(entry[2])
                if one is None or one.wake_nr != entry[3]:
                    continue
                taken.append(entry)
                yield one
        finally:
            for entry in taken:
                heapq.heappush(self._heap, entry)


class WaitIndex:
    """`waiting`: tasks that may be woken now.

    Those that back off are `resting`, those that were woken are `woken`.
    """

    def __init__(self) -> None:
        self.waiting: dict[Part, Waiting] = {}
        self.woken: dict[Part, Waiting] = {}
        self.groups: dict[GroupKey, Group] = {}
        self._resting: dict[Part, Waiting] = {}
        self._rest_until: list[tuple[datetime, Part, int]] = []
        self._at: dict[str, dict[Held, dict[GroupKey, Group]]] = {}
        self._interned: dict[Causes, Causes] = {}
        self._arrived: list[Waiting] = []

    def __len__(self) -> int:
        return len(self.waiting) + len(self._resting)

    def arrived(self) -> list[Waiting]:
        """Who began to wait since this was asked last; told once."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def unseen(self) -> Sequence[Waiting]:
        """The same, not told by this."""
        return self._arrived

    def has(self, key: Part, wake_nr: int) -> bool:
        """Whether it waits, or backs off, since that decision."""
        one = self.waiting.get(key) or self._resting.get(key)
        return one is not None and one.wake_nr == wake_nr

    def put(self, one: Waiting, now: datetime) -> Iterable[str]:
        """Put a row as it is now; the rows of queues to look at because no task was waiting there for it."""
        known = self.waiting.get(one.key)
        if known is not None and known.wake_nr == one.wake_nr and one.woken_at is None and one.placed_at is None:
            return ()
        self.drop(one.key)
        if one.woken_at is not None or one.placed_at is not None:
            self.woken[one.key] = replace(one, causes=self._interned.get(one.causes, one.causes))
            return ()
        if one.not_before is not None and one.not_before > now:
            self._rest(one, one.not_before)
            return ()
        return self._wait(one)

    def rest(self, key: Part, until: datetime) -> None:
        """Not to be woken before then."""
        one = self.waiting.pop(key, None)
        if one is not None:
            self._rest(one, until)

    def _rest(self, one: Waiting, until: datetime) -> None:
        self._resting[one.key] = one
        heapq.heappush(self._rest_until, (until, one.key, one.wake_nr))

    def drop(self, key: Part) -> None:
        """It waits no longer."""
        for where in (self.waiting, self.woken, self._resting):
            where.pop(key, None)

    def rested(self, now: datetime) -> Iterable[str]:
        """Those whose back-off is over may be woken again; the rows of queues to look at."""
        labels: set[str] = set()
        while self._rest_until and self._rest_until[0][0] <= now:
            _, key, wake_nr = heapq.heappop(self._rest_until)
            one = self._resting.get(key)
            if one is not None and one.wake_nr == wake_nr:
                del self._resting[key]
                labels.update(self._wait(one))
        return labels

    def labels(self) -> Iterable[str]:
        """The rows of queues at which somebody was held."""
        return self._at

    def held_at(self, label: str) -> Mapping[Held, Mapping[GroupKey, Group]]:
        """The checks that held somebody at a row, with whom."""
        return self._at.get(label, {})

    def in_order(self, groups: Iterable[Group], need: Callable[[str], float]) -> Iterator[Waiting]:
        """Tasks of these groups: the share that needs most first, then priority, then age.

        `need` is asked again after each task, as the caller may have given the share something by then.
        """
        heads: list[tuple[Order, int, Waiting, Iterator[Waiting]]] = []

        def push(place: int, tasks: Iterator[Waiting]) -> None:
            one = next(tasks, None)
            if one is not None:
                heapq.heappush(heads, (_order(one, need), place, one, tasks))

        for place, group in enumerate(groups):
            push(place, group.in_order(self.waiting))
        while heads:
            order, place, one, tasks = heapq.heappop(heads)
            now_needed = _order(one, need)
            if now_needed > order and heads and now_needed > heads[0][0]:
                heapq.heappush(heads, (now_needed, place, one, tasks))
                continue
            yield one
            push(place, tasks)

    def _wait(self, one: Waiting) -> Iterable[str]:
        causes = self._interned.setdefault(one.causes, one.causes)
        key = (causes, one.gshare, owner_of(one) if causes.caps else "")
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(key)
            for held, labels in causes.queues:
                for label in labels:
                    self._at.setdefault(label, {}).setdefault(held, {})[key] = group
        one = replace(one, causes=causes)
        self.waiting[one.key] = one
        self._arrived.append(one)
        group.push(one)
        return [label for _, labels in causes.queues for label in labels]

    def forget_empty_groups(self) -> None:
        """Groups without waiting tasks."""
        for key, group in list(self.groups.items()):
            if next(group.in_order(self.waiting), None) is None:
                del self.groups[key]
                self._interned.pop(group.causes, None)
                for held, labels in group.causes.queues:
                    for label in labels:
                        self._at.get(label, {}).get(held, {}).pop(key, None)


def owner_of(one: Waiting) -> str:
    """Whose caps hold the task: its working group's, or its user's.

    A disk quota is the user's in either case.
    """
    is_quota = any(name == DISK_QUOTA for name, _ in one.causes.caps)
    is_group = bool(one.working_group) and not is_quota
    return owner_name(WORKING_GROUP, one.vo, one.working_group) if is_group else owner_name(USER, one.vo, one.user)


def owner_name(kind: str, vo: str, name: str) -> str:
    """A user or working group of a VO, which has no space in its name.

    Equal names of two VOs are two.
    """
    return f"{kind}{vo} {name}"


def vo_and_name(owner: str, kind: str) -> tuple[str, str]:
    """The VO and the name of an owner of this kind."""
    vo, _, name = owner.removeprefix(kind).partition(" ")
    return vo, name


def _order(one: Waiting, need: Callable[[str], float]) -> Order:
    return need(one.gshare), -one.priority, one.since, one.key
