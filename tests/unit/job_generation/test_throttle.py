"""The throttle of a share and resource type: its rules in their order, and who goes on nevertheless."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.throttle.parameters import throttle_limits
from services.job_generation.throttle.throttle import (
    ALL_TYPES,
    Gate,
    ThrottleLimits,
    ThrottleScope,
    for_task,
    judge,
    with_priorities,
)
from shared.config.parameters import Parameters

LIMITS = ThrottleLimits(n_queue_limit=1000)
QUEUED: Any = {"running": 100, "activated": 1500}


@pytest.mark.parametrize(
    ("counts", "changed", "rule"),
    [
        ({"activated": 1001, "defined": 1001}, {}, "nothing runs"),
        ({"running": 100, "activated": 1001, "defined": 1001}, {}, "queued to running"),
        ({"running": 5000, "defined": 1001, "waiting": 10**6}, {}, "defined"),
        ({"running": 10, "waiting": 1001}, {"n_running_cap": 5}, "waiting"),
        ({"running": 10, "activated": 20}, {"n_running_cap": 5, "n_queue_cap": 5}, "running cap"),
        ({"running": 10, "activated": 20}, {"n_queue_cap": 5}, "queued cap"),
        ({"running": 10, "activated": 20}, {}, ""),
    ],
)
def test_the_first_rule_that_matches_stops_generation(counts: Any, changed: dict[str, int], rule: str) -> None:
    assert judge(counts, ThrottleLimits(n_queue_limit=1000, **changed)).rule == rule


@pytest.mark.parametrize(
    ("counts", "walltime_s", "passes"),
    [
        (QUEUED, None, False),
        (QUEUED, 5e7 + 1, False),
        (QUEUED, 5e7, True),
        ({"activated": 1500}, 5e7, True),
        ({"defined": 1001, "running": 5000}, 1.0, False),  # only the two rules about queued jobs ask for it
    ],
)
def test_queued_work_that_is_short_in_all_is_not_enough(counts: Any, walltime_s: float | None, passes: bool) -> None:
    assert judge(counts, LIMITS, gate=Gate(queued_walltime_s=walltime_s)).passes is passes


def test_event_service_is_judged_over_all_resource_types_and_without_walltimes() -> None:
    assert ThrottleScope.of_cap("", ThrottleScope("", ALL_TYPES, 7).cap) == ThrottleScope("", ALL_TYPES, 7)
    assert not judge(QUEUED, LIMITS, gate=Gate(queued_walltime_s=1.0, is_whole=True)).passes


def test_two_shares_of_few_large_tasks_get_as_much_as_their_limit_leaves() -> None:
    limits = ThrottleLimits(n_queue_limit=10_000)
    counts: Any = {"running": 9000, "activated": 8900, "defined": 500}
    assert judge(counts, limits).numbers["bunch"] == 600
    tight: Any = {"running": 4600, "activated": 9050}
    assert judge(tight, limits).max_jobs == 250
    assert judge(tight, limits, gate=Gate(grows=True)).max_jobs == 300


def test_more_urgent_tasks_go_on_and_others_do_not() -> None:
    stopped = judge(QUEUED, LIMITS)
    jumped = with_priorities(stopped, LIMITS, 900, 500)
    assert (jumped.passes, jumped.min_priority, jumped.max_jobs) == (True, 900, 250)
    assert "tasks of priority 900 go on, the most urgent that is queued is 500" in jumped.reason
    assert for_task(jumped, 900).passes
    lower = for_task(jumped, 899)
    assert (lower.passes, lower.max_jobs) == (False, 0)


@pytest.mark.parametrize(("waiting", "queued"), [(500, 500), (400, 500), (None, 500), (900, None)])
def test_tasks_that_are_not_more_urgent_wait(waiting: int | None, queued: int | None) -> None:
    assert not with_priorities(judge(QUEUED, LIMITS), LIMITS, waiting, queued).passes


@pytest.mark.parametrize(
    "stopped_by",
    [
        ("waiting", {"running": 10, "waiting": 1001}, ThrottleLimits()),
        ("queued to running", {"running": 10}, ThrottleLimits(n_queue_limit=100)),
        ("nothing runs", {}, ThrottleLimits(n_queue_limit=100)),
        ("queued cap", {"running": 10_000}, ThrottleLimits(n_queue_cap=100)),
    ],
)
def test_as_urgent_tasks_go_on_while_less_than_500_jobs_are_assigned_activated_or_starting(stopped_by: Any) -> None:
    rule, counts, limits = stopped_by
    few = judge({**counts, "assigned": 100, "activated": 200, "starting": 199, "defined": 50}, limits)
    assert few.rule == rule
    passed = with_priorities(few, limits, 500, 500)
    assert (passed.passes, passed.min_priority) == (True, 500)
    many = judge({**counts, "assigned": 100, "activated": 200, "starting": 200}, limits)
    assert many.rule == rule
    assert not with_priorities(many, limits, 500, 500).passes
    assert with_priorities(many, limits, 501, 500).passes


def test_defined_jobs_are_not_among_the_500_that_hold_as_urgent_tasks_back() -> None:
    stopped = judge({"running": 10, "activated": 499, "defined": 2000}, LIMITS)
    assert stopped.rule == "queued to running"
    assert with_priorities(stopped, LIMITS, 500, 500).max_jobs == 250


def test_chunks_on_their_way_share_the_number_of_as_urgent_tasks() -> None:
    for offered, max_jobs in ((0, 250), (200, 50), (250, 0), (900, 0)):
        stopped = judge({"activated": 400, "defined": 700, "offered": offered}, LIMITS)
        assert with_priorities(stopped, LIMITS, 500, 500).max_jobs == max_jobs
        assert with_priorities(stopped, LIMITS, 900, 500).max_jobs == 250


def test_nobody_goes_on_above_the_cap_on_running_jobs() -> None:
    limits = ThrottleLimits(n_running_cap=5)
    assert not with_priorities(judge({"running": 10}, limits), limits, 900, 100).passes


@given(
    st.dictionaries(st.sampled_from(["running", "activated", "defined", "waiting", "offered"]), st.integers(0, 10**5)),
    st.none() | st.integers(0, 10**4),
    st.none() | st.integers(0, 10**4),
    st.none() | st.integers(0, 10**4),
)
def test_a_stop_makes_nothing_and_a_pass_something(
    counts: Any, limit: int | None, cap: int | None, running: int | None
) -> None:
    decision = judge(counts, ThrottleLimits(n_queue_limit=limit, n_queue_cap=cap, n_running_cap=running))
    assert decision.passes is (decision.max_jobs > 0) is (decision.rule == "")


def test_while_work_is_short_its_own_threshold_holds() -> None:
    parameters = Parameters()
    parameters.set_for_test("prod_job_throttler", "THROTTLE_THRESHOLD_FOR_WORK_SHORTAGE", 5.0)
    assert throttle_limits(parameters, "MC", "SCORE", analysis=False).threshold == 2.0
    parameters.set_for_test("core", "WORK_SHORTAGE", True)
    assert throttle_limits(parameters, "MC", "SCORE", analysis=False).threshold == 5.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"NQUEUELIMIT_MC_MCORE_HIMEM": 1, "NQUEUELIMIT_MC_MCORE*": 2, "NQUEUELIMIT_MC": 3, "NQUEUELIMIT": 4}, 1),
        ({"NQUEUELIMIT_MC_MCORE*": 2, "NQUEUELIMIT_MC": 3, "NQUEUELIMIT": 4}, 2),
        ({"NQUEUELIMIT_MC_SCORE*": 2, "NQUEUELIMIT_MC": 3, "NQUEUELIMIT": 4}, 3),
        ({"NQUEUELIMIT_Data": 3, "NQUEUELIMIT": 4}, 4),
        ({}, None),
    ],
)
def test_each_limit_is_that_of_its_most_specific_key(given: dict[str, int], expected: int | None) -> None:
    parameters = Parameters()
    for key, value in {**given, "NRUNNINGCAP": 7}.items():
        parameters.set_for_test("prod_job_throttler", key, value)
    limits = throttle_limits(parameters, "MC", "MCORE_HIMEM", analysis=False)
    assert (limits.n_queue_limit, limits.n_running_cap, limits.n_queue_cap) == (expected, 7, None)
