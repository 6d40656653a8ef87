"""Which task queues fit a pilot, the draw by weight, criteria and limits of sites."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.order.criteria import InvalidCriteria, of_value, parse_criteria
from shared.order.draw import WeightedDraw
from shared.order.identity import TaskQueueIdentity
from shared.order.matching import TaskQueueOffer, offered_tags, required_beyond_offered, unmatched
from shared.order.site_limits import InvalidLimits, n_meant, room, rules_of

QUEUE = TaskQueueIdentity(
    "example", "ann", "physics", 3600, ("A", "B"), ("C",), ("x86_64",), ("GPU",), ("evgen", "simul")
)
OFFER = TaskQueueOffer(frozenset({"A", "QUEUE_A"}), 3600, "x86_64", "evgen", frozenset({"GPU", "2GB"}))


@pytest.mark.parametrize(
    ("changes", "condition"),
    [
        ({}, None),
        ({"user_name": "ann", "user_group": "physics"}, None),
        ({"user_name": "bob", "user_group": "physics"}, "owner"),
        ({"user_name": "ann", "user_group": "other"}, "owner"),
        ({"vo": "other"}, "owner"),
        ({"cpu_time_s": 3599}, "cpu_time"),
        ({"cpu_time_s": None}, None),
        ({"sites": frozenset({"D"})}, "site"),
        ({"sites": frozenset({"A", "C"})}, "banned_site"),
        ({"platform": "arm64"}, "platform"),
        ({"platform": "Any"}, None),
        ({"platform": None}, None),
        ({"job_type": "Test"}, "job_type"),
        ({"job_type": "any"}, None),
        ({"tags": frozenset()}, "tags"),
        ({"tags": frozenset({"gpu"})}, "tags"),
        ({"required_tags": frozenset({"GPU"})}, None),
        ({"required_tags": frozenset({"GPU", "2GB"})}, "required_tags"),
        ({"banned": frozenset({("user_group", "physics")})}, "banned"),
        ({"banned": frozenset({("job_types", "simul")})}, "banned"),
        ({"banned": frozenset({("job_types", "reco"), ("user_name", "bob")})}, None),
    ],
)
def test_a_task_queue_fits_an_offer_only_if_every_condition_holds(
    changes: dict[str, object], condition: str | None
) -> None:
    found = unmatched(QUEUE, replace(OFFER, **changes))  # type: ignore[arg-type]
    assert (found.condition if found else None) == condition


def test_a_pilot_of_a_sharing_group_takes_jobs_of_all_its_users() -> None:
    of_bob = replace(OFFER, user_name="bob", user_group="physics")
    assert unmatched(QUEUE, of_bob, job_sharing=True) is None
    assert unmatched(QUEUE, replace(of_bob, user_group=None), job_sharing=True) is not None


def test_a_pilot_without_tags_takes_untagged_queues_only() -> None:
    bare = TaskQueueOffer(frozenset({"A"}))
    assert unmatched(QUEUE, bare) is not None
    assert unmatched(replace(QUEUE, tags=()), bare) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_ram_mb": 4500, "n_processors": 2}, {"2GB", "3GB", "4GB", "2Processors", "MultiProcessor"}),
        ({"max_ram_mb": 1999, "n_processors": 1}, set()),
        ({"max_ram_mb": 2000}, {"2GB"}),
        ({"n_processors": 4}, {"2Processors", "3Processors", "4Processors", "MultiProcessor"}),
        ({"whole_node": True}, {"WholeNode"}),
        ({"tags": ["GPU"], "whole_node": True}, {"GPU", "WholeNode"}),
    ],
)
def test_offered_tags_are_completed_from_memory_and_processors(given: dict[str, object], expected: set[str]) -> None:
    assert offered_tags(**given) == expected  # type: ignore[arg-type]


def test_memory_gives_at_most_1024_tags() -> None:
    assert len(offered_tags(max_ram_mb=10**9)) == 1023


def test_required_tags_that_are_not_offered_are_named() -> None:
    assert required_beyond_offered(["GPU"], ["GPU", "SSD", "FPGA"]) == ("FPGA", "SSD")
    assert required_beyond_offered(["GPU"], ["GPU"]) == ()


# -- the draw


def test_a_member_is_drawn_by_its_place_in_the_sum_of_weights() -> None:
    draw = WeightedDraw[str]()
    draw.put("first", 3.0)
    draw.put("second", 1.0)
    assert [draw.draw(lambda u=one: u) for one in (0.0, 0.5, 0.74, 0.76, 0.99)] == ["first"] * 3 + ["second"] * 2


def test_a_member_that_is_alone_is_drawn_without_a_random_number() -> None:
    draw = WeightedDraw[str]()
    assert draw.draw(pytest.fail) is None
    draw.put("only", 3.0)
    assert draw.draw(pytest.fail) == "only"


def test_draws_come_in_proportion_to_the_weights() -> None:
    """With a fixed seed; of 20 000 draws the standard deviation of each count is at most 71: bound 4.5 of them."""
    draw, rng = WeightedDraw[str](), random.Random(7)
    weights = {"a": 3000.0, "b": 1000.0, "c": 500.0, "d": 500.0}
    for key, weight in weights.items():
        draw.put(key, weight)
    counts = Counter(draw.draw(rng.random) for _ in range(20_000))
    for key, weight in weights.items():
        assert abs(counts[key] - 20_000 * weight / 5000) < 320


_STEPS = st.lists(st.tuples(st.integers(0, 20), st.one_of(st.none(), st.floats(0.001, 1e6))), max_size=80)


@given(_STEPS, st.floats(0, 1, exclude_max=True))
def test_only_members_are_drawn_whatever_was_put_and_removed(steps: list[tuple[int, float | None]], u: float) -> None:
    draw, model = WeightedDraw[int](), dict[int, float]()
    for key, weight in steps:
        if weight is None:
            draw.remove(key)
            model.pop(key, None)
        else:
            draw.put(key, weight)
            model[key] = weight
    found = draw.draw(lambda: u)
    assert len(draw) == len(model)
    assert (found in model) if model else (found is None)


@given(st.lists(st.floats(0.5, 100), min_size=1, max_size=40), st.floats(0, 1, exclude_max=True))
def test_the_tree_of_sums_draws_what_a_scan_would(weights: list[float], u: float) -> None:
    draw = WeightedDraw[int]()
    for key, weight in enumerate(weights):
        draw.put(key, weight)
    found, left = draw.draw(lambda: u), u * sum(weights)
    assert found is not None
    assert found == WeightedDraw.of(dict(enumerate(weights))).draw(lambda: u)
    before = sum(weights[:found])
    assert before - 1e-6 <= left <= before + weights[found] + 1e-6


# -- criteria and limits


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("user_group = 'physics'", True),
        ("OwnerGroup = 'physics' AND Tag = 'GPU'", True),
        ("JobType = 'simul'", True),
        ("JobType <> 'simul'", False),
        ("JobType LIKE 'ev%'", True),
        ("JobType LIKE 'e_gen'", True),
        ("JobType LIKE 'gen'", False),
        ("Owner IN ('bob', 'ann')", True),
        ("Owner NOT IN ('bob', 'ann')", False),
        ("NOT (Owner = 'bob' OR tags = 'SSD')", True),
        ("cpu_segment_s >= 3600", True),
        ("CPUTime < 3600", False),
    ],
)
def test_criteria_are_conditions_about_a_task_queue(text: str, holds: bool) -> None:
    assert parse_criteria(text).hold_for(QUEUE) is holds


@pytest.mark.parametrize(
    "text",
    ["", "colour = 'red'", "owner", "owner = ann", "cpu_segment_s = 'long'", "owner = 'a' ; DROP TABLE x",
     "owner = (SELECT 1)", "jobs.owner = 'a'", "x" * 2000, "owner ~ 'a'", "cpu_segment_s LIKE '3%'"],
)  # fmt: skip
def test_criteria_that_make_no_sense_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidCriteria, match="allowed"):
        parse_criteria(text)


def test_a_value_with_a_quote_is_a_value() -> None:
    assert of_value("Owner", "o'neil").hold_for(replace(QUEUE, user_name="o'neil"))


def test_limits_are_written_by_attribute_and_value_or_as_criteria() -> None:
    rules = rules_of({"A": {"JobType": {"evgen": 10}, "Owner = 'ann' AND Tag = 'GPU'": 2}, "*": {"VO": {"x": 5}}}, "L")
    assert [(one.site, one.number) for one in rules] == [("A", 10), ("A", 2), ("*", 5)]
    assert [one.criteria.hold_for(QUEUE) for one in rules] == [True, True, False]


def test_everything_that_is_wrong_with_limits_is_told_with_its_place() -> None:
    wrong = {"A": {"Colour": {"red": 1}, "JobType": {"evgen": -1}, "Owner =": 3}, "B": 5}
    with pytest.raises(InvalidLimits) as caught:
        rules_of(wrong, "RUNNING_LIMITS")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "RUNNING_LIMITS/A/Colour", "RUNNING_LIMITS/A/JobType/evgen", "RUNNING_LIMITS/A/Owner =", "RUNNING_LIMITS/B",
    ]  # fmt: skip


@pytest.mark.parametrize(("limit", "running", "left"), [(10, 3, 7), (10, 10, 0), (10, 12, 0), (0, 0, 0)])
def test_what_is_left_of_a_limit_is_never_below_nothing(limit: int, running: int, left: int) -> None:
    assert room(limit, running) == left


def test_jobs_count_for_the_site_and_the_queues_that_are_meant() -> None:
    (rule,) = rules_of({"A": {"JobType": {"evgen": 10}}}, "L")
    other = replace(QUEUE, job_types=("reco",))
    assert n_meant(rule, [("A", QUEUE, 3), ("B", QUEUE, 5), ("A", other, 7), ("A", QUEUE, 1)], "A") == 4
