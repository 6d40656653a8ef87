"""Compares two decisions about the same: queues that came, went, or changed their reason or weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.explained import Stored
from shared.brokerage.pipeline import PASSED

#: in the order in which changes are told
ORDER = ("passes now", "left out now", "other weight", "other reason", "other numbers", "looked at now",
         "not looked at any more")  # fmt: skip
#: in place of a place in `ORDER`
SAME = -1


@dataclass(frozen=True)
class Difference:
    """`changes`: name, what, and the entries before and after (None: not looked at), by `ORDER` and name.

    `numbers`: how many there are of each kind, where not all are told.
    """

    changes: list[dict[str, Any]]
    numbers: Mapping[str, int]


def difference(before: Stored, after: Stored, at_most: int | None = None) -> Difference:
    """Compare two decisions by the names of their queues or nuclei; `at_most`: so many changes are told."""
    both, alone = _by_name(before, after)
    kinds = _kinds(before, after, both)
    found: list[tuple[int, str, int | None, int | None]] = [
        (kinds[one], before.names[old], old, new)
        for one, (old, new) in zip(np.flatnonzero(kinds != SAME).tolist(), both[kinds != SAME].tolist(), strict=True)
    ]
    found += alone
    numbers = Counter(ORDER[place] for place, *_ in found)
    changes = [
        {"name": name, "what": ORDER[place], "before": _entry(before, old), "after": _entry(after, new)}
        for place, name, old, new in sorted(found, key=itemgetter(0, 1))[:at_most]
    ]
    return Difference(changes, {what: numbers[what] for what in ORDER if numbers[what]})


def _by_name(before: Stored, after: Stored) -> tuple[NDArray[np.int64], list[tuple[int, str, int | None, int | None]]]:
    """Pairs of places of the same name; and what only one of the two looked at."""
    if list(before.names) == list(after.names):
        places = np.arange(len(before.names))
        return np.column_stack((places, places)), []
    old, new = ({name: place for place, name in enumerate(one.names)} for one in (before, after))
    pairs = np.asarray([(place, new[name]) for name, place in old.items() if name in new], np.int64).reshape(-1, 2)
    came = [(ORDER.index("looked at now"), name, None, place) for name, place in new.items() if name not in old]
    went = [
        (ORDER.index("not looked at any more"), name, place, None) for name, place in old.items() if name not in new
    ]
    return pairs, [*came, *went]


def _kinds(before: Stored, after: Stored, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """What is different of each pair, as a place in `ORDER`; SAME where the two say the same."""
    old, new = pairs[:, 0], pairs[:, 1]
    did, does = before.codes[old] == PASSED, after.codes[new] == PASSED
    other_reason = ~did & ~does & (before.reasons(old) != after.reasons(new))
    kinds = np.full(len(pairs), SAME, np.int64)
    for what, is_so in (
        ("other numbers", ~did & ~does & ~before.numbers_are_alike(old, after, new)),
        ("other reason", other_reason),
        ("other weight", did & does & ~before.weights_are_alike(old, after, new)),
        ("left out now", did & ~does),
        ("passes now", ~did & does),
    ):  # the reason before its numbers
        kinds[is_so] = ORDER.index(what)
    return kinds


def _entry(decision: Stored, place: int | None) -> Mapping[str, Any] | None:
    return None if place is None else decision.entries([place])[0]
