"""Task queues that are served together, and draws among them by kind of pilot (DIRAC: matching).

A draw is made of all once, then follows each change: a task queue that comes, goes, or gets another priority costs the
logarithm of their number in each draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from services.job_dispatch.policy.share_lanes import Fits
from shared.order.draw import WeightedDraw

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
        """A number that is another one after each change."""

    def changed_since(self, version: int) -> set[int] | None:
        """The order keys whose place changed since a version; None: any may have."""

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

    def may_take(self, member: Member, place: KeyPlace) -> bool:
        """Whether the kind of pilot may have jobs of a task queue's class."""
        if place.task_queue_id == NO_TASK_QUEUE:
            return self.takes_others
        return self.fits(member[1])


@dataclass
class Draws:
    """Draws for one kind of pilot; `classes` of each task queue that is in the draw.

    `held` are classes of task queues that a limit or delay keeps out, until `held_version` is another one.
    """

    held_version: int
    queues: WeightedDraw[int] = field(default_factory=WeightedDraw)
    classes: dict[int, dict[Member, float]] = field(default_factory=dict)
    held: set[Member] = field(default_factory=set)

    def add(self, member: Member, place: KeyPlace) -> None:
        """This class has a job: its task queue is in the draw."""
        self.classes.setdefault(place.task_queue_id, {})[member] = place.real_priority
        self.queues.put(place.task_queue_id, place.priority)

    def drop(self, task_queue_id: int, member: Member) -> None:
        """This class has nothing; without any the task queue leaves the draw."""
        left = self.classes.get(task_queue_id)
        if left is not None and left.pop(member, None) is not None and not left:
            del self.classes[task_queue_id]
            self.queues.remove(task_queue_id)

    def hold(self, task_queue_id: int) -> None:
        """The task queue leaves the draw with all its classes, for a while."""
        self.held.update(self.classes.pop(task_queue_id, ()))
        self.queues.remove(task_queue_id)


class QueuesOfShare:
    """The task queues that are served when it is the turn of a share, or of a VO that does without shares."""

    __slots__ = ("_draws", "_n_of_share", "members")

    def __init__(self) -> None:
        self.members: dict[Member, KeyPlace] = {}
        self._n_of_share: Counter[str] = Counter()
        self._draws: dict[tuple[Fits, TaskQueueView], Draws] = {}

    @property
    def gshares(self) -> set[str]:
        """The shares that its jobs have."""
        return set(self._n_of_share)

    def put(self, member: Member, place: KeyPlace) -> None:
        """A task queue's class is present, or has other weights."""
        if self.members.get(member) == place:
            return
        if member not in self.members:
            self._n_of_share[member[0]] += 1
        self.members[member] = place
        self.has_job(member)

    def remove(self, member: Member) -> None:
        """Nothing is known of it any more."""
        place = self.members.pop(member, None)
        if place is None:
            return
        self._n_of_share[member[0]] -= 1
        if not self._n_of_share[member[0]]:
            del self._n_of_share[member[0]]
        for draws in self._draws.values():
            draws.drop(place.task_queue_id, member)
            draws.held.discard(member)

    def has_job(self, member: Member) -> None:
        """It got a job that comes first: it is back in the draws that it fits."""
        place = self.members.get(member)
        if place is not None:
            for (_, view), draws in self._draws.items():
                if view.may_take(member, place):
                    draws.add(member, place)

    def draws(self, fits: Fits, view: TaskQueueView) -> Draws:
        """The draws for a kind of pilot; what was held back is in them again if that may have ended."""
        found = self._draws.get((fits, view))
        if found is None:
            found = self._made(fits, view)
        held_version = view.held_version()
        if found.held_version != held_version:
            found.held_version = held_version
            held, found.held = found.held, set()
            for member in held:
                place = self.members.get(member)
                if place is not None:
                    found.add(member, place)
        return found

    def _made(self, fits: Fits, view: TaskQueueView) -> Draws:
        if len(self._draws) >= MOST_KINDS:
            self._draws.clear()
        taken = {member: place for member, place in self.members.items() if view.may_take(member, place)}
        weights = {place.task_queue_id: place.priority for place in taken.values()}
        found = self._draws[fits, view] = Draws(view.held_version(), WeightedDraw.of(weights))
        for member, place in taken.items():
            found.classes.setdefault(place.task_queue_id, {})[member] = place.real_priority
        return found
