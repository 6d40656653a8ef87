"""Picks that do without the order of shares: urgent work, and a part of all by age."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.job_dispatch.policy.queue_window import QueueWindow
from services.job_dispatch.policy.reading import IN_ORDER, Picking, WindowLimits
from services.job_dispatch.policy.share_lanes import NeedsRefill, PickedJob
from shared.order.ranking import Ranks
from tests.unit.job_dispatch.views import EVERYTHING, KnownOrders, view_of

URGENT = frozenset({9})
ORDER = Ranks(("A", "B"), frozenset({"A", "B"}))


def window(*jobs: tuple[str, int, int, int]) -> QueueWindow:
    """Jobs as share, shape, priority, id; every lane was read to its end."""
    found = QueueWindow("Q")
    for gshare, shape_id, priority, job_id in jobs:
        found.arrive(gshare, shape_id, (-priority, job_id))
    return found


def picks(
    found: QueueWindow,
    count: int,
    *,
    ranks: Ranks = ORDER,
    how: Picking = IN_ORDER,
    fits: Callable[[int], bool] = lambda _: True,
) -> list[int | None]:
    ids: list[int | None] = []
    for _ in range(count):
        picked = found.pick(ranks, fits, lambda _: False, how, view=EVERYTHING, urgent=URGENT)
        ids.append(picked.job_id if isinstance(picked, PickedJob) else None)
    return ids


def test_urgent_jobs_of_any_share_come_first_by_priority_and_age() -> None:
    found = window(("A", 1, 900, 1), ("B", 9, 10, 4), ("B", 9, 10, 3), ("C", 9, 20, 5), ("B", 1, 999, 2))
    assert picks(found, 6) == [5, 3, 4, 1, 2, None]


def test_urgent_jobs_that_do_not_fit_are_passed_over() -> None:
    found = window(("A", 1, 1, 1), ("B", 9, 10, 2))
    picked = found.pick(ORDER, lambda shape: shape != 9, lambda _: False, view=EVERYTHING, urgent=URGENT)
    assert isinstance(picked, PickedJob) and picked.job_id == 1


def test_urgent_jobs_of_a_lane_that_was_not_read_to_its_end_are_waited_for() -> None:
    found = window(("A", 1, 1, 1))
    lane = found.lane("B", 9, complete=False)
    needed = found.pick(ORDER, lambda _: True, lambda _: False, view=EVERYTHING, urgent=URGENT)
    assert isinstance(needed, NeedsRefill) and needed.lanes == (lane,)
    lane.begin_refill()
    lane.end_refill([], limit=8)
    assert picks(found, 1) == [1]


def test_an_urgent_job_that_another_replica_took_is_not_picked() -> None:
    found = window(("A", 1, 1, 1), ("B", 9, 10, 2), ("B", 9, 5, 3))
    picked = found.pick(ORDER, lambda _: True, lambda job_id: job_id == 2, view=EVERYTHING, urgent=URGENT)
    assert isinstance(picked, PickedJob) and picked.job_id == 3


def test_a_foreign_urgent_job_is_behind_own_ones_by_the_band_only() -> None:
    found = QueueWindow("Q", owns=lambda job_id: job_id != 1)
    for entry in ((-10, 1), (-9, 2), (-1, 3)):
        found.arrive("A", 9, entry)
    assert picks(found, 3, how=Picking(5)) == [2, 1, 3]


def test_urgent_jobs_cost_a_look_at_the_task_queues_that_have_them_and_nothing_once_they_are_gone() -> None:
    found = QueueWindow("Q")
    for key in range(1, 101):
        found.arrive("A", 1, (0, key), order_key_id=key)
    found.arrive("A", 9, (0, 500), order_key_id=50)
    looked_at: list[int] = []

    def is_held(key: int) -> bool:
        looked_at.append(key)
        return False

    view = view_of(KnownOrders(), is_held)
    got = []
    for n_looks, fits in ((1, lambda _: True), (1, lambda shape: shape != 9), (2, lambda _: True), (1, lambda _: True)):
        looked_at.clear()
        picked = found.pick(ORDER, fits, lambda _: False, view=view, urgent=URGENT)
        assert isinstance(picked, PickedJob) and len(looked_at) == n_looks
        got.append(picked.job_id)
    assert got[0] == 500 and all(one <= 100 for one in got[1:])
    found.arrive("A", 9, (0, 501), order_key_id=50)
    again = found.pick(ORDER, lambda _: True, lambda _: False, view=view, urgent=URGENT)
    assert isinstance(again, PickedJob) and again.job_id == 501


@pytest.mark.parametrize(
    ("not_above_due", "wanted"),
    [
        ({"A", "B"}, [3, 5, 4, 1]),  # of B, then of A: its next job, by priority, is 5
        ({"A"}, [5, 1, 3, 4]),  # B uses more than it is due: the order of shares
        (set(), [5, 1, 3, 4]),
    ],
)
def test_by_age_the_share_whose_next_job_is_oldest_is_served_if_it_is_not_above_its_due(
    not_above_due: set[str], wanted: list[int]
) -> None:
    found = window(("A", 1, 1, 1), ("A", 1, 9, 5), ("B", 1, 7, 3), ("B", 2, 1, 4))
    ranks = Ranks(("A", "B"), frozenset(not_above_due))
    got = picks(found, 1, ranks=ranks, how=Picking(by_age=True)) + picks(found, 1, ranks=ranks)
    got += picks(found, 2, ranks=Ranks(("B", "A"))) if got[0] == 3 else picks(found, 2, ranks=ranks)
    assert got == wanted


def test_by_age_shares_without_a_fitting_job_are_passed_over() -> None:
    found = window(("A", 1, 1, 7), ("B", 2, 1, 3))
    assert picks(found, 1, how=Picking(by_age=True), fits=lambda shape: shape == 1) == [7]


@pytest.mark.parametrize(
    ("percent", "drawn", "n_shares", "by_age"),
    [
        (10.0, 0.099, 2, True),
        (10.0, 0.1, 2, False),
        (0.0, 0.0, 2, False),
        (100.0, 0.999, 2, True),
        (100.0, 0.0, 1, False),
    ],
)
def test_a_draw_decides_which_picks_go_by_age(percent: float, drawn: float, n_shares: int, by_age: bool) -> None:
    assert WindowLimits(sloppy_percent=percent, band=7).how(n_shares, lambda: drawn) == Picking(7, by_age)
