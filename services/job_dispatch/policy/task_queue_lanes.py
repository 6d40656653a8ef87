"""The lanes of task queues at one queue, and the pick among them (DIRAC: matching).

A task queue is drawn by its priority, in it a class of user priority by its real priority; of these the best lane is
picked. What has nothing for a kind of pilot leaves the draw of this kind until it gets a job: nothing is scanned.
Jobs of a share that have no task queue are drawn as one task queue of a group that nobody described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from services.job_dispatch.policy.lane import Lane
from services.job_dispatch.policy.queues_of_share import (
    NO_TASK_QUEUE,
    KeyPlace,
    Member,
    Orders,
    QueuesOfShare,
    TaskQueueView,
)
from services.job_dispatch.policy.share_lanes import Fits, NeedsRefill, PickedJob, ShareLanes
from shared.order.ranking import Ranks
from shared.order.task_queues import DEFAULT_JOB_SHARE

NO_SLOTS: Mapping[str, QueuesOfShare] = {}
#: jobs of a share without a task queue, among those that have one
OTHERS = KeyPlace(NO_TASK_QUEUE, DEFAULT_JOB_SHARE, 1.0)


class TaskQueueLanes:
    """Lanes by share and order key. Keys that are not known yet are in no draw until they are.

    What changed since the last pick is looked at, and nothing else; `n_placed` counts how many keys were. `on_end` is
    told of lanes that are removed.
    """

    __slots__ = ("_keys", "_new", "_new_shares", "_on_end", "_slot_of", "_slots", "_stamp", "members", "n_placed")

    def __init__(self, on_end: Callable[[Lane], None] | None = None) -> None:
        self._on_end = on_end
        self.members: dict[Member, ShareLanes] = {}
        self.n_placed = 0
        self._keys: dict[int, list[Member]] = {}
        self._new: list[Member] = []
        self._new_shares = False
        self._slot_of: dict[Member, str] = {}
        self._stamp: int | None = None
        self._slots: dict[str, QueuesOfShare] = {}

    def lanes(self, member: Member) -> ShareLanes:
        """The lanes of an order key, made if they are not there."""
        found = self.members.get(member)
        if found is None:
            found = self.members[member] = ShareLanes(lambda: self._has_job(member), self._on_end)
            self._keys.setdefault(member[1], []).append(member)
            self._new.append(member)
        return found

    def has_plain_job(self, gshare: str) -> None:
        """A share got a job without a task queue."""
        if self.members:
            self._has_job((gshare, 0))

    def has_other_shares(self) -> None:
        """A share without task queues appeared: it may belong to a slot."""
        self._new_shares = True

    def _has_job(self, member: Member) -> None:
        name = self._slot_of.get(member)
        if name is not None:
            self._slots[name].has_job(member)

    def slots(self, orders: Orders, plain: Mapping[str, ShareLanes]) -> Mapping[str, QueuesOfShare]:
        """By share, or by VO where that goes before shares; another object when their names or shares changed."""
        if not self.members:
            return NO_SLOTS
        if self._stamp != orders.version:
            changed = None if self._stamp is None else orders.changed_since(self._stamp)
            if changed is None:
                self._start_again()
            else:
                for key in changed & self._keys.keys():
                    self._place_all(orders, self._without_ended(key))
            self._stamp = orders.version
        if self._new:
            new, self._new = self._new, []
            self._place_all(orders, [member for member in new if member in self.members])
        if self._new_shares:
            self._new_shares = False
            for name in self._slots.keys() & plain.keys():
                self._slots[name].put((name, 0), OTHERS)
                self._slot_of[name, 0] = name
        return self._slots

    def _start_again(self) -> None:
        """Any key may have another place."""
        self._slots, self._slot_of, self._new_shares = {}, {}, True
        self._new = list(self.members)

    def _without_ended(self, key: int) -> list[Member]:
        """The members of a key that have lanes; the others go, and come again with their next job."""
        kept = []
        for member in self._keys[key]:
            if self.members[member].lanes:
                kept.append(member)
                continue
            del self.members[member]
            if member in self._slot_of:
                self._leave(self._slot_of[member], member)
        if kept:
            self._keys[key] = kept
        else:
            del self._keys[key]
        return kept

    def _place_all(self, orders: Orders, members: list[Member]) -> None:
        for member in members:
            self.n_placed += 1
            place = orders.place(member[1], member[0])
            name = None
            if place is not None:
                name = member[0] if place.vo_instead_of_share is None else f"\0{place.vo_instead_of_share}"
            before = self._slot_of.get(member)
            if before is not None and before != name:
                self._leave(before, member)
            if place is not None and name is not None:
                self._enter(name, member, place)

    def _enter(self, name: str, member: Member, place: KeyPlace) -> None:
        slot = self._slots.get(name)
        if slot is None or member[0] not in slot.gshares:
            self._slots = dict(self._slots)
            slot = self._slots.setdefault(name, QueuesOfShare())
            self._new_shares = True
        self._slot_of[member] = name
        slot.put(member, place)

    def _leave(self, name: str, member: Member) -> None:
        slot = self._slots[name]
        slot.remove(member)
        del self._slot_of[member]
        if len(slot.members) == ((name, 0) in slot.members):  # no task queue is left: those without are served as lanes
            self._slots = {one: known for one, known in self._slots.items() if one != name}
            self._slot_of.pop((name, 0), None)
        elif member[0] not in slot.gshares:
            self._slots = dict(self._slots)

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
                draws.hold(drawn)
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
