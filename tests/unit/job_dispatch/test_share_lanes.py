"""The pick from heaps against a model that looks at every job."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from services.job_dispatch.policy.queue_window import QueueWindow
from services.job_dispatch.policy.reading import Picking
from services.job_dispatch.policy.share_lanes import MOST_KINDS, NeedsRefill, PickedJob
from shared.order.ranking import Ranks
from tests.unit.job_dispatch.views import EVERYTHING

SHARES, SHAPES, RANKS = ("A", "B", "C"), range(1, 6), (Ranks(("A", "B", "C")), Ranks(("C", "A", "B")))


def every_shape(_: int) -> bool:
    return True


def odd_shapes(shape_id: int) -> bool:
    return shape_id % 2 == 1


def small_shapes(shape_id: int) -> bool:
    return shape_id <= 2


def is_own(job_id: int) -> bool:
    return job_id % 3 == 0


Jobs = dict[int, tuple[str, int, int]]


def expected(jobs: Jobs, ranks: Ranks, fits, taken: set[int], band: int, *, shared: bool) -> int | None:
    """Of all jobs: the first share with a fitting one, then priority (foreign ones handicapped), then id."""
    offered = [
        (ranks.key(gshare), -priority + (band if shared and not is_own(job_id) else 0), job_id)
        for job_id, (gshare, shape_id, priority) in jobs.items()
        if fits(shape_id) and job_id not in taken
    ]
    return min(offered)[2] if offered else None


@given(seed=st.integers(0, 2**32), shared=st.booleans())
def test_a_pick_is_the_best_of_all_jobs_whatever_happened_before(seed: int, shared: bool) -> None:
    rng = random.Random(seed)
    window = QueueWindow("Q", owns=is_own if shared else None)
    jobs: Jobs = {}
    taken: set[int] = set()
    for number in range(1, rng.randint(20, 150)):
        step = rng.random()
        if step < 0.5:
            gshare, shape_id, priority = rng.choice(SHARES), rng.choice(SHAPES), rng.randrange(0, 100, 10)
            jobs[number] = gshare, shape_id, priority
            window.arrive(gshare, shape_id, (-priority, number))
        elif step < 0.6 and jobs:
            taken.add(rng.choice(list(jobs)))
        elif step < 0.65:
            for lane in window.lanes():
                lane.reclassify(window.owns)
        else:
            ranks, fits = rng.choice(RANKS), rng.choice((every_shape, odd_shapes, small_shapes))
            band = rng.choice((0, 30))
            found = window.pick(ranks, fits, taken.__contains__, Picking(band), view=EVERYTHING)
            assert not isinstance(found, NeedsRefill)
            wanted = expected(jobs, ranks, fits, taken, band, shared=shared)
            assert (found and found.job_id) == wanted
            if wanted is not None:
                del jobs[wanted]
    left = []
    while isinstance(found := window.pick(RANKS[0], every_shape, taken.__contains__, view=EVERYTHING), PickedJob):
        left.append(found.job_id)
    assert sorted(left) == sorted(set(jobs) - taken)


def test_an_empty_lane_that_was_not_read_to_its_end_is_waited_for_by_whom_it_fits() -> None:
    window = QueueWindow("Q")
    window.arrive("A", 2, (-5, 1))
    lane = window.lane("A", 1, complete=False)
    lane.begin_refill()
    lane.end_refill([(-90, 7)], limit=1)
    first = window.pick(RANKS[0], odd_shapes, lambda _: False, view=EVERYTHING)
    assert isinstance(first, PickedJob) and first.job_id == 7
    assert window.pick(RANKS[0], odd_shapes, lambda _: False, view=EVERYTHING) == NeedsRefill((lane,))
    other = window.pick(RANKS[0], lambda shape_id: shape_id == 2, lambda _: False, view=EVERYTHING)
    assert isinstance(other, PickedJob) and other.job_id == 1
    lane.begin_refill()
    lane.end_refill([], limit=1)
    assert window.pick(RANKS[0], odd_shapes, lambda _: False, view=EVERYTHING) is None and lane not in window.lanes()


def test_more_kinds_of_pilots_than_are_kept_get_the_same_jobs() -> None:
    window = QueueWindow("Q")
    n_kinds = 2 * MOST_KINDS
    for job_id in range(1, n_kinds + 1):
        window.arrive("A", job_id % 5 + 1, (-(job_id % 10), job_id))
    kinds = [lambda shape_id, most=1 + number % 5: shape_id <= most for number in range(n_kinds)]
    jobs = {job_id: ("A", job_id % 5 + 1, job_id % 10) for job_id in range(1, n_kinds + 1)}
    for fits in kinds:
        found = window.pick(RANKS[0], fits, lambda _: False, view=EVERYTHING)
        wanted = expected(jobs, RANKS[0], fits, set(), 0, shared=False)
        assert (found.job_id if isinstance(found, PickedJob) else None) == wanted
        jobs.pop(wanted or 0, None)
