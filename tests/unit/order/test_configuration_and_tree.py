"""Configurations are read with the field's defaults or refused with every problem; trees are normalised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.order.configuration import DEFAULT, ConfigurationError, corrections_of, instances_of
from shared.order.tree import Node, below, normalised


def test_what_is_not_said_has_the_defaults_of_the_field() -> None:
    (instance,) = instances_of({"Groups": {"Slice": {}}})
    (part,) = instance.slices
    assert (instance.max_global, part.time_span_s, part.weight, part.max_correction) == (5, 604800, 1, 3)


def test_weights_are_parts_of_one() -> None:
    (instance,) = instances_of({"Groups": {"a": {"Weight": 80}, "b": {"Weight": 20}}})
    assert [part.weight for part in instance.slices] == [0.8, 0.2]


SLICES = {
    "WeekSlice": {"TimeSpan": 604800, "Weight": 80, "MaxCorrection": 2},
    "HourSlice": {"TimeSpan": 3600, "Weight": 20, "MaxCorrection": 5},
}
#: the example of the documents, key by key
DOCUMENTED = {
    "ShareCorrectorsToStart": "WMSHistory",
    "WMSHistory": {
        "GroupsInstance": {"MaxGlobalCorrectionFactor": 3, **SLICES},
        "lhcb_userInstance": {"Group": "lhcb_user", "MaxGlobalCorrectionFactor": 3, **SLICES},
    },
}


def test_the_example_of_the_documents_is_two_instances_among_groups_and_among_users_of_one() -> None:
    found = corrections_of(DOCUMENTED)
    assert list(found) == ["WMSHistory"]
    assert [(one.name, one.group, one.max_global) for one in found["WMSHistory"]] == [
        ("GroupsInstance", None, 3), ("lhcb_userInstance", "lhcb_user", 3),
    ]  # fmt: skip
    for instance in found["WMSHistory"]:
        assert {part.name: (part.time_span_s, part.weight, part.max_correction) for part in instance.slices} == {
            "WeekSlice": (604800, 0.8, 2), "HourSlice": (3600, 0.2, 5),
        }  # fmt: skip


def test_the_default_is_the_first_instance_of_the_documents() -> None:
    assert corrections_of(DEFAULT)["WMSHistory"] == corrections_of(DOCUMENTED)["WMSHistory"][:1]


@pytest.mark.parametrize(
    ("names", "started"),
    [("WMSHistory", ["WMSHistory"]), (["WMSHistory", "Mine"], ["WMSHistory", "Mine"]), ([], []), (None, [])],
)
def test_correctors_to_start_are_a_single_name_or_a_list(names: object, started: list[str]) -> None:
    section = {"WMSHistory": {"G": SLICES}, "Mine": {"H": SLICES}}
    assert list(corrections_of(section | ({} if names is None else {"ShareCorrectorsToStart": names}))) == started


def test_the_greatest_correction_has_the_name_of_the_documents_or_that_of_the_code() -> None:
    for key in ("MaxGlobalCorrectionFactor", "MaxGlobalCorrection"):
        assert instances_of({"G": {key: 4, "s": {}}})[0].max_global == 4


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ([], "must be an object"),
        ({"ShareCorrectorsToStart": 3}, "3 must be the name of a corrector or a list of names"),
        ({"ShareCorrectorsToStart": ["W", 3]}, "must be the name of a corrector or a list of names"),
        ({"ShareCorrectorsToStart": "Absent"}, "'Absent' has no section of its own"),
        ({"WMSHistory": {"G": {}}}, "ShareCorrections/WMSHistory/G: needs at least one slice"),
    ],
)
def test_a_wrong_section_is_refused_with_its_place(section: object, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        corrections_of(section)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ([], "must be an object"),
        ({"G": 3}, "W/G: 3 must be an object"),
        ({"G": {}}, "W/G: needs at least one slice"),
        ({"G": {"MaxCorrection": 3, "s": {}}}, "W/G/MaxCorrection: is not known"),
        ({"G": {"MaxGlobalCorrection": 0, "s": {}}}, "W/G/MaxGlobalCorrection: 0 must be a number from 1 on"),
        (
            {"G": {"MaxGlobalCorrection": 3, "MaxGlobalCorrectionFactor": 4, "s": {}}},
            "MaxGlobalCorrectionFactor is 4 and MaxGlobalCorrection 3",
        ),
        ({"G": {"s": {"TimeSpan": 0}}}, "W/G/s/TimeSpan: 0 must be a number from 1 on"),
        ({"G": {"s": {"Weight": -1}}}, "W/G/s/Weight: -1 must be a number from 0 on"),
        ({"G": {"s": {"Weight": 0}}}, "sum above 0"),
        ({"G": {"s": {"MaxCorrection": "2"}}}, "W/G/s/MaxCorrection: '2' must be"),
        ({"G": {"s": {"MaxCorrection": float("nan")}}}, "W/G/s/MaxCorrection: nan must be"),
        ({"G": {"s": {"Span": 1}}}, "W/G/s/Span: is not known; allowed are MaxCorrection, TimeSpan, Weight"),
        ({"A": {"s": {}}, "B": {"s": {}}}, "W/B: A already corrects the groups"),
        ({"A": {"Group": "u", "s": {}}, "B": {"Group": "u", "s": {}}}, "A already corrects the users of u"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_place_and_what_is_allowed(section: object, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        instances_of(section, "W")
    assert problem in str(refused.value)


def test_every_problem_is_listed_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        instances_of({"A": {"s": {"TimeSpan": 0, "Weight": -1}}, "B": 1})
    assert len(str(refused.value).splitlines()) >= 3


def test_shares_are_percent_of_their_parents() -> None:
    nodes = [Node("p", 60), Node("a", 35), Node("t", 5), Node("mc", 40, "p"), Node("data", 15, "p"), Node("x", 5, "p")]
    assert normalised(nodes) == pytest.approx({"p": 60, "a": 35, "t": 5, "mc": 40, "data": 15, "x": 5})


def test_corrections_move_shares_between_siblings_only() -> None:
    nodes = [Node("p", 1), Node("q", 1), Node("a", 1, "p", 3.0), Node("b", 1, "p")]
    assert normalised(nodes, corrected=True) == pytest.approx({"p": 50, "q": 50, "a": 37.5, "b": 12.5})


def test_siblings_without_value_are_due_nothing() -> None:
    assert normalised([Node("p", 1), Node("a", 0, "p"), Node("b", 0, "p")]) == {"p": 100.0, "a": 0.0, "b": 0.0}


@given(st.lists(st.floats(0.01, 1000), min_size=1, max_size=8), st.lists(st.floats(0.01, 1000), max_size=8))
def test_leaves_add_up_to_everything(top: list[float], under_first: list[float]) -> None:
    nodes = [Node(f"t{i}", value) for i, value in enumerate(top)]
    nodes += [Node(f"u{i}", value, "t0") for i, value in enumerate(under_first)]
    percent = normalised(nodes)
    leaves = [node.name for node in nodes if not (node.name == "t0" and under_first)]
    assert sum(percent[name] for name in leaves) == pytest.approx(100)


def test_usage_of_a_branch_is_its_own_and_what_is_below_it() -> None:
    nodes = [Node("p", 1), Node("a", 1, "p"), Node("b", 1, "a"), Node("q", 1)]
    assert below(nodes, {"b": 2, "a": 1, "unknown": 9}) == {"b": 2, "a": 3, "p": 3}
