"""The order of leaves, and the numbers that placed them (PanDA: global shares)."""

from __future__ import annotations

from shared.order.ranking import PlacedShare, place_shares, rank_shares
from shared.order.tree import Node


def test_the_share_furthest_below_its_pledge_is_first_and_test_before_all() -> None:
    nodes = [
        Node("Production", 60), Node("Analysis", 40), Node("Test", 0),
        Node("MC", 80, "Production"), Node("Data", 20, "Production"),
        Node("User", 100, "Analysis"),
    ]  # fmt: skip
    executing = {"MC": 500.0, "Data": 100.0, "User": 400.0}
    assert rank_shares(nodes, executing).order == ("Test", "Data", "MC", "User")
    executing = {"MC": 100.0, "Data": 100.0, "User": 700.0}
    assert rank_shares(nodes, executing).order == ("Test", "MC", "Data", "User")
    executing = {"MC": 700.0, "Data": 100.0, "User": 10.0}
    assert rank_shares(nodes, executing).order == ("Test", "User", "Data", "MC")


def test_with_nothing_executing_larger_shares_come_first() -> None:
    nodes = [Node("Small", 10), Node("Large", 90), Node("None", 0)]
    assert rank_shares(nodes, {}).order == ("Large", "Small", "None")
    assert rank_shares([], {}).order == ()


def test_a_leaf_shows_what_it_uses_what_it_is_pledged_and_their_ratio() -> None:
    placed = place_shares([Node("A", 50), Node("B", 50)], {"A": 30.0, "B": 10.0})
    assert placed == [PlacedShare("B", 10.0, 20.0, 0.5), PlacedShare("A", 30.0, 20.0, 1.5)]


def test_a_correction_multiplies_the_target_of_a_share_among_its_siblings() -> None:
    nodes = [Node("A", 50, None, 3.0), Node("B", 50)]
    placed = {leaf.name: leaf for leaf in place_shares(nodes, {"A": 30.0, "B": 10.0})}
    assert (placed["A"].pledged_hs06, placed["B"].pledged_hs06) == (30.0, 10.0)


def test_usage_below_a_branch_counts_for_the_branch() -> None:
    nodes = [Node("P", 50), Node("Q", 50), Node("x", 1, "P"), Node("y", 1, "P")]
    placed = place_shares(nodes, {"x": 30.0, "Q": 10.0})
    assert [(leaf.name, leaf.pledged_hs06, leaf.ratio) for leaf in placed] == [
        ("Q", 20.0, 0.5), ("y", 10.0, 0.0), ("x", 10.0, 3.0),
    ]  # fmt: skip
