"""The lanes of task queues at one queue, and the draw among them (DIRAC: matching).

A task queue is drawn by its priority, in it a class of user priority by its real priority; of these the best lane is
picked. What has nothing for a kind of pilot leaves the draw of this kind until it gets a job: nothing is scanned.
Jobs of a share that have no task queue are drawn as one task queue of a group that nobody described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from services.job_dispatch.policy.lane import Lane
from services.job_dispatch.policy.share_lanes import Fits, NeedsRefill, PickedJob, ShareLanes
from shared.order.draw import WeightedDraw
from shared.order.ranking import Ranks
from shared.order.task_queues import DEFAULT_JOB_SHARE

#: kinds of pilots whose draws are kept; beyond them all are made again as they are needed
MOST_KINDS = 64
#: jobs of a share without a task queue
NO_TASK_QUEUE = 0
#: share and order key
Member = tuple[str, int]


class KeyPlace(NamedTuple):
    """What an order key says: its task queue, and the weights of both draws.

    `vo_instead_of_share`: its VO, where that does without shares.
    """

    task_queue_id: int
    priority: float
    real_priority: float
    vo_instead_of_share: str | None = None


class Orders(Protocol):
    """What is known of order keys; `version` changes whenever any of it does."""

    @property
    def version(self) -> int:
        """A number that is another one after each change: draws that were made with another are made again."""

    def place(self, order_key_id: int, gshare: str) -> KeyPlace | None:
        """Where jobs of a key and a share are served; None where they have no task queue."""


@dataclass(frozen=True, eq=False)
class TaskQueueView:
    """Order keys as one kind of pilot at one queue sees them.

    `fits`: whether a key's task queue matches; `is_held`: whether a limit or delay of the site holds it back now.
    `random` gives uniform numbers from 0 to 1. `takes_others`: whether jobs without a task queue will do. The same
    object for the same kind, as long as its `fits` stays true.
    """

    orders: Orders
    fits: Callable[[int], bool]
    is_held: Callable[[int], bool]
    random: Callable[[], float]
    held_version: Callable[[], int]
    takes_others: bool = True


@dataclass
class _Draws:
    """Draws for one kind of pilot; `classes` of each task queue that is in the draw."""

    stamp: tuple[int, int]
    queues: WeightedDraw[int] = field(default_factory=WeightedDraw)
    classes: dict[int, dict[Member, float]] = field(default_factory=dict)

    def add(self, member: Member, place: KeyPlace) -> None:
        """This class has a job: its task queue is in the draw."""
        self.classes.setdefault(place.task_queue_id, {})[member] = place.real_priority
        self.queues.put(place.task_queue_id, place.priority)

    def drop(self, task_queue_id: int, member: Member) -> None:
        """This class has nothing; without any the task queue leaves the draw."""
        left = self.classes.get(task_queue_id)
        if left is not None:
            left.pop(member, None)
            if not left:
                self.drop_queue(task_queue_id)

    def drop_queue(self, task_queue_id: int) -> None:
        """The task queue leaves the draw with all its classes."""
        self.classes.pop(task_queue_id, None)
        self.queues.remove(task_queue_id)


class QueuesOfShare:
    """The task queues that are served when it is the turn of a share, or of a VO that does without shares."""

    __slots__ = ("_draws", "gshares", "members")

    def __init__(self) -> None:
        self.members: dict[Member, KeyPlace] = {}
        self.gshares: set[str] = set()
        self._draws: dict[tuple[Fits, TaskQueueView], _Draws] = {}

    def add(self, member: Member, place: KeyPlace) -> None:
        """A task queue's class is present."""
        self.members[member] = place
        self.gshares.add(member[0])
        self.has_job(member)

    def has_job(self, member: Member) -> None:
        """It got a job that comes first: it is back in the draws that it fits."""
        place = self.members.get(member)
        if place is not None:
            for (_, view), draws in self._draws.items():
                if _may_take(view, member, place):
                    draws.add(member, place)

    def draws(self, fits: Fits, view: TaskQueueView) -> _Draws:
        """The draws for a kind of pilot; made again where order keys or limits changed since."""
        stamp = (view.orders.version, view.held_version())
        found = self._draws.get((fits, view))
        if found is None or found.stamp != stamp:
            if len(self._draws) >= MOST_KINDS:
                self._draws.clear()
            taken = {member: place for member, place in self.members.items() if _may_take(view, member, place)}
            weights = {place.task_queue_id: place.priority for place in taken.values()}
            found = self._draws[fits, view] = _Draws(stamp, WeightedDraw.of(weights))
            for member, place in taken.items():
                found.classes.setdefault(place.task_queue_id, {})[member] = place.real_priority
        return found


