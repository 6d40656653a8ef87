"""The lanes of one queue by share and order key, and the pick among them (DIRAC: matching).

When it is the turn of a share, a task queue of it is drawn by its priority, in it a class of user priority by its real
priority; of these the best lane is picked. What has nothing for a kind of pilot leaves the draw of this kind until it
gets a job: nothing is scanned. The jobs of a share that have no task queue are drawn as one task queue of a group that
nobody described; in most shares it is the only member of the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

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

#: where jobs without an order key are served
WITHOUT_KEY = KeyPlace(NO_TASK_QUEUE, DEFAULT_JOB_SHARE, 1.0)
#: the name of a slot or of a share that was not read, and its lanes where nothing is drawn
Turn = tuple[str, ShareLanes | None]


class TaskQueueLanes:
    """Lanes by share and order key. Keys that are not known yet are in no draw until they are.

    What changed since the last pick is looked at, and nothing else; `n_placed` counts how many keys were. `on_end` is
    told of lanes that are removed. `without_keys`: the shares that have or had jobs without an order key.
    """

    __slots__ = (
        "_keys", "_new", "_on_end", "_order", "_slot_of", "_slots", "_stamp", "_turns", "members", "n_placed",
        "without_keys",
    )  # fmt: skip

    def __init__(self, on_end: Callable[[Lane], None]) -> None:
        self._on_end = on_end
        self.members: dict[Member, ShareLanes] = {}
        self.n_placed = 0
        self.without_keys: list[Member] = []
        self._keys = {0: self.without_keys}
        self._new: list[Member] = []
        self._slot_of: dict[Member, str] = {}
        self._stamp: int | None = None
        self._slots: dict[str, QueuesOfShare] = {}
        self._order: tuple[Ranks, list[str]] | None = None
        self._turns: list[Turn] | None = None

    def lanes(self, member: Member) -> ShareLanes:
        """Give the lanes of a share and order key, made if they are not there."""
        found = self.members.get(member)
        if found is None:
            found = self.members[member] = ShareLanes(lambda: self._has_job(member), self._on_end)
            self._keys.setdefault(member[1], []).append(member)
            self._new.append(member)
        return found

    def _has_job(self, member: Member) -> None:
        name = self._slot_of.get(member)
        if name is not None:
            self._slots[name].has_job(member)

    def slots(self, orders: Orders) -> Mapping[str, QueuesOfShare]:
        """What is served together, by share, or by VO where that goes before shares."""
        if self._stamp != orders.version:
            changed = None if self._stamp is None else orders.changed_since(self._stamp)
            if changed is None:  # any key may have another place
                self._slots, self._slot_of, self._order, self._turns = {}, {}, None, None
                self._new = list(self.members)
            else:
                for key in changed & self._keys.keys():
                    self._place_all(orders, self._without_ended(key))
            self._stamp = orders.version
        if self._new:
            new, self._new = self._new, []
            self._place_all(orders, [member for member in new if member in self.members])
        return self._slots

    def _without_ended(self, key: int) -> list[Member]:
        """Drop the members of a key without lanes, which come again with their next job; those that are left."""
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
            gshare, key = member
            place = orders.place(key, gshare) if key else WITHOUT_KEY
            name = None
            if place is not None:
                name = gshare if place.vo_instead_of_share is None else f"\0{place.vo_instead_of_share}"
            before = self._slot_of.get(member)
            if before is not None and before != name:
                self._leave(before, member)
            if place is not None and name is not None:
                self._enter(name, member, place)

    def _enter(self, name: str, member: Member, place: KeyPlace) -> None:
        slot = self._slots.setdefault(name, QueuesOfShare())
        if member[0] not in slot.gshares:
            self._order = None
        self._slot_of[member] = name
        slot.put(member, place)
        self._turns = None

    def _leave(self, name: str, member: Member) -> None:
        slot = self._slots[name]
        slot.remove(member)
        del self._slot_of[member]
        self._turns = None
        if member[0] not in slot.gshares:
            self._order = None
            if not slot.members:
                del self._slots[name]

    def turns(self, ranks: Ranks, unread: Collection[str] = ()) -> list[Turn]:
        """Slots and shares that were not read, the most deserving first; with its lanes what has no draw.

        Kept until the order changes, or what a slot has.
        """
        order = self._ordered(ranks, unread)
        if self._turns is None:
            self._turns = [(name, self._without_draw(name)) for name in order]
        return self._turns

    def _without_draw(self, name: str) -> ShareLanes | None:
        """The lanes of a share whose jobs have no order key: the way of most shares, without a draw."""
        slot = self._slots.get(name)
        is_alone = slot is not None and len(slot.members) == 1 and (name, 0) in slot.members
        return self.members[(name, 0)] if is_alone else None

    def _ordered(self, ranks: Ranks, unread: Collection[str]) -> list[str]:
        """The names of slots and of shares that were not read, by rank.

        A VO that does without shares is as deserving as the best share of its jobs. Kept until the ranks are swapped,
        or a share appears in a slot or leaves it.
        """
        if self._order is None or self._order[0] is not ranks:

            def rank(name: str) -> tuple[int, str]:
                """Rank a share by itself, and a slot by the most deserving of its shares."""
                slot = self._slots.get(name)
                return ranks.key(name) if slot is None else min(ranks.key(one) for one in slot.gshares)

            self._order, self._turns = (ranks, sorted({*self._slots, *unread}, key=rank)), None
        return self._order[1]

    def pick(
        self, name: str, fits: Fits, view: TaskQueueView, unwanted: Callable[[int], bool], band: int
    ) -> PickedJob | NeedsRefill | None:
        """Pick a job of a drawn task queue of a slot; None when nothing of the slot fits."""
        slot = self._slots[name]
        if len(slot.members) == 1:  # without a draw
            (member,) = slot.members
            return self.members[member].pick(fits, unwanted, band) if view.may_serve(member[1]) else None
        draws = slot.draws(fits, view)
        while (drawn := draws.queues.draw(view.random)) is not None:
            classes = draws.classes[drawn]
            if drawn != NO_TASK_QUEUE and view.is_held(next(iter(classes))[1]):
                draws.hold(drawn, view.held_version())
                continue
            member = _drawn_class(classes, view.random)
            lanes = self.members.get(member)
            found = lanes.pick(fits, unwanted, band) if lanes is not None else None
            if found is not None:
                return found
            slot.has_nothing(member, draws)
        return None

    def pick_oldest(
        self, allowed: Collection[str], fits: Fits, unwanted: Callable[[int], bool], band: int
    ) -> PickedJob | NeedsRefill | None:
        """Pick the next job of the share where it is the oldest, of `allowed` shares without task queues.

        Why not any share: one that has old jobs only would get this part of all picks whatever it is due, and shares
        would miss their targets by it.
        """
        found: tuple[int, Member] | None = None
        for member in self.without_keys:
            if member[0] in allowed and len(self._slots[member[0]].members) == 1:
                job_id = self.members[member].next_job(fits, unwanted, band)
                if job_id is not None and (found is None or (job_id, member) < found):
                    found = (job_id, member)
        return self.members[found[1]].pick(fits, unwanted, band) if found is not None else None


def _drawn_class(classes: Mapping[Member, float], random: Callable[[], float]) -> Member:
    """Draw one of the few classes of a task queue, by weight."""
    if len(classes) == 1:
        return next(iter(classes))
    left = random() * sum(classes.values())
    for member, weight in classes.items():
        left -= weight
        if left < 0:
            return member
    return next(reversed(list(classes)))
