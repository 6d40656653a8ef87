"""Lanes, queue windows, ranks and what fits: pure."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_dispatch.acquire.upkeep import residue
from services.job_dispatch.policy.fitting import PilotKind, Shape, misfit
from services.job_dispatch.policy.lane import Lane
from services.job_dispatch.policy.queue_window import QueueWindow
from services.job_dispatch.policy.share_lanes import NeedsRefill, PickedJob
from shared.order.ranking import Ranks
from tests.unit.job_dispatch.views import EVERYTHING


def nobody(_: int) -> bool:
    return False


def anything(_: int) -> bool:
    return True


def drain(lane: Lane, band: int = 0) -> list[int]:
    ids = []
    while (head := lane.head(band, nobody)) is not None:
        ids.append(lane.pop(head[2])[1])
    return ids


def test_a_lane_serves_by_priority_then_id() -> None:
    lane = Lane("MC", 1, complete=True)
    for entry in ((-5, 9), (-9, 3), (-5, 2), (-9, 1)):
        lane.push(entry)
    assert drain(lane) == [1, 3, 2, 9]


def test_an_arrival_behind_the_cursor_is_left_to_the_next_read() -> None:
    lane = Lane("MC", 1)
    lane.begin_refill()
    lane.end_refill([(-9, 1), (-5, 2)], limit=2)
    assert not lane.complete
    lane.arrive((-7, 10))  # before the cursor: no read will find it
    lane.arrive((-5, 3))  # behind it: the next read will
    assert drain(lane) == [1, 10, 2]


def test_arrivals_during_a_read_find_their_side_of_the_new_cursor() -> None:
    lane = Lane("MC", 1)
    lane.begin_refill()
    lane.arrive((-9, 7))
    lane.arrive((-1, 8))
    assert lane.head(0, nobody) is None
    lane.end_refill([(-9, 1), (-5, 2)], limit=2)
    assert drain(lane) == [1, 7, 2]


def test_what_was_read_and_announced_is_there_once() -> None:
    lane = Lane("MC", 1)
    lane.begin_refill()
    lane.arrive((-9, 1))
    lane.end_refill([(-9, 1)], limit=256)
    lane.arrive((-9, 1))
    assert lane.complete and drain(lane) == [1]


@given(
    st.lists(st.tuples(st.integers(-5, 0), st.integers(1, 60)), unique_by=lambda entry: entry[1], max_size=60),
    st.integers(1, 8),
    st.integers(0, 2**32),
)
def test_reads_and_arrivals_in_any_interleaving_lose_nothing(
    entries: list[tuple[int, int]], size: int, seed: int
) -> None:
    """The database gains entries while the lane reads; news of each comes later, at any time; every job is served."""
    lane, stored, news, served, rng = Lane("MC", 1), set(), [], [], random.Random(seed)
    todo = list(entries)
    rng.shuffle(todo)
    reading: list[tuple[int, int]] | None = None
    while todo or news or reading is not None or not lane.complete:
        step = rng.choice(("store", "news", "read", "serve", "shorten"))
        if step == "store" and todo:
            entry = todo.pop()
            stored.add(entry)
            news.append(entry)
        elif step == "news" and news:
            lane.arrive(news.pop(rng.randrange(len(news))))
        elif step == "read" and reading is not None:
            lane.end_refill(reading, size)
            reading = None
        elif step == "read" and not lane.complete:
            cursor = lane.begin_refill()
            taken = {job_id for _, job_id in stored if job_id in served}
            reading = sorted(e for e in stored if (cursor is None or e > cursor) and e[1] not in taken)[:size]
        elif step == "shorten" and reading is None:
            lane.shorten(rng.randint(1, 4))
        elif step == "serve" and (head := lane.head(0, lambda one: one in served)) is not None:
            served.append(lane.pop(head[2])[1])
    served += [one for one in drain(lane) if one not in served]
    assert sorted(served) == sorted(job_id for _, job_id in entries)


def test_own_ids_come_first_within_the_band_and_only_within_it() -> None:
    def lane() -> Lane:
        found = Lane("MC", 1, complete=True, owns=lambda job_id: job_id % 2 == 0)
        for entry in ((-100, 1), (-100, 2), (-60, 4), (-200, 3)):
            found.push(entry)
        return found

    assert drain(lane(), band=0) == [3, 1, 2, 4]
    assert drain(lane(), band=50) == [3, 2, 4, 1]
    alone = lane()
    alone.reclassify(None)
    assert drain(alone, band=50) == [3, 1, 2, 4]


def test_every_id_is_owned_by_exactly_one_replica() -> None:
    replicas = ["a", "b", "c"]
    owners = [residue(replicas, one) for one in replicas]
    for job_id in range(1, 2000):
        assert sum(bool(owns and owns(job_id)) for owns in owners) == 1
    assert residue(["a"], "a") is None and residue(replicas, "gone") is None


def window() -> QueueWindow:
    found = QueueWindow("Q")
    for gshare, shape_id, priority, job_id in (("A", 1, 10, 1), ("A", 2, 90, 2), ("B", 1, 500, 3), ("A", 2, 90, 4)):
        found.arrive(gshare, shape_id, (-priority, job_id))
    return found


def picks(found: QueueWindow, ranks: Ranks, fits: object = anything) -> list[int]:
    ids = []
    while isinstance(picked := found.pick(ranks, fits, nobody, view=EVERYTHING), PickedJob):  # type: ignore[arg-type]
        ids.append(picked.job_id)
    return ids


def test_the_first_share_in_rank_order_is_served_to_its_end() -> None:
    assert picks(window(), Ranks(("A", "B"))) == [2, 4, 1, 3]
    assert picks(window(), Ranks(("B", "A"))) == [3, 2, 4, 1]


def test_a_job_picked_in_vain_behind_a_shortened_window_waits_for_the_read_that_brings_those_before_it() -> None:
    found = QueueWindow("Q")
    lane = found.lane("MC", 1, complete=True)
    for number in range(1, 7):
        found.arrive("MC", 1, (-10, number))
    taken = {1, 2, 3, 4}
    last = found.pick(Ranks(("MC",)), anything, taken.__contains__, view=EVERYTHING)
    assert isinstance(last, PickedJob) and last.job_id == 5
    for number in (1, 2, 3, 4):  # their claims came to nothing, too
        found.put_back(lane.key, (-10, number))
    lane.shorten(2)
    found.put_back(last.lane.key, last.entry)
    assert drain(lane) == [1, 2] and not lane.complete
    lane.begin_refill()
    lane.end_refill([(-10, 3), (-10, 4), (-10, 5), (-10, 6)], limit=256)
    assert drain(lane) == [3, 4, 5, 6]


def test_the_last_job_that_was_read_is_put_back_for_no_later_read_finds_it() -> None:
    found = QueueWindow("Q")
    lane = found.lane("MC", 1, complete=False)
    lane.begin_refill()
    lane.end_refill([(-9, 1), (-5, 2)], limit=2)
    assert drain(lane) == [1, 2]
    found.put_back(lane.key, (-5, 2))
    assert drain(lane) == [2]


def test_shares_without_a_rank_come_last_by_name() -> None:
    assert picks(window(), Ranks(("B",))) == [3, 2, 4, 1]
    assert picks(window(), Ranks()) == [2, 4, 1, 3]


def test_lanes_that_do_not_fit_are_passed_over() -> None:
    assert picks(window(), Ranks(("A", "B")), lambda shape_id: shape_id == 1) == [1, 3]


def test_the_order_waits_for_a_lane_that_is_not_in_memory() -> None:
    found = window()
    unread = found.lane("A", 3, complete=False)
    needed = found.pick(Ranks(("A", "B")), anything, nobody, view=EVERYTHING)
    assert isinstance(needed, NeedsRefill) and needed.lanes == (unread,)
    unread.begin_refill()
    unread.end_refill([(-99, 50)], limit=8)
    assert picks(found, Ranks(("A", "B")))[0] == 50


def test_swapped_ranks_take_effect_at_the_next_pick() -> None:
    found = window()
    first = found.pick(Ranks(("A", "B")), anything, nobody, view=EVERYTHING)
    second = found.pick(Ranks(("B", "A")), anything, nobody, view=EVERYTHING)
    assert isinstance(first, PickedJob) and isinstance(second, PickedJob)
    assert (first.job_id, second.job_id) == (2, 3)


SHAPE = Shape(1, "managed", "MCORE", 8, 16_000, 40_000, 36_000)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (PilotKind(), None),
        (PilotKind("unified", "MCORE", 16_000, 40_000, 36_000), None),
        (PilotKind("managed"), None),
        (PilotKind("user"), "label managed, the pilot takes user"),
        (PilotKind(resource_type="SCORE"), "resource type MCORE, the pilot takes SCORE"),
        (PilotKind(memory_mb=15_999), "memory 16000 MB, the pilot has 15999 MB"),
        (PilotKind(disk_mb=1), "disk 40000 MB, the pilot has 1 MB"),
        (PilotKind(remaining_s=600), "walltime 36000 s, the pilot has 600 s left"),
    ],
)
def test_a_shape_fits_or_says_why_not(kind: PilotKind, reason: str | None) -> None:
    found = misfit(SHAPE, kind)
    assert (found and found.reason) == reason
