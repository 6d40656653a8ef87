"""Compares two decisions about the same: queues that came, went, or changed their reason or weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isclose, isnan
from typing import Any

from shared.brokerage.explained import Stored
from shared.brokerage.pipeline import PASSED

#: in the order in which changes are told
ORDER = ("passes now", "left out now", "other weight", "other reason", "other numbers", "looked at now",
         "not looked at any more")  # fmt: skip
#: texts have six digits: numbers that are closer read the same
ALIKE = 1e-6


@dataclass(frozen=True)
class Difference:
    """`changes`: name, what, and the entries before and after (None: not looked at), by `ORDER` and name.

    `numbers`: how many there are of each kind, where not all are told.
    """

    changes: list[dict[str, Any]]
    numbers: Mapping[str, int]


def difference(before: Stored, after: Stored, at_most: int | None = None) -> Difference:
    """Compare two decisions by the names of their queues or nuclei; `at_most`: so many changes are told."""
    old, new = ({name: place for place, name in enumerate(one.names)} for one in (before, after))
    found = list[tuple[int, str]]()
    for name in _that_may_differ(before, after):
        what = _what(before, old.get(name), after, new.get(name))
        if what:
            found.append((ORDER.index(what), name))
    numbers = Counter(ORDER[place] for place, _ in found)
    changes = [
        {"name": name, "what": ORDER[place], "before": _entry(before, old.get(name)),
         "after": _entry(after, new.get(name))}
        for place, name in sorted(found)[:at_most]
    ]  # fmt: skip
    return Difference(changes, {what: numbers[what] for what in ORDER if numbers[what]})


def _that_may_differ(before: Stored, after: Stored) -> Iterable[str]:
    """Names of either; where both have the same, at the same places, those where a code or number differs."""
    if list(before.names) != list(after.names):
        return {*before.names, *after.names}
    return [before.names[place] for place in before.places_that_differ(after).tolist()]


def _what(before: Stored, old: int | None, after: Stored, new: int | None) -> str:
    """Empty where the two say the same."""
    if old is None:
        return "looked at now"
    if new is None:
        return "not looked at any more"
    did, does = before.codes[old] == PASSED, after.codes[new] == PASSED
    if did != does:
        return "passes now" if does else "left out now"
    if does:
        return "" if before.weight_of(old) == after.weight_of(new) else "other weight"
    if before.check_of(old) != after.check_of(new):
        return "other reason"
    return "" if all(map(_are_alike, before.compared(old), after.compared(new))) else "other numbers"


def _are_alike(one: float | str, other: float | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one == other or isclose(one, other, rel_tol=ALIKE) or (isnan(one) and isnan(other))


def _entry(decision: Stored, place: int | None) -> Mapping[str, Any] | None:
    return None if place is None else decision.entries([place])[0]
