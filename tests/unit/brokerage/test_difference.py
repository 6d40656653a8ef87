"""What differs between two stored decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shared.brokerage.difference import difference
from shared.brokerage.explained import Stored

_CHECK = {"tier": "configuration", "temporary": False, "words": [], "parameters": [], "lifts": []}
CHECKS = {
    "1": {**_CHECK, "name": "memory", "found": "memory of a job", "wanted": "maxrss", "unit": "MB"},
    "2": {**_CHECK, "name": "status", "found": "status", "wanted": "one of", "unit": "", "words": ["online", "off"]},
}
PASSED, MEMORY, STATUS = 0, 1, 2
NAN, INF = float("nan"), float("inf")


def decided(*queues: tuple[str, int, float, float], words: Sequence[str] = ("online", "off")) -> Stored:
    """Names with the check that left each out, and two numbers: those compared, or weight and one term of it."""
    names, codes, first, second = map(list, zip(*queues, strict=True))
    row: dict[str, Any] = {
        "names": names, "codes": codes, "found": first, "wanted": second, "weights": first,
        "terms": {"running": second}, "checks": {**CHECKS, "2": {**CHECKS["2"], "words": [*words]}},
    }  # fmt: skip
    return Stored(row)


def whats(before: Stored, after: Stored) -> dict[str, str]:
    return {one["name"]: one["what"] for one in difference(before, after).changes}


def test_it_says_who_came_went_and_changed_check_numbers_or_weight() -> None:
    before = decided(("A", PASSED, 1, 1), ("B", PASSED, 1, 1), ("C", MEMORY, 9, 4), ("D", MEMORY, 9, 4),
                     ("E", MEMORY, 9, 4), ("F", STATUS, 1, NAN), ("SAME", STATUS, 1, NAN))  # fmt: skip
    after = decided(("A", PASSED, 1, 2), ("B", STATUS, 1, NAN), ("C", PASSED, 1, 1), ("D", STATUS, 1, NAN),
                    ("E", MEMORY, 8, 4), ("NEW", PASSED, 1, 1), ("SAME", STATUS, 1, NAN))  # fmt: skip
    found = difference(before, after)
    assert [(one["name"], one["what"]) for one in found.changes] == [
        ("C", "passes now"), ("B", "left out now"), ("A", "other weight"), ("D", "other reason"),
        ("E", "other numbers"), ("NEW", "looked at now"), ("F", "not looked at any more"),
    ]  # fmt: skip
    assert set(found.numbers.values()) == {1} and len(found.numbers) == 7
    assert found.changes[4]["before"]["found"] == "memory of a job 9 MB"
    assert found.changes[5]["before"] is None and found.changes[6]["after"] is None


@pytest.mark.parametrize(("number", "what"), [(6_200_000.1, {}), (6_200_010.0, {"A": "other numbers"})])
def test_numbers_that_read_the_same_are_no_difference(number: float, what: dict[str, str]) -> None:
    assert whats(decided(("A", MEMORY, 6_200_000.0, 4)), decided(("A", MEMORY, number, 4))) == what


@pytest.mark.parametrize(("before", "after", "differs"), [
    (INF, 5.0, True), (5.0, INF, True), (INF, -INF, True), (INF, NAN, True), (INF, INF, False),
])  # fmt: skip
def test_a_limit_that_becomes_infinite_or_was_is_another_number(before: float, after: float, differs: bool) -> None:
    told = whats(decided(("A", MEMORY, 9.0, before)), decided(("A", MEMORY, 9.0, after)))
    assert told == ({"A": "other numbers"} if differs else {})
    told = whats(decided(("A", PASSED, 9.0, before)), decided(("A", PASSED, 9.0, after)))
    assert told == ({"A": "other weight"} if differs else {})


def test_all_are_counted_however_few_are_told() -> None:
    before = decided(*((f"Q{n:02}", MEMORY, 9.0, 4.0) for n in range(20)))
    after = decided(*((f"Q{n:02}", PASSED if n < 5 else STATUS, 1.0, 1.0) for n in range(20)))
    found = difference(before, after, 7)
    assert [one["name"] for one in found.changes] == ["Q00", "Q01", "Q02", "Q03", "Q04", "Q05", "Q06"]
    assert found.numbers == {"passes now": 5, "other reason": 15}


@pytest.mark.parametrize(
    ("words", "number", "what"),
    [
        (["off"], 0.0, {}),
        (["test"], 1.0, {"A": "other numbers"}),
        (["online", "test"], 1.0, {"A": "other numbers"}),
        (["off", "online"], 0.0, {}),
    ],
)
def test_words_that_each_decision_numbers_by_itself_are_compared_as_they_read(
    words: list[str], number: float, what: dict[str, str]
) -> None:
    before = decided(("A", STATUS, 1.0, NAN), ("B", MEMORY, 9, 4))
    after = decided(("A", STATUS, number, NAN), ("B", MEMORY, 9, 4), words=words)
    assert whats(before, after) == what
