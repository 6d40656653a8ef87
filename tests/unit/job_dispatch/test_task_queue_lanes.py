"""Draws of task queues follow changes: they hold what they would hold if made anew, for the work of the change."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_dispatch.policy.order_changes import MOST_KEYS, OrderChanges
from services.job_dispatch.policy.queue_window import QueueWindow
from services.job_dispatch.policy.queues_of_share import KeyPlace, TaskQueueView
from services.job_dispatch.policy.share_lanes import PickedJob
from shared.order.draw import WeightedDraw
from shared.order.ranking import Ranks

RANKS = Ranks(("A", "B"))


def every_shape(_: int) -> bool:
    return True


def nobody(_: int) -> bool:
    return False


@dataclass
class Orders:
    """Order keys whose places a test changes; `n_asked` counts the questions."""

    places: dict[int, KeyPlace] = field(default_factory=dict)
    changes: OrderChanges = field(default_factory=OrderChanges)
    n_asked: int = 0

    @property
    def version(self) -> int:
        return self.changes.version

    def changed_since(self, version: int) -> set[int] | None:
        return self.changes.since(version)

    def place(self, order_key_id: int, gshare: str) -> KeyPlace | None:
        self.n_asked += 1
        return self.places.get(order_key_id)

    def put(self, key: int, priority: float, vo: str | None = None) -> None:
        self.places[key] = KeyPlace(key // 2 + 1, priority, 1.0 + key % 2, vo)
        self.changes.note([key])

    def remove(self, key: int) -> None:
        self.places.pop(key, None)
        self.changes.note([key])


@dataclass
class Held:
    """Task queues that a limit holds back now."""

    keys: set[int] = field(default_factory=set)
    version: int = 0


Classes = dict[int, dict[tuple[str, int], float]]


def view_of(orders: Orders, held: Held, rng: random.Random) -> TaskQueueView:
    return TaskQueueView(
        orders,
        lambda key: key == 0 or key % 5 != 0,
        lambda key: key in held.keys,
        rng.random,
        lambda: held.version,
    )


def contents(window: QueueWindow, view: TaskQueueView) -> dict[str, tuple[set[str], Classes]]:
    """What is in the draw of each slot: its shares, and the classes of task queues, with what is held back."""
    found = {}
    for name, slot in window.task_queues.slots(view.orders).items():
        draws = slot.draws(every_shape, view)
        classes = {number: dict(one) for number, one in draws.classes.items()}
        for member in draws.held:
            place = slot.members[member]
            classes.setdefault(place.task_queue_id, {})[member] = place.real_priority
        assert set(draws.classes) == {n for n in range(-1, 50) if n in draws.queues}
        found[name] = set(slot.gshares), classes
    return found


def remade(window: QueueWindow, orders: Orders, held: Held) -> QueueWindow:
    """A window of the same jobs that saw no change."""
    fresh = QueueWindow("Q")
    for lane in window.lanes():
        for entry in lane.some(1000):
            fresh.arrive(lane.gshare, lane.shape_id, entry, lane.order_key_id)
    return fresh


@given(seed=st.integers(0, 2**32))
def test_a_draw_that_followed_all_changes_holds_what_one_made_anew_holds(seed: int) -> None:
    rng, orders, held = random.Random(seed), Orders(), Held()
    view, window = view_of(orders, held, random.Random(1)), QueueWindow("Q")
    for number in range(1, rng.randint(10, 80)):
        step, key = rng.random(), rng.randrange(1, 16)
        if step < 0.4:
            window.arrive(rng.choice("AB"), 1, (0, number), rng.choice((0, key, key)))
        elif step < 0.55:
            orders.put(key, rng.choice((1.0, 2.0, 5.0)), rng.choice((None, None, "vo")))
        elif step < 0.6:
            orders.remove(key)
        elif step < 0.63:
            orders.changes.note_all()
        elif step < 0.7:
            held.keys, held.version = {rng.randrange(1, 16) for _ in range(3)}, held.version + 1
        else:
            window.pick(RANKS, every_shape, nobody, view=view)
    held.keys, held.version = set(), held.version + 1
    fresh = remade(window, orders, held)
    expected = contents(fresh, view_of(orders, held, rng))
    got = contents(window, view)
    waiting = {(lane.gshare, lane.order_key_id) for lane in window.lanes() if len(lane)}
    assert of_waiting(got, waiting) == of_waiting(expected, waiting)


def of_waiting(found: dict[str, tuple[set[str], Classes]], waiting: set[tuple[str, int]]) -> dict[str, Classes]:
    """The slots that have jobs of task queues: a class without any leaves when it is drawn or its key goes."""
    left = {}
    for name, (_, classes) in found.items():
        kept = {number: {one: w for one, w in those.items() if one in waiting} for number, those in classes.items()}
        if any(kept[number] for number in kept if number):
            left[name] = {number: those for number, those in kept.items() if those}
    return left


def window_of(n_queues: int, orders: Orders) -> QueueWindow:
    window = QueueWindow("Q")
    for key in range(1, n_queues + 1):
        orders.places[key] = KeyPlace(key, 1.0, 1.0)
        for job in range(2):
            window.arrive("A", 1, (0, 10 * key + job), key)
    return window


@pytest.mark.parametrize("n_queues", [10, 1000])
def test_a_new_task_queue_costs_two_looks_and_one_place_in_the_draw_however_many_there_are(
    n_queues: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, held = Orders(), Held()
    window = window_of(n_queues, orders)
    view = view_of(orders, held, random.Random(1))
    assert isinstance(window.pick(RANKS, every_shape, nobody, view=view), PickedJob)
    done: Counter[str] = Counter()
    put, of = WeightedDraw.put, WeightedDraw.of

    def counted_put(self, key, weight):
        done["put"] += 1
        put(self, key, weight)

    def counted_of(weights):
        done["made"] += 1
        return of(weights)

    monkeypatch.setattr(WeightedDraw, "put", counted_put)
    monkeypatch.setattr(WeightedDraw, "of", counted_of)
    orders.n_asked = 0
    orders.places[n_queues + 1] = KeyPlace(n_queues + 1, 1e9, 1.0)
    orders.changes.note([n_queues + 1])
    window.arrive("A", 1, (0, 1_000_001), n_queues + 1)
    found = window.pick(RANKS, every_shape, nobody, view=view)
    assert isinstance(found, PickedJob) and found.job_id == 1_000_001
    assert orders.n_asked <= 2 and done["made"] == 0 and done["put"] <= 2


def test_a_limit_that_ends_puts_back_what_it_held_and_makes_no_draw_again(monkeypatch: pytest.MonkeyPatch) -> None:
    orders, held = Orders(), Held({1, 2, 3})
    window = window_of(3, orders)
    view = view_of(orders, held, random.Random(1))
    assert window.pick(RANKS, every_shape, nobody, view=view) is None
    monkeypatch.setattr(WeightedDraw, "of", None)
    held.keys, held.version = {1, 3}, 1
    found = window.pick(RANKS, every_shape, nobody, view=view)
    assert isinstance(found, PickedJob) and found.lane.order_key_id == 2


def test_a_task_queue_without_jobs_is_forgotten_when_its_key_is_and_is_no_question_any_more() -> None:
    orders, held = Orders(), Held()
    window = window_of(2, orders)
    view = view_of(orders, held, random.Random(1))
    assert len([window.pick(RANKS, every_shape, nobody, view=view) for _ in range(5)]) == 5
    orders.n_asked = 0
    for key in (1, 2):
        orders.remove(key)
    assert window.pick(RANKS, every_shape, nobody, view=view) is None
    assert orders.n_asked == 0 and not window.task_queues.members
    orders.put(1, 1.0)
    window.arrive("A", 1, (0, 99), 1)
    again = window.pick(RANKS, every_shape, nobody, view=view)
    assert isinstance(again, PickedJob) and again.job_id == 99


def test_changes_are_told_since_any_version_that_is_remembered() -> None:
    changes = OrderChanges()
    first = changes.version
    changes.note([1, 2])
    second = changes.version
    changes.note([])
    assert changes.version == second
    changes.note([2, 3])
    assert changes.since(first) == {1, 2, 3} and changes.since(second) == {2, 3}
    assert changes.since(changes.version) == set()
    changes.note(range(MOST_KEYS))
    assert changes.since(first) is None
    changes.note_all()
    assert changes.since(changes.version - 1) is None and changes.since(changes.version) == set()
