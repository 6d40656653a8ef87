"""A decision by check, the nearest miss first; changes in words."""

from __future__ import annotations

from typing import Any

from services.console.policy.reasons import changes_of, grouped, passed
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


def change(what: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    return {"name": "A", "what": what, "before": before, "after": after}


def test_a_change_is_told_in_words_with_the_terms_that_differ() -> None:
    weights = change(
        "other weight", passes("A", 1.0, running=1.0, network=1.0), passes("A", 2.0, running=2.0, network=1.0)
    )
    out = change("left out now", passes("A", 1.0), left_out("A", "status", "status offline", "online"))
    found = changes_of([weights, out, change("looked at now", None, MEMORY[0])])
    assert [(one.what, one.before, one.after, list(one.terms)) for one in found] == [
        ("other weight", "weight 1", "weight 2", [("running", 1.0, 2.0)]),
        ("left out now", "weight 1", "status: status offline, online", []),
        ("looked at now", "", "memory: memory of a job 6200 MB, maxrss of the queue 2000 MB", []),
    ]
