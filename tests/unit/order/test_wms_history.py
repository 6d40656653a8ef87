"""The WMSHistory corrector (DIRAC: Dynamic share corrections), formula and edge cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.order.configuration import Instance, Slice
from shared.order.tree import Node
from shared.order.wms_history import clamp, correct, correct_siblings

WEEK, HOUR = Slice("week", 604800, 0.8, 2), Slice("hour", 3600, 0.2, 5)
EXAMPLE = Instance("GroupsInstance", 3, (WEEK, HOUR))
ONE = Instance("one", 10, (Slice("week", 604800, 1.0, 10),))


def factors(expected: dict[str, float], *usage: dict[str, float], instance: Instance = ONE) -> dict[str, float]:
    return {name: found.factor for name, found in correct(expected, usage, instance).items()}


@pytest.mark.parametrize(
    ("expected", "usage", "wanted"),
    [
        # three times more than its share: one third
        ({"a": 1, "b": 3}, {"a": 75, "b": 25}, {"a": 1 / 3, "b": 3}),
        # exactly its share: unchanged
        ({"a": 1, "b": 3}, {"a": 25, "b": 75}, {"a": 1, "b": 1}),
        # units do not matter
        ({"a": 100, "b": 300}, {"a": 0.25, "b": 0.75}, {"a": 1, "b": 1}),
        # absent: the maximum
        ({"a": 1, "b": 1}, {"a": 10}, {"a": 0.5, "b": 10}),
        # usage 0 though present: treated as absent
        ({"a": 1, "b": 1}, {"a": 10, "b": 0}, {"a": 0.5, "b": 10}),
        # zero expected share: 1 / maximum (its share stays 0)
        ({"a": 0, "b": 1}, {"a": 50, "b": 50}, {"a": 0.1, "b": 2}),
        # bounded by the slice's maximum in both directions
        ({"a": 1, "b": 99}, {"a": 99, "b": 1}, {"a": 0.1, "b": 10}),
        # usage of others does not count
        ({"a": 1, "b": 1}, {"a": 10, "b": 10, "other": 1000}, {"a": 1, "b": 1}),
        # a single entity has all of it
        ({"a": 7}, {"a": 3}, {"a": 1}),
    ],
)
def test_the_correction_is_the_inverse_of_the_deviation_from_the_expected_share(
    expected: dict[str, float], usage: dict[str, float], wanted: dict[str, float]
) -> None:
    assert factors(expected, usage) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("expected", "usage"),
    [
        ({"a": 1, "b": 1}, [{}]),  # no history at all
        ({"a": 0, "b": 0}, [{"a": 1}]),  # nobody is expected anything
        ({"a": 1, "b": 1}, [{"other": 5}]),  # only others ran: the total of these is 0
        ({}, [{"a": 1}]),
    ],
)
def test_without_a_history_or_an_expectation_shares_stay_as_they_are(
    expected: dict[str, float], usage: list[dict[str, float]]
) -> None:
    assert correct(expected, usage, ONE) == {}


def test_one_slice_without_history_discards_the_whole_history() -> None:
    assert correct({"a": 1, "b": 1}, [{"a": 9, "b": 1}, {}], EXAMPLE) == {}


def test_a_slice_in_which_these_entities_used_nothing_says_nothing() -> None:
    found = correct({"a": 1, "b": 1}, [{"a": 1, "b": 1}, {"other": 3}], EXAMPLE)
    assert [(term.slice, term.weighted) for term in found["a"].terms] == [("week", pytest.approx(0.8))]


def test_slices_are_weighted_and_the_sum_is_bounded_by_the_global_maximum() -> None:
    # week: 0.5/0.9 and 0.5/0.1 -> 2; hour: 0.5/0.95 and 0.5/0.05 -> 5
    usage = ({"a": 90, "b": 10}, {"a": 95, "b": 5})
    assert factors({"a": 1, "b": 1}, *usage, instance=EXAMPLE) == pytest.approx(
        {"a": 0.8 * 0.5 / 0.9 + 0.2 * 0.5 / 0.95, "b": 0.8 * 2 + 0.2 * 5}
    )
    tight = Instance("tight", 2, (WEEK, HOUR))
    assert factors({"a": 1, "b": 1}, *usage, instance=tight)["b"] == 2
    assert factors({"a": 1, "b": 1}, {"b": 1}, {"b": 1}, instance=tight)["a"] == 2


def test_a_newcomer_is_boosted_to_the_weighted_maxima_not_to_their_sum() -> None:
    found = factors({"new": 1, "old": 1}, {"old": 5}, {"old": 5}, instance=EXAMPLE)
    assert found["new"] == pytest.approx(0.8 * 2 + 0.2 * 5)


@pytest.mark.parametrize(("value", "most", "wanted"), [(10, 3, 3), (0.1, 3, 1 / 3), (1, 3, 1), (0, 2, 0.5), (2, 1, 1)])
def test_clamp_is_symmetric_in_proportion(value: float, most: float, wanted: float) -> None:
    assert clamp(value, most) == pytest.approx(wanted)


amounts = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e6), min_size=1)


@given(amounts, amounts, amounts)
def test_every_factor_is_within_the_global_bounds(
    expected: dict[str, float], week: dict[str, float], hour: dict[str, float]
) -> None:
    for found in correct(expected, [week, hour], EXAMPLE).values():
        assert 1 / 3 <= found.factor <= 3


def test_siblings_are_corrected_against_each_other_at_every_level_of_the_tree() -> None:
    nodes = [
        Node("production", 60), Node("analysis", 40), Node("mc", 3, "production"), Node("data", 1, "production"),
        Node("user", 1, "analysis"),
    ]  # fmt: skip
    found = correct_siblings(nodes, [{"mc": 20, "data": 20, "user": 60}], ONE)
    assert {name: one.factor for name, one in found.items()} == pytest.approx(
        {"production": 1.5, "analysis": 40 / 60, "mc": 1.5, "data": 0.5, "user": 1}
    )


def test_a_branch_of_the_tree_that_ran_nothing_is_not_corrected_inside() -> None:
    nodes = [Node("p", 1), Node("q", 1), Node("x", 1, "q"), Node("y", 1, "q")]
    found = correct_siblings(nodes, [{"p": 5}], ONE)
    assert set(found) == {"p", "q"} and found["q"].factor == 10


def test_users_of_a_share_are_all_due_the_same() -> None:
    found = correct(dict.fromkeys(["ann", "bob", "new"], 1.0), [{"ann": 30, "bob": 10}], ONE)
    assert {name: one.factor for name, one in found.items()} == pytest.approx(
        {"ann": 1 / 3 / 0.75, "bob": 1 / 3 / 0.25, "new": 10}
    )


def test_a_correction_tells_all_that_it_follows_from() -> None:
    found = correct({"a": 1, "b": 3}, [{"a": 90, "b": 10}, {"b": 5}], EXAMPLE)["a"]
    assert found.target == 0.25 and found.factor == found.total == pytest.approx(0.8 * 0.5 + 0.2 * 5)
    assert [(term.slice, term.used, term.c, term.weight) for term in found.terms] == [
        ("week", 0.9, 0.5, 0.8), ("hour", 0.0, 5.0, 0.2),
    ]  # fmt: skip


def test_shares_of_one_vo_are_corrected_against_each_other_alone() -> None:
    nodes = [Node("a1", 1, "atlas"), Node("a2", 1, "atlas"), Node("b", 1)]
    found = correct_siblings(nodes, [{"a1": 30, "a2": 10, "b": 1000}], ONE)
    assert {name: one.factor for name, one in found.items()} == pytest.approx({"a1": 2 / 3, "a2": 2.0, "b": 1.0})