def _may_take(view: TaskQueueView, member: Member, place: KeyPlace) -> bool:
    if place.task_queue_id == NO_TASK_QUEUE:
        return view.takes_others
    return view.fits(member[1])


NO_SLOTS: Mapping[str, QueuesOfShare] = {}


class TaskQueueLanes:
    """Lanes by share and order key. Keys that are not known yet are in no draw until they are.

    `on_end` is told of lanes that are removed.
    """

    __slots__ = ("_on_end", "_slots", "_stamp", "members")

    def __init__(self, on_end: Callable[[Lane], None] | None = None) -> None:
        self._on_end = on_end
        self.members: dict[Member, ShareLanes] = {}
        self._stamp: int | None = None
        self._slots: dict[str, QueuesOfShare] = {}

    def lanes(self, member: Member) -> ShareLanes:
        """The lanes of an order key, made if they are not there."""
        found = self.members.get(member)
        if found is None:
            found = self.members[member] = ShareLanes(lambda: self._has_job(member), self._on_end)
            self._stamp = None
        return found

    def has_plain_job(self, gshare: str) -> None:
        """A share got a job without a task queue."""
        if self.members:
            self._has_job((gshare, 0))

    def has_other_shares(self) -> None:
        """A share without task queues appeared: it may belong to a slot."""
        self._stamp = None

    def _has_job(self, member: Member) -> None:
        for slot in self._slots.values():
            slot.has_job(member)

    def slots(self, orders: Orders, plain: Mapping[str, ShareLanes]) -> Mapping[str, QueuesOfShare]:
        """By share, or by VO where that goes before shares; made again when anything about order keys changed."""
        if not self.members:
            return NO_SLOTS
        if self._stamp != orders.version:
            self._stamp, self._slots = orders.version, {}
            for member in self.members:
                place = orders.place(member[1], member[0])
                if place is not None:
                    name = member[0] if place.vo_instead_of_share is None else f"\0{place.vo_instead_of_share}"
                    self._slots.setdefault(name, QueuesOfShare()).add(member, place)
            for name in self._slots.keys() & plain.keys():
                self._slots[name].add((name, 0), KeyPlace(NO_TASK_QUEUE, DEFAULT_JOB_SHARE, 1.0))
        return self._slots

    def pick(
        self,
        slot: QueuesOfShare,
        plain: Mapping[str, ShareLanes],
        fits: Fits,
        view: TaskQueueView,
        unwanted: Callable[[int], bool],
        band: int,
    ) -> PickedJob | NeedsRefill | None:
        """A job of a drawn task queue; None when nothing of the slot fits."""
        draws = slot.draws(fits, view)
        while (drawn := draws.queues.draw(view.random())) is not None:
            if drawn != NO_TASK_QUEUE and view.is_held(next(iter(draws.classes[drawn]))[1]):
                draws.drop_queue(drawn)
                continue
            member = _drawn_class(draws.classes[drawn], view.random)
            lanes = self.members.get(member) if member[1] else plain.get(member[0])
            found = lanes.pick(fits, unwanted, band) if lanes is not None else None
            if found is not None:
                return found
            draws.drop(drawn, member)
        return None

    def __iter__(self) -> Iterator[ShareLanes]:
        return iter(self.members.values())


def _drawn_class(classes: Mapping[Member, float], random: Callable[[], float]) -> Member:
    """One of the few classes of a task queue, by weight."""
    if len(classes) == 1:
        return next(iter(classes))
    left = random() * sum(classes.values())
    for member, weight in classes.items():
        left -= weight
        if left < 0:
            return member
    return next(reversed(list(classes)))


def rank_of(slot: str, gshares: set[str] | None, ranks: Ranks) -> tuple[int, str]:
    """Where a slot is served: that of its share, or of the best one of the shares that its jobs have."""
    return min(ranks.key(one) for one in gshares) if gshares else ranks.key(slot)
