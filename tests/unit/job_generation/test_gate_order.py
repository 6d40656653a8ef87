"""Who goes first at a gate: super-high priority within its part of a cycle, priority, and groups in turn."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.parameters import typical_files
from services.job_generation.policy.picking import next_pick
from services.job_generation.policy.values import Dataset
from services.job_generation.throttle.fair_share import ShareUse, fair_factor
from services.job_generation.throttle.gate_order import (
    Cycle,
    CycleRule,
    PlaceAtGate,
    WaitingTask,
    ahead_of,
    in_turn,
    places_before,
    served,
)
from services.job_generation.throttle.parameters import cycle_rule
from services.job_generation.throttle.throttle import ThrottleLimits, held_behind, judge, scaled, with_priorities
from shared.config.parameters import Parameters
from shared.task.in_effect import SplitRules
from tests.unit.job_generation.made import a_task as task

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def waiting(*asked: tuple[int, str]) -> list[WaitingTask]:
    """Tasks of these priorities and groups; earlier ones wait longer."""
    return [
        WaitingTask(number, priority, group, BEGIN + timedelta(seconds=number))
        for number, (priority, group) in enumerate(asked)
    ]


def shown(tasks: list[WaitingTask]) -> list[tuple[int, str]]:
    return [(one.priority, one.group) for one in tasks]


def test_tasks_go_in_order_of_priority_and_the_older_before_the_younger() -> None:
    order = in_turn(waiting((500, "a"), (900, "a"), (500, "a")), Cycle(), CycleRule())
    assert [one.task_id for one in order] == [1, 0, 2]


def test_groups_of_equal_priority_take_turns() -> None:
    order = in_turn(waiting((500, "alice"), (500, "alice"), (500, "alice"), (500, "bob")), Cycle(), CycleRule())
    assert [one.task_id for one in order] == [0, 3, 1, 2]


def test_a_group_that_was_served_in_the_cycle_comes_after_one_that_was_not() -> None:
    order = in_turn(waiting((500, "alice"), (500, "bob")), Cycle(1, 0, {"alice": 1}), CycleRule())
    assert [one.group for one in order] == ["bob", "alice"]


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        (30.0, [1600, 1500, 900, 800, 1500]),
        (0.0, [900, 800, 1600, 1500, 1500]),
        (100.0, [1600, 1500, 1500, 900, 800]),
    ],
)
def test_super_high_priority_takes_its_part_of_a_cycle_and_what_others_leave(
    percent: float, expected: list[int]
) -> None:
    asked = waiting((900, "a"), (1500, "b"), (1600, "b"), (800, "c"), (1500, "d"))
    rule = CycleRule(n_tasks=4, super_high_percent=percent)
    assert [one.priority for one in in_turn(asked, Cycle(), rule)] == expected


def test_a_cycle_begins_again_after_its_last_task() -> None:
    rule, cycle = CycleRule(n_tasks=3), Cycle()
    for number in range(3):
        cycle = served(cycle, waiting((1500, "a"))[0], rule)
        assert cycle.n_tasks == (number + 1) % 3
    assert cycle == Cycle()


TASKS = st.lists(
    st.tuples(st.sampled_from([100, 500, 900, 1500, 1600]), st.sampled_from(["alice", "bob", "carol"])), max_size=12
)


@given(TASKS, st.integers(1, 8), st.sampled_from([0.0, 30.0, 50.0, 100.0]))
def test_a_whole_cycle_gives_super_high_priority_no_more_than_its_part_while_others_wait(
    asked: list[tuple[int, str]], n_tasks: int, percent: float
) -> None:
    rule, cycle, left = CycleRule(n_tasks=n_tasks, super_high_percent=percent), Cycle(), waiting(*asked)
    jumped = 0
    while left:
        first = in_turn(left, cycle, rule)[0]
        assert ahead_of(first, left, cycle, rule) == []
        same_class = [one for one in left if one.is_super_high == first.is_super_high]
        assert first.priority == max(one.priority for one in same_class)
        others_wait = any(not one.is_super_high for one in left)
        jumped += first.is_super_high and others_wait
        left.remove(first)
        cycle = served(cycle, first, rule)
        if cycle == Cycle():
            assert jumped <= rule.n_super_high
            jumped = 0


@given(st.lists(st.sampled_from(["alice", "bob", "carol"]), max_size=15))
def test_no_group_of_equal_priority_is_served_twice_more_than_one_that_waits(groups: list[str]) -> None:
    rule, cycle, left = CycleRule(n_tasks=100), Cycle(), waiting(*((500, one) for one in groups))
    done = Counter[str]()
    while left:
        first = in_turn(left, cycle, rule)[0]
        assert done[first.group] == min(done[one.group] for one in left)
        done[first.group] += 1
        left.remove(first)
        cycle = served(cycle, first, rule)


def test_parameters_of_the_cycle_are_those_of_the_share() -> None:
    parameters = Parameters()
    assert cycle_rule(parameters, "MC") == CycleRule(50, 30.0, "userName")
    parameters.set_for_test("jobgen", "NTASKS_MC", 7)
    parameters.set_for_test("jobgen", "GROUPBYATTR_MC", "workingGroup")
    parameters.set_for_test("dbproxy", "SUPER_HIGH_PRIO_TASK_RATIO", 50.0)
    assert cycle_rule(parameters, "MC") == CycleRule(7, 50.0, "workingGroup")
    assert cycle_rule(parameters, "Data") == CycleRule(50, 50.0, "userName")


def test_typical_files_of_a_label_and_type_bound_a_chunk_whose_jobs_take_an_unknown_number() -> None:
    parameters = Parameters()
    parameters.set_for_test("jobgen", "TYPNFILES_managed__reco", 3)
    asked = task(prod_source_label="managed", processing_type="reco")
    assert typical_files(parameters, asked) == 3
    assert typical_files(parameters, task(prod_source_label="managed", processing_type="simul")) is None
    master = Dataset(1, "mc.in", "input", "ready", "IN", None, n_files=100, n_files_to_be_used=100)
    facts = {"scouts": False, "max_files": 50, "max_jobs": 10, "busy": frozenset[tuple[int, int | None]]()}
    for rules, typical, expected in (
        (SplitRules(), 3, 30),
        (SplitRules(), None, 50),
        (SplitRules(n_files_per_job=2), 3, 20),
    ):
        pick = next_pick([master], rules, typical_files=typical, **facts)
        assert pick is not None and pick.n_files == expected


SHARES = [ShareUse("A", 60, running=90, queued=5), ShareUse("B", 40, running=10, queued=5)]


@pytest.mark.parametrize(
    ("gshare", "shares", "factor"),
    [
        ("A", SHARES, 0.6 / 0.9),
        ("B", SHARES, 1.0),
        ("A", [SHARES[0], ShareUse("B", 40)], 1.0),
        ("A", [ShareUse("A", 1, running=999), ShareUse("B", 99, running=1)], 0.1),
        ("A", [ShareUse("A", 60), ShareUse("B", 40, running=10)], 1.0),
        ("unknown", SHARES, 1.0),
        # half of the top, of which A1 wants a quarter and runs all
        (
            "A1",
            [
                ShareUse("A", 50), ShareUse("A1", 25, "A", running=50), ShareUse("A2", 75, "A", queued=1),
                ShareUse("B", 50, running=50),
            ],
            0.25,
        ),
        ("A", [ShareUse("A", 60, vo="x", running=90), ShareUse("B", 40, vo="y", running=10)], 1.0),
    ],
)  # fmt: skip
def test_a_share_that_runs_more_than_its_part_of_what_is_active_makes_fewer_jobs_at_a_time(
    gshare: str, shares: list[ShareUse], factor: float
) -> None:
    assert fair_factor(gshare, shares) == pytest.approx(factor)


def test_the_worked_example_of_fairshare_gives_166_of_250_jobs() -> None:
    decision = judge({"running": 90}, ThrottleLimits(n_queue_limit=1))
    assert decision.max_jobs == 250
    assert scaled(decision, fair_factor("A", SHARES)).max_jobs == 166
    assert scaled(decision, fair_factor("B", SHARES)) == decision


def test_a_stopped_share_stays_stopped_whatever_it_deserves() -> None:
    stopped = judge({"activated": 10}, ThrottleLimits(n_queue_limit=1))
    assert not scaled(stopped, 0.5).passes and not held_behind(stopped, waiting((900, "a"))).passes


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"activated": 89}, True),
        ({"activated": 90}, False),
        ({"activated": 90, "offered": 5, "running": 96}, True),
        ({"activated": 80, "offered": 15}, False),
    ],
)
def test_there_is_room_for_all_below_nine_tenths_of_the_limit_or_of_what_runs(
    counts: dict[str, int], expected: bool
) -> None:
    assert judge(counts, ThrottleLimits(n_queue_limit=100)).has_room_for_all is expected  # type: ignore[arg-type]


def test_what_goes_on_for_its_priority_alone_has_no_room_for_all() -> None:
    limits = ThrottleLimits(n_queue_limit=100)
    decision = with_priorities(judge({"activated": 200}, limits), limits, 900, 500)
    assert decision.passes and not decision.has_room_for_all
    held = held_behind(decision, waiting((950, "a"), (900, "b")))
    assert (held.passes, held.max_jobs, held.rule, held.numbers["tasks_ahead"]) == (False, 0, "turn", 2)
    assert held.reason == "2 tasks are served before, the first is 0 of priority 950"


@given(TASKS, st.integers(1, 8), st.sampled_from([0.0, 30.0, 50.0, 100.0]), st.data())
def test_those_who_are_asked_for_before_a_task_decide_whether_it_waits(
    asked: list[tuple[int, str]], n_tasks: int, percent: float, data: st.DataObject
) -> None:
    """The tasks at the places that are asked for, found one by one as the database finds them, against all of them."""
    rule, cycle, tasks = CycleRule(n_tasks=n_tasks, super_high_percent=percent), Cycle(), waiting(*asked)
    for one in data.draw(st.lists(st.sampled_from(tasks), max_size=3)) if tasks else ():
        cycle = served(cycle, one, rule)
    for mine in tasks:
        found = [
            one
            for place in places_before(mine, cycle, rule)
            for one in sorted(
                (one for one in tasks if one.task_id != mine.task_id and _is_at(one, mine, place)),
                key=lambda one: -one.priority,
            )[: place.at_most]
        ]
        assert bool(ahead_of(mine, found, cycle, rule)) is bool(ahead_of(mine, tasks, cycle, rule))


def _is_at(one: WaitingTask, mine: WaitingTask, place: PlaceAtGate) -> bool:
    own = place.by_group.get(one.group, 0)
    goes_before = (own, one.since, one.task_id) < (place.served, mine.since, mine.task_id)
    return place.at_least <= one.priority < place.below and (one.priority > place.priority or goes_before)
