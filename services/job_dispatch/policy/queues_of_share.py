"""Task queues that are served together, and draws among them by kind of pilot (DIRAC: matching).

A draw is made of all once, then follows each change: a task queue that comes, goes, or gets another priority costs the
logarithm of their number in each draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
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

    `fits`: whether a key's task queue matches, or for key 0 whether jobs without one will do; `is_held`: whether a
    limit or delay of the site holds it back now. `random` gives uniform numbers from 0 to 1. The same object for the
    same kind, as long as its `fits` stays true.
    """

    orders: Orders
    fits: Callable[[int], bool]
    is_held: Callable[[int], bool]
    random: Callable[[], float]
    held_version: Callable[[], int]

    def may_serve(self, order_key_id: int) -> bool:
        """Whether jobs of a key fit, and nothing holds them back now; those without a key are never held back."""
        return self.fits(order_key_id) and (order_key_id == 0 or not self.is_held(order_key_id))


@dataclass(slots=True)
class Draws:
    """Draws for one kind of pilot; `classes` of each task queue that is in the draw.

    `held` are classes of task queues that a limit or delay keeps out, until `held_version` is another one.
    """

    queues: WeightedDraw[int]
    classes: dict[int, dict[Member, float]] = field(default_factory=dict)
    held: set[Member] = field(default_factory=set)
    held_version: int = 0

    def add(self, member: Member, place: KeyPlace) -> None:
        """Put the task queue of a class into the draw."""
        self.classes.setdefault(place.task_queue_id, {})[member] = place.real_priority
        self.queues.put(place.task_queue_id, place.priority)

    def drop(self, task_queue_id: int, member: Member) -> None:
        """Take a class out; without any its task queue leaves the draw."""
        left = self.classes.get(task_queue_id)
        if left is not None and left.pop(member, None) is not None and not left:
            del self.classes[task_queue_id]
            self.queues.remove(task_queue_id)

    def hold(self, task_queue_id: int, version: int) -> None:
        """Take a task queue out with all its classes, as long as what is held has this version."""
        self.held_version = version
        self.held.update(self.classes.pop(task_queue_id, ()))
        self.queues.remove(task_queue_id)


class QueuesOfShare:
    """The task queues that are served when it is the turn of a share, or of a VO that does without shares.

    `members` has the place of each class of them that is present; what had nothing for some kind of pilot is out of its
    draw until it gets a job.
    """

    __slots__ = ("_draws", "_n_of_share", "_out", "members")

    def __init__(self) -> None:
        self.members: dict[Member, KeyPlace] = {}
        self._n_of_share: Counter[str] = Counter()
        self._draws: dict[tuple[Fits, TaskQueueView], Draws] = {}
        self._out: set[Member] = set()

    @property
    def gshares(self) -> Collection[str]:
        """The shares that its jobs have."""
        return self._n_of_share.keys()

    def put(self, member: Member, place: KeyPlace) -> None:
        """Add a class, or give it other weights."""
        if self.members.get(member) == place:
            return
        if member not in self.members:
            self._n_of_share[member[0]] += 1
        self.members[member] = place
        self._into_draws(member, place)

    def remove(self, member: Member) -> None:
        """Forget a class."""
        place = self.members.pop(member, None)
        if place is None:
            return
        self._n_of_share[member[0]] -= 1
        if not self._n_of_share[member[0]]:
            del self._n_of_share[member[0]]
        for draws in self._draws.values():
            draws.drop(place.task_queue_id, member)
            draws.held.discard(member)

    def has_nothing(self, member: Member, draws: Draws) -> None:
        """Take a class out of the draws of a kind of pilot, for which it has no job."""
        self._out.add(member)
        draws.drop(self.members[member].task_queue_id, member)

    def has_job(self, member: Member) -> None:
        """Put a class that got a job which comes first back into the draws that it fits."""
        if member in self._out:
            self._out.discard(member)
            self._into_draws(member, self.members[member])

    def _into_draws(self, member: Member, place: KeyPlace) -> None:
        for (_, view), draws in self._draws.items():
            if view.fits(member[1]):
                draws.add(member, place)

    def draws(self, fits: Fits, view: TaskQueueView) -> Draws:
        """The draws for a kind of pilot; what was held back is in them again if that may have ended."""
        found = self._draws.get((fits, view))
        if found is None:
            found = self._made(fits, view)
        if found.held and found.held_version != view.held_version():
            held, found.held = found.held, set()
            for member in held:
                found.add(member, self.members[member])
        return found

    def _made(self, fits: Fits, view: TaskQueueView) -> Draws:
        if len(self._draws) >= MOST_KINDS:
            self._draws.clear()
        taken = {member: place for member, place in self.members.items() if view.fits(member[1])}
        weights = {place.task_queue_id: place.priority for place in taken.values()}
        found = self._draws[fits, view] = Draws(WeightedDraw.of(weights))
        for member, place in taken.items():
            found.classes.setdefault(place.task_queue_id, {})[member] = place.real_priority
        return found
