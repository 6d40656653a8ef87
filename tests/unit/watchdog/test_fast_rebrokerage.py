"""Fast rebrokerage, bullet by bullet (PanDA brokerage: Timeout Rules), each threshold on both sides."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.watchdog.parameters import WatchLimits
from services.watchdog.policy.rebrokerage import (
    FAST_REBROKERAGE,
    WAITING,
    Overload,
    ShareAtQueue,
    Thresholds,
    overloads,
    within,
)
from shared.config.parameters import Parameters
from shared.states import JOB, Owner

DEFAULT = Thresholds(n_queued={"MC": 50})
#: what else waits in the share, at queues where all of it runs
ELSEWHERE = ShareAtQueue("Q_ELSEWHERE", "MC", 100, 1000)


def at_q1(n_queued: int, n_running: int, gshare: str = "MC", *, exempt: bool = False) -> ShareAtQueue:
    return ShareAtQueue("Q1", gshare, n_queued, n_running, exempt)


def excess(*counts: ShareAtQueue, thresholds: Thresholds = DEFAULT) -> dict[tuple[str, str], int]:
    """How many jobs go from which queue and share."""
    return {(one.queue, one.gshare): one.n_excess for one in overloads(counts, thresholds)}


def test_fast_rebrokerage_for_defined_assigned_activated_or_starting_jobs() -> None:
    assert WAITING == ("defined", "assigned", "activated", "starting")
    assert set(WAITING) <= set(JOB.sources("closed", Owner.WATCHDOG))
    (found,) = overloads([at_q1(200, 10), ELSEWHERE], DEFAULT)
    assert (found.verdict.to_status, found.verdict.error_code) == ("closed", FAST_REBROKERAGE) == ("closed", 130)


@pytest.mark.parametrize(("n_queued", "n_excess"), [(299, 0), (300, 0), (301, 1), (310, 10)])
def test_n_queue_to_n_run_of_the_share_at_the_queue_above_nqnr_ratio(n_queued: int, n_excess: int) -> None:
    assert excess(at_q1(n_queued, 100)).get(("Q1", "MC"), 0) == n_excess


@pytest.mark.parametrize(("ratio", "n_excess"), [(4.0, 0), (3.0, 0), (2.9, 10), (1.0, 200)])
def test_the_ratio_is_a_parameter(ratio: float, n_excess: int) -> None:
    assert excess(at_q1(300, 100), thresholds=Thresholds(ratio, n_queued={"MC": 50})).get(("Q1", "MC"), 0) == n_excess


def test_where_nothing_of_the_share_runs_the_first_waiting_job_passes_the_ratio() -> None:
    assert excess(at_q1(51, 0), thresholds=Thresholds(ratio=1e9, n_queued={"MC": 50})) == {("Q1", "MC"): 1}


@pytest.mark.parametrize(("n_elsewhere", "n_excess"), [(140, 0), (139, 1), (100, 12), (0, 42)])
def test_n_queue_at_the_queue_to_n_queue_total_of_the_share_above_nqueue_frac(n_elsewhere: int, n_excess: int) -> None:
    counts = at_q1(60, 0), ShareAtQueue("Q2", "MC", n_elsewhere, 1000)
    assert excess(*counts, thresholds=Thresholds(n_queued={"MC": 1})).get(("Q1", "MC"), 0) == n_excess


def test_the_fraction_is_a_parameter() -> None:
    half = Thresholds(fraction=0.5, n_queued={"MC": 1})
    assert excess(at_q1(100, 0), ELSEWHERE, thresholds=half) == {}
    assert excess(at_q1(101, 0), ELSEWHERE, thresholds=half) == {("Q1", "MC"): 1}


def test_what_waits_of_another_share_is_not_in_the_total() -> None:
    other = ShareAtQueue("Q2", "Express", 10_000, 10_000)
    assert excess(at_q1(100, 0), other) == {("Q1", "MC"): 50}


@pytest.mark.parametrize(("n_queued", "n_excess"), [(49, 0), (50, 0), (51, 1), (60, 10)])
def test_n_queue_of_the_share_at_the_queue_above_nqueue_of_the_share(n_queued: int, n_excess: int) -> None:
    assert excess(at_q1(n_queued, 1)).get(("Q1", "MC"), 0) == n_excess


def test_unless_the_share_defines_the_parameter_it_does_not_trigger() -> None:
    counts = at_q1(10_000, 0), at_q1(10_000, 0, "Express")
    assert set(excess(*counts)) == {("Q1", "MC")}
    assert excess(*counts, thresholds=Thresholds()) == {}


def test_the_thresholds_are_runtime_parameters_of_component_rebroker() -> None:
    parameters = Parameters()
    assert WatchLimits(parameters).rebrokerage(["MC", "Express"]) == Thresholds(3.0, 0.3, {})
    for key, value in (("NQNR_RATIO", 5), ("NQUEUE_FRAC", 0.5), ("NQUEUE_MC", 70.0), ("NQUEUE_Gone", 1.0)):
        parameters.set_for_test("rebroker", f"FAST_REBRO_THRESHOLD_{key}", value, app="pandaserver")
    assert WatchLimits(parameters).rebrokerage(["MC", "Express"]) == Thresholds(5.0, 0.5, {"MC": 70.0})


def test_all_timeout_rules_are_off_for_a_paused_queue_or_one_that_disables_reassignment() -> None:
    assert excess(at_q1(10_000, 0, exempt=True)) == {}


def test_what_waits_at_an_exempt_queue_is_part_of_the_total() -> None:
    paused = ShareAtQueue("Q2", "MC", 140, 0, exempt=True)
    assert excess(at_q1(60, 0), paused, thresholds=Thresholds(n_queued={"MC": 1})) == {}


def test_the_reason_says_the_three_numbers_and_their_thresholds() -> None:
    (found,) = overloads([at_q1(200, 10), ELSEWHERE], DEFAULT)
    assert found.reason == (
        "fast rebrokerage: 200 jobs of share MC waited at Q1, more than 3 x 10 running there, 0.3 x 300 waiting in the "
        "whole share, and the 50 that its queues may have"
    )


def test_a_run_ends_no_more_jobs_than_it_may_and_begins_where_most_are_too_many() -> None:
    found = overloads([ShareAtQueue("Q1", "MC", 80, 0), ShareAtQueue("Q2", "MC", 120, 0)], DEFAULT)
    assert [(one.queue, one.n_excess) for one in found] == [("Q2", 60), ("Q1", 20)]
    assert [(one.queue, n_jobs) for one, n_jobs in within(found, 70)] == [("Q2", 60), ("Q1", 10)]
    assert [(one.queue, n_jobs) for one, n_jobs in within(found, 60)] == [("Q2", 60)]


COUNTS = st.lists(
    st.builds(
        ShareAtQueue,
        st.sampled_from(["Q1", "Q2", "Q3"]),
        st.sampled_from(["MC", "Express", "User"]),
        st.integers(0, 3000),
        st.integers(0, 1000),
        st.booleans(),
    ),
    max_size=9,
    unique_by=lambda one: (one.queue, one.gshare),
)
THRESHOLDS = st.builds(
    Thresholds,
    st.floats(0, 20),
    st.floats(0, 1),
    st.dictionaries(st.sampled_from(["MC", "Express"]), st.floats(0.5, 2000), max_size=2),
)


def passes_all(n_queued: int, one: ShareAtQueue, n_total: int, thresholds: Thresholds) -> bool:
    """The rule as it is written."""
    limit = thresholds.n_queued.get(one.gshare)
    above_ratio = n_queued > 0 if one.n_running == 0 else n_queued > thresholds.ratio * one.n_running
    return limit is not None and above_ratio and n_queued > thresholds.fraction * n_total and n_queued > limit


@given(counts=COUNTS, thresholds=THRESHOLDS)
def test_jobs_go_only_where_every_threshold_is_passed_and_never_one_more_than_needed(
    counts: list[ShareAtQueue], thresholds: Thresholds
) -> None:
    found: dict[tuple[str, str], Overload] = {(one.queue, one.gshare): one for one in overloads(counts, thresholds)}
    for one in counts:
        total = sum(other.n_queued for other in counts if other.gshare == one.gshare)
        overload = found.get((one.queue, one.gshare))
        assert (overload is not None) == (not one.exempt and passes_all(one.n_queued, one, total, thresholds))
        if overload is not None:
            assert 0 < overload.n_excess <= one.n_queued
            left = one.n_queued - overload.n_excess
            assert not passes_all(left, one, total, thresholds)
            assert passes_all(left + 1, one, total, thresholds)


#: whose products with counts have no rounding
EXACT = st.builds(
    Thresholds,
    st.sampled_from([0.5, 2.0, 3.0]),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    st.dictionaries(st.sampled_from(["MC", "Express"]), st.integers(1, 2000).map(float), max_size=2),
)


@given(counts=COUNTS, thresholds=EXACT)
def test_the_number_is_the_least_of_the_three_excesses_rounded_up(
    counts: list[ShareAtQueue], thresholds: Thresholds
) -> None:
    by_place = {(one.queue, one.gshare): one for one in counts}
    for found in overloads(counts, thresholds):
        one = by_place[found.queue, found.gshare]
        total = sum(other.n_queued for other in counts if other.gshare == one.gshare)
        least = min(
            one.n_queued - one.n_running * thresholds.ratio,
            one.n_queued - thresholds.n_queued[one.gshare],
            one.n_queued - total * thresholds.fraction,
        )
        assert found.n_excess == math.ceil(least)


@given(counts=COUNTS, thresholds=THRESHOLDS, most=st.integers(0, 5000))
def test_what_is_allotted_never_exceeds_what_is_too_many_or_what_a_run_may_end(
    counts: list[ShareAtQueue], thresholds: Thresholds, most: int
) -> None:
    found = overloads(counts, thresholds)
    allotted = within(found, most)
    assert sum(n_jobs for _, n_jobs in allotted) == min(most, sum(one.n_excess for one in found))
    assert all(0 < n_jobs <= one.n_excess for one, n_jobs in allotted)
