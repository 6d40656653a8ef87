"""A change that lifts checks of many waiting tasks costs what it may lift, and in one look never more than a few."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.brokerage.lifts import Lift
from shared.waits.causes import Causes
from shared.waits.index import WaitIndex, Waiting
from shared.waits.store import Part, Wake
from shared.waits.wide import AT_MOST_ASKED, Wide, WideChanges

NOW = datetime(2026, 3, 1, tzinfo=UTC)
N_TASKS, SLICE = 10_000, 20
ADVERTISED, OF_GRID = Causes(lifts=frozenset({Lift.ADVERTISEMENT})), Causes(lifts=frozenset({Lift.GRID}))


@dataclass(frozen=True)
class Counting(Wide):
    """Notes which tasks are asked about."""

    asked: list[int] = field(default_factory=list)

    def cause(self, one: Waiting) -> str | None:
        self.asked.append(one.key.task_id)
        return super().cause(one)


def nothing_changed(names: Iterable[str], version: int) -> bool:
    return False


def something_changed(names: Iterable[str], version: int) -> bool:
    return True


def advertised(after_s: float, world_version: int = 1) -> Counting:
    at = NOW + timedelta(seconds=after_s)
    return Counting(world_version, 1, nothing_changed, {Lift.ADVERTISEMENT: at})


def no_need(gshare: str) -> float:
    return 0.0


def a_task(number: int, causes: Causes = ADVERTISED) -> Waiting:
    return Waiting(
        Part(number),
        1,
        1,
        "MC",
        number * 7919 % 1000,
        NOW,
        NOW,
        NOW + timedelta(hours=1),
        causes=causes,
        world_version=1,
        config_version=1,
    )


def index_of(causes: Causes = ADVERTISED) -> WaitIndex:
    index = WaitIndex()
    for number in range(N_TASKS):
        index.put(a_task(number, causes), NOW)
    return index


def wake(index: WaitIndex, found: Iterable[Wake]) -> list[int]:
    """They are woken; in order."""
    woken = [one.key.task_id for one in found]
    for task_id in woken:
        index.put(replace(index.waiting[Part(task_id)], woken_at=NOW), NOW)
    return woken


def test_a_new_advertisement_asks_about_a_slice_of_ten_thousand_tasks_and_all_go_on_in_order() -> None:
    index, changes = index_of(), WideChanges()
    in_order = sorted(range(N_TASKS), key=lambda number: (-a_task(number).priority, number))
    assert changes.wakes(index, advertised(-1), no_need, NOW, at_most=SLICE) == []
    woken: list[int] = []
    for second in range(1, 601):
        wide = advertised(second)
        found = changes.wakes(index, wide, no_need, NOW, at_most=SLICE)
        assert found == changes.wakes(index, wide, no_need, NOW, at_most=SLICE)
        assert len(wide.asked) <= 4 * SLICE and len(found) <= SLICE
        woken += wake(index, found)
    assert woken == in_order


def test_tasks_that_were_decided_about_after_the_change_are_asked_so_many_in_a_look_and_once() -> None:
    index, changes = index_of(), WideChanges()
    looks = [advertised(-1) for _ in range(12)]
    for wide in looks:
        assert changes.wakes(index, wide, no_need, NOW, at_most=SLICE) == []
    assert [len(wide.asked) for wide in looks] == [AT_MOST_ASKED] * 10 + [0, 0]


def test_nobody_is_asked_about_a_change_that_lifts_nothing_of_theirs() -> None:
    index, changes = index_of(OF_GRID), WideChanges()
    for _ in range(10):
        changes.wakes(index, advertised(1), no_need, NOW, at_most=SLICE)
    wide = advertised(2)
    assert changes.wakes(index, wide, no_need, NOW, at_most=SLICE) == [] and wide.asked == []
    wide = advertised(2, world_version=2)
    assert len(changes.wakes(index, wide, no_need, NOW, at_most=SLICE)) == SLICE


@pytest.mark.parametrize(
    ("lift", "wide", "cause"),
    [
        *[(lift, Wide(2, 1, nothing_changed), "the grid") for lift in (Lift.GRID, Lift.LINK, Lift.STORAGE)],
        (Lift.ADVERTISEMENT, advertised(1), "an advertisement"),
        (Lift.NUCLEUS, Wide(1, 1, nothing_changed, {Lift.NUCLEUS: NOW + timedelta(seconds=1)}), "work of the nucleus"),
        (Lift.REPLICA, Wide(1, 1, nothing_changed, replicas=frozenset({(Part(1), 1)})), "a replica"),
        (Lift.PARAMETER, Wide(1, 2, something_changed), "a runtime parameter"),
    ],
)
def test_a_task_is_looked_at_again_for_what_lifts_its_checks_and_for_nothing_else(
    lift: Lift, wide: Wide, cause: str
) -> None:
    names = frozenset({"jobbroker.NQUEUED_SAT_CAP"}) if lift is Lift.PARAMETER else frozenset[str]()
    assert wide.cause(a_task(1, Causes(lifts=frozenset({lift}), parameters=names))) == cause
    others = frozenset(Lift) - {lift} - ({Lift.GRID, Lift.LINK, Lift.STORAGE} if cause == "the grid" else set())
    other_task = a_task(2, Causes(lifts=others))
    assert wide.cause(other_task) is None
    now_decided = replace(
        a_task(1, Causes(lifts=frozenset({lift}), parameters=names)),
        wake_nr=2,
        world_version=2,
        config_version=2,
        decided_at=NOW + timedelta(seconds=2),
    )
    assert wide.cause(now_decided) is None


def test_a_task_that_begins_to_wait_before_those_that_were_asked_is_asked_too() -> None:
    index, changes = index_of(OF_GRID), WideChanges()
    for _ in range(10):
        changes.wakes(index, advertised(1), no_need, NOW, at_most=SLICE)
    first = replace(a_task(N_TASKS, OF_GRID), priority=5000, world_version=0)
    index.put(first, NOW)
    wide = advertised(1)
    assert wake(index, changes.wakes(index, wide, no_need, NOW, at_most=SLICE)) == [N_TASKS]
    assert set(wide.asked) == {N_TASKS}


def test_tasks_that_went_on_are_forgotten() -> None:
    index, changes = WaitIndex(), WideChanges()
    for number in range(N_TASKS):
        index.put(a_task(number, OF_GRID), NOW)
        changes.wakes(index, advertised(-1), no_need, NOW, at_most=SLICE)
        index.drop(Part(number))
    [ordered] = changes._waiting.values()
    assert len(ordered.entries) < 600
