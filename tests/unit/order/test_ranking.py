"""The order of leaves, and the numbers that placed them (PanDA: global shares)."""

from __future__ import annotations

import pytest

from shared.order.ranking import PlacedShare, place_shares, rank_shares
from shared.order.standing import standing_of
from shared.order.tree import Node


def one_each(nodes: list[Node]) -> dict[str, int]:
    """Every share has a waiting job."""
    return {node.name: 1 for node in nodes}


def test_the_share_furthest_below_its_pledge_is_first_and_test_before_all() -> None:
    nodes = [
        Node("Production", 60), Node("Analysis", 40), Node("Test", 0),
        Node("MC", 80, "Production"), Node("Data", 20, "Production"),
        Node("User", 100, "Analysis"),
    ]  # fmt: skip
    executing = {"MC": 500.0, "Data": 100.0, "User": 400.0}
    assert rank_shares(nodes, executing, one_each(nodes)).order == ("Test", "Data", "MC", "User")
    executing = {"MC": 100.0, "Data": 100.0, "User": 700.0}
    assert rank_shares(nodes, executing, one_each(nodes)).order == ("Test", "MC", "Data", "User")
    executing = {"MC": 700.0, "Data": 100.0, "User": 10.0}
    assert rank_shares(nodes, executing, one_each(nodes)).order == ("Test", "User", "Data", "MC")


def test_with_nothing_executing_larger_shares_come_first() -> None:
    nodes = [Node("Small", 10), Node("Large", 90), Node("None", 0)]
    assert rank_shares(nodes, {}, one_each(nodes)).order == ("Large", "Small", "None")
    assert rank_shares([], {}, {}).order == ()


def test_a_leaf_shows_what_it_uses_what_it_is_pledged_and_their_ratio() -> None:
    placed = place_shares([Node("A", 50), Node("B", 50)], {"A": 30.0, "B": 10.0}, {"A": 7, "B": 2})
    assert placed == [
        PlacedShare("B", None, True, 10.0, 20.0, 0.0, 0.5, 2),
        PlacedShare("A", None, True, 30.0, 20.0, 0.0, 1.5, 7),
    ]


def test_a_correction_multiplies_the_target_of_a_share_among_its_siblings() -> None:
    nodes = [Node("A", 50, None, 3.0), Node("B", 50)]
    placed = {leaf.name: leaf for leaf in place_shares(nodes, {"A": 30.0, "B": 10.0}, one_each(nodes))}
    assert (placed["A"].pledged_hs06, placed["B"].pledged_hs06) == (30.0, 10.0)


def test_usage_below_a_branch_counts_for_the_branch() -> None:
    nodes = [Node("P", 50), Node("Q", 50), Node("x", 1, "P"), Node("y", 1, "P")]
    queued = {"x": 1, "y": 1, "Q": 1}
    placed = place_shares(nodes, {"x": 30.0, "Q": 10.0}, queued)
    assert [(one.name, one.is_leaf, one.pledged_hs06, one.ratio) for one in placed] == [
        ("Q", True, 20.0, 0.5), ("P", False, 20.0, 1.5), ("y", True, 10.0, 0.0), ("x", True, 10.0, 3.0),
    ]  # fmt: skip
    assert rank_shares(nodes, {"x": 30.0, "Q": 10.0}, queued).order == ("Q", "y", "x")


def received(nodes: list[Node], used: dict[str, float], queued: dict[str, int]) -> dict[str, float]:
    return {one.name: one.received_hs06 for one in place_shares(nodes, used, queued) if one.received_hs06}


#: a partition with three sub queues that are due 50, 30 and 20 of 100 HS06
THIRDS = [Node("A", 50), Node("B", 30), Node("C", 20)]
STRETCHED = [Node("A", 50), Node("B", 30, is_stretchable=True), Node("C", 20)]


@pytest.mark.parametrize(
    ("nodes", "queued", "wanted"),
    [
        # everybody has jobs: nothing is unused
        (THIRDS, {"A": 1, "B": 1, "C": 1}, {}),
        # nobody is stretchable: by the original shares of those that have jobs
        (THIRDS, {"B": 1, "C": 1}, {"B": 30.0, "C": 20.0}),
        # stretchable shares go first
        (STRETCHED, {"B": 1, "C": 1}, {"B": 50.0}),
        # a stretchable share without jobs gets nothing
        (STRETCHED, {"C": 1}, {"C": 80.0}),
        # several stretchable ones: by their original shares
        ([Node("A", 50), Node("B", 30, is_stretchable=True), Node("C", 20, is_stretchable=True)], {"B": 1, "C": 1},
         {"B": 30.0, "C": 20.0}),
        # nobody has jobs: nothing to give
        (STRETCHED, {}, {}),
    ],
)  # fmt: skip
def test_what_idle_siblings_do_not_use_goes_to_stretchable_ones_first(
    nodes: list[Node], queued: dict[str, int], wanted: dict[str, float]
) -> None:
    """JEDI: shares of work queues."""
    assert received([*nodes, Node("Full", 0)], {"Full": 100.0}, {**queued, "Full": 0}) == pytest.approx(wanted)


def test_only_what_an_idle_share_does_not_use_is_given_away() -> None:
    used = {"A": 40.0, "B": 60.0, "C": 0.0}
    assert received(THIRDS, used, {"B": 1, "C": 1}) == pytest.approx({"B": 10.0 * 30 / 50, "C": 10.0 * 20 / 50})


def test_a_stretchable_share_is_served_before_a_sibling_that_is_as_far_from_its_own_due() -> None:
    used = {"B": 60.0, "C": 40.0}
    assert rank_shares(THIRDS, used, {"B": 1, "C": 1}).order[-2:] == ("B", "C")
    assert (
        rank_shares([Node("A", 50), Node("B", 30), Node("C", 20, is_stretchable=True)], used, {"B": 1, "C": 1}).order[
            -1
        ]
        == "B"
    )


def test_a_stretchable_partition_hands_what_it_receives_down_to_its_sub_queues() -> None:
    nodes = [Node("Idle", 50), Node("P", 50, is_stretchable=True), Node("x", 1, "P"), Node("y", 3, "P")]
    placed = {one.name: one for one in place_shares(nodes, {"x": 40.0, "y": 60.0}, {"x": 1, "y": 1})}
    assert (placed["P"].pledged_hs06, placed["P"].received_hs06) == (50.0, 50.0)
    assert (placed["x"].pledged_hs06, placed["y"].pledged_hs06) == (25.0, 75.0)


@pytest.mark.parametrize(
    ("used", "due", "queued", "standing"),
    [
        (103.0, 100.0, 0, "borrows"), (102.0, 100.0, 9, "on target"), (98.0, 100.0, 9, "on target"),
        (97.0, 100.0, 1, "starved"), (97.0, 100.0, 0, "unused"), (0.0, 100.0, 0, "idle"), (0.0, 0.0, 0, "idle"),
        (1.0, 0.0, 0, "borrows"), (0.0, 0.0, 5, "starved"),
    ],
)  # fmt: skip
def test_a_share_borrows_above_and_is_starved_below_its_due_while_jobs_wait(
    used: float, due: float, queued: int, standing: str
) -> None:
    assert standing_of(used, due, queued) == standing
