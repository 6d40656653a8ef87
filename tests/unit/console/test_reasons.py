"""A decision by check, the nearest miss first; the difference of two."""

from __future__ import annotations

from typing import Any

from services.console.policy.reasons import difference, grouped, passed
from shared.brokerage.explained import distance


def left_out(name: str, check: str, found: str, wanted: str, *, temporary: bool = False) -> dict[str, Any]:
    return {
        "name": name, "check": check, "tier": "capacity" if temporary else "configuration", "temporary": temporary,
        "found": found, "wanted": wanted, "parameters": [], "lifts": ["the grid"],
    }  # fmt: skip


def passes(name: str, weight: float, **terms: float) -> dict[str, Any]:
    return {"name": name, "weight": weight, "terms": terms, "check": None}


MEMORY = [
    left_out("FAR/SCORE", "memory", "memory of a job 6200 MB", "maxrss of the queue 2000 MB"),
    left_out("NEAR/SCORE", "memory", "memory of a job 6200 MB", "maxrss of the queue 6000 MB"),
    left_out("NEAR/MCORE", "memory", "memory of a job 6200 MB", "maxrss of the queue 6000 MB"),
]
FULL = [left_out("FULL/SCORE", "queued", "queued 100", "at most 40", temporary=True)]
OFFLINE = [left_out(f"OFF{n}", "status", "status offline", "one of online, test") for n in range(5)]
DECISION = {
    "queues": [*OFFLINE, *FULL, *MEMORY, passes("GOOD/SCORE", 2.0, running=3.0)],
    "summary": {"nearest_miss": {"name": "NEAR/SCORE", "check": "memory"}},
    "chosen": ["GOOD/SCORE"],
}


def test_the_check_of_the_nearest_miss_comes_first_then_what_may_pass_then_the_rest() -> None:
    groups = grouped(DECISION)
    assert [(one.check, one.n_queues, one.has_nearest) for one in groups] == [
        ("memory", 2, True), ("queued", 1, False), ("status", 5, False)
    ]  # fmt: skip
    assert [one["name"] for one in groups[0].queues] == ["NEAR/SCORE", "NEAR/MCORE", "FAR/SCORE"]


def test_numbers_are_as_far_apart_as_they_are_of_the_larger() -> None:
    assert distance(MEMORY[0]) > distance(MEMORY[1]) and round(distance(MEMORY[1]), 4) == 0.0323
    assert distance(OFFLINE[0]) == float("inf")


def test_what_passed_says_whether_it_was_chosen() -> None:
    assert [(one["name"], one["chosen"]) for one in passed(DECISION)] == [("GOOD/SCORE", True)]
    (other,) = passed({**DECISION, "chosen": []})
    assert not other["chosen"]


def test_the_difference_says_who_came_went_and_changed_weight_term_by_term() -> None:
    before = {"queues": [passes("A", 1.0, running=1.0, network=1.0), passes("B", 1.0), *FULL, MEMORY[0]]}
    after = {
        "queues": [
            passes("A", 2.0, running=2.0, network=1.0), left_out("B", "status", "status offline", "online"),
            passes("FULL/SCORE", 1.5), passes("NEW", 1.0),
        ]
    }  # fmt: skip
    found = {one.name: one for one in difference(before, after)}
    assert {name: one.what for name, one in found.items()} == {
        "A": "other weight", "B": "left out now", "FULL/SCORE": "passes now", "NEW": "looked at now",
        "FAR/SCORE": "not looked at any more",
    }  # fmt: skip
    assert list(found["A"].terms) == [("running", 1.0, 2.0)]
    assert found["B"].after == "status: status offline, online"


def test_the_same_check_with_other_numbers_is_no_other_reason() -> None:
    before = {"queues": [left_out("A", "memory", "4000 MB", "6200 MB"), left_out("B", "memory", "4000 MB", "6200 MB")]}
    after = {"queues": [left_out("A", "memory", "900 MB", "6200 MB"), left_out("B", "status", "offline", "online")]}
    found = {one.name: one.what for one in difference(before, after)}
    assert found == {"A": "other numbers", "B": "other reason"}


def test_a_decision_does_not_differ_from_itself() -> None:
    assert difference(DECISION, DECISION) == []
