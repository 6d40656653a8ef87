"""What a new tree of shares changes, and what is said of shares."""

from __future__ import annotations

import pytest

from services.share_correction.policy.explanation import explained, terms_shown
from services.share_correction.policy.tree_changes import changes, leaves_of
from shared.model.share import Share
from shared.order.tree import Node


def test_changes_of_a_tree_are_those_of_its_shares_and_of_what_they_are_due() -> None:
    before = [Share("A", 50), Share("B", 50), Share("Old", 1, "A")]
    after = [Share("A", 75, stretchable=True), Share("B", 25), Share("New", 1, "B")]
    rows = {row["gshare"]: row for row in changes(before, after)}
    assert {name: row["change"] for name, row in rows.items()} == {
        "A": "changed", "B": "changed", "New": "added", "Old": "removed",
    }  # fmt: skip
    assert rows["A"]["fields"] == {"value": [50, 75], "stretchable": [False, True]}
    assert (rows["B"]["due_percent_before"], rows["B"]["due_percent_after"]) == (pytest.approx(49.505, abs=1), 25.0)


def test_a_share_whose_due_follows_from_its_parent_is_told_too() -> None:
    (parent, leaf, other) = changes([Share("P", 1), Share("Q", 1), Share("a", 1, "P")],
                                    [Share("P", 3), Share("Q", 1), Share("a", 1, "P")])  # fmt: skip
    assert (leaf["gshare"], leaf["fields"], leaf["due_percent_after"]) == ("Q", {}, 25.0)
    assert parent["gshare"] == "P" and (other["gshare"], other["due_percent_before"]) == ("a", 50.0)


def test_the_same_tree_changes_nothing() -> None:
    assert changes([Share("A", 50)], [Share("A", 50)]) == []


def test_leaves_are_shares_that_are_nobodys_parent() -> None:
    assert leaves_of([Share("A", 1), Share("B", 1, "A"), Share("C", 1)]) == ["B", "C"]


def test_shares_are_explained_in_the_order_served_with_who_borrows_and_who_is_starved() -> None:
    nodes = [Node("A", 50), Node("B", 50, None, 2.0), Node("C", 0)]
    rows = explained(nodes, {"A": 75.0, "B": 25.0}, {"A": 1, "B": 3}, {"A": {"factor": 1.0}})
    told = [(one["gshare"], one["place"], one["standing"], one["used_percent"], one["due_percent"]) for one in rows]
    assert told == [("B", 1, "starved", 25.0, 50.0), ("A", 2, "borrows", 75.0, 50.0), ("C", 3, "idle", 0.0, 0.0)]
    assert (rows[0]["corrected_percent"], rows[0]["correction_factor"], rows[0]["queued_jobs"]) == (66.667, 2.0, 3)
    assert rows[0]["terms"] is None and rows[1]["terms"] == {"factor": 1.0}


def test_terms_are_shown_with_what_each_slice_adds() -> None:
    row = {"target": 0.5, "total": 2 / 3, "max_global": 3.0, "factor": 2 / 3, "instance": "G",
           "terms": {"week": {"used": 0.75, "c": 2 / 3, "weight": 0.8}}}  # fmt: skip
    assert terms_shown(row)["slices"] == {"week": {"used": 0.75, "c": 0.6667, "weight": 0.8, "adds": 0.5333}}
