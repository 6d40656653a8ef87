"""A stored decision (a row of `brokerage_decisions`) in words: needs nothing of the code that made it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.check import Check, Tier
from shared.brokerage.pipeline import PASSED

Facts = Mapping[str, Any]
_NUMBER = re.compile(r"(-?[\d.]+(?:e[+-]?\d+)?)(?: [^ ]+)?$")


class Stored:
    """A stored decision by its columns: a place becomes text where it is asked for, and nowhere else."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self.names: Sequence[str] = row["names"]
        self.codes = np.asarray(row["codes"], np.int64)
        self._found, self._wanted = (np.asarray(row[name], np.float64) for name in ("found", "wanted"))
        self.checks: dict[int, Facts] = {int(code): one for code, one in sorted(row["checks"].items())}
        self._known = {code: _check(code, one) for code, one in self.checks.items()}

    def entries(self, places: Iterable[int]) -> list[Facts]:
        """What became of the queues or nuclei at these places, for people and JSON."""
        return [self._passed(place) if self.codes[place] == PASSED else self._held(place) for place in places]

    def _passed(self, place: int) -> Facts:
        weight, terms = self.weight_of(place)
        return {"name": self.names[place], "weight": weight, "terms": terms, "check": None}

    def _held(self, place: int) -> Facts:
        code = int(self.codes[place])
        check, stored = self._known[code], self.checks[code]
        return {
            "name": self.names[place],
            "check": check.name,
            "tier": check.tier.value,
            "temporary": check.temporary,
            "found": f"{check.found} {check.text(self._found[place])}",
            "wanted": f"{check.wanted} {check.text(self._wanted[place])}",
            "parameters": stored["parameters"],
            "lifts": stored["lifts"],
        }

    def check_of(self, place: int) -> str | None:
        """The check that left out what is at a place; None: it passed."""
        code = int(self.codes[place])
        return None if code == PASSED else self._known[code].name

    def compared(self, place: int) -> tuple[float | str, float | str]:
        """What was found at a place and what was wanted; of this decision's words the texts."""
        found, wanted = float(self._found[place]), float(self._wanted[place])
        check = self._known.get(int(self.codes[place]))
        return (check.text(found), check.text(wanted)) if check and check.words else (found, wanted)

    def weight_of(self, place: int) -> tuple[float | None, dict[str, float | None]]:
        """Its weight and the terms of it."""
        return self._row["weights"][place], {term: values[place] for term, values in self._row["terms"].items()}

    def places_that_differ(self, other: Stored) -> NDArray[np.int64]:
        """Places with another code, numbers or words there, and those that passed; names are the same."""
        pairs = ((self._found, other._found), (self._wanted, other._wanted))
        is_alike = np.all([(one == two) | (np.isnan(one) & np.isnan(two)) for one, two in pairs], axis=0)
        both = self._known.keys() & other._known.keys()
        reworded = [code for code in both if self._known[code].words != other._known[code].words]
        is_looked_at = (self.codes == PASSED) | np.isin(self.codes, reworded)
        return np.flatnonzero((self.codes != other.codes) | ~is_alike | is_looked_at)

    def passed(self) -> list[int]:
        """The places that passed every check, the best first."""
        weights = self._row["weights"]
        return sorted(self._places(PASSED), key=lambda place: (-(weights[place] or 0.0), self.names[place]))

    def held_by(self) -> dict[str, list[int]]:
        """The places that each check left out."""
        found = defaultdict[str, list[int]](list)
        for code, check in self._known.items():
            if places := self._places(code):
                found[check.name] += places
        return dict(found)

    def held(self, is_meant: Callable[[Facts], Any]) -> NDArray[np.int64]:
        """The places that were left out by checks of which something is true."""
        return np.flatnonzero(np.isin(self.codes, [code for code, one in self.checks.items() if is_meant(one)]))

    def distinct(self, places: Iterable[int]) -> list[int]:
        """One place, the first by name, of each check with other numbers."""
        ordered = np.asarray(sorted(places, key=self.names.__getitem__), np.int64)
        numbers = np.column_stack((self.codes, np.nan_to_num(self._found), np.nan_to_num(self._wanted)))[ordered]
        found: list[int] = ordered[np.unique(numbers, axis=0, return_index=True)[1]].tolist()
        return found

    def n_queues(self, places: Iterable[int]) -> int:
        """How many queues these are: a queue has a place for each resource type, QUEUE/TYPE."""
        return len({queue_of(self.names[place]) for place in places})

    def beyond(self) -> NDArray[np.float64]:
        """By how much what was found is more than what was wanted; zero where these are words, or not known."""
        return np.nan_to_num(np.where(self._are_words(), 0.0, self._found - self._wanted), nan=0.0)

    def nearest(self, places: Sequence[int], miss: Facts | None, at_most: int) -> list[int]:
        """So many of them, as `nearest_first` orders their entries."""
        apart = np.abs(self._found - self._wanted) / np.maximum(
            np.maximum(np.abs(self._found), np.abs(self._wanted)), 1e-9
        )
        distances = np.where(np.isnan(apart) | self._are_words(), np.inf, apart)
        some, nearest = np.asarray(places), (miss or {}).get("name")
        if at_most < len(some):  # the others are not put into an order
            furthest = np.partition(distances[some], at_most)[at_most]
            some = np.asarray([one for one in some if distances[one] <= furthest or self.names[one] == nearest])
        key = {int(one): (self.names[one] != nearest, distances[one], self.names[one]) for one in some}
        return sorted(key, key=key.__getitem__)[:at_most]

    def _are_words(self) -> NDArray[np.bool_]:
        return np.isin(self.codes, [code for code, one in self.checks.items() if one["words"]])

    def _places(self, code: int) -> list[int]:
        found: list[int] = np.flatnonzero(self.codes == code).tolist()
        return found

    def shortened(self, miss: Facts | None, at_most: int) -> tuple[list[Facts], list[dict[str, Any]]]:
        """At most so many entries of each check, and how many there are of it.

        Those that passed are told by weight and have the check None; others the nearest first.
        """
        passed, held = self.passed(), self.held_by()
        told = passed[:at_most]
        for places in held.values():
            told += self.nearest(places, miss, at_most)
        of_check: list[tuple[str | None, list[int]]] = [*([(None, passed)] if passed else []), *held.items()]
        numbers = [
            {"check": check, "n_queues": self.n_queues(places), "n_entries": len(places)} for check, places in of_check
        ]
        return self.entries(told), numbers


def explain_row(row: Mapping[str, Any]) -> list[Facts]:
    """Unpack a stored decision: an entry for each queue or nucleus, passed ones first, the best before."""
    stored = Stored(row)
    held = sorted(np.flatnonzero(stored.codes != PASSED).tolist(), key=stored.names.__getitem__)
    return stored.entries([*stored.passed(), *held])


def _check(code: int, stored: Mapping[str, Any]) -> Check:
    return Check(
        code,
        stored["name"],
        Tier(stored["tier"]),
        stored["temporary"],
        stored["found"],
        stored["wanted"],
        stored["unit"],
        tuple(stored["words"]),
    )


def queue_of(name: str) -> str:
    """The queue of an entry: QUEUE of QUEUE/TYPE."""
    return name.partition("/")[0]


@lru_cache(maxsize=16_384)
def number_of(text: str) -> float | None:
    """The number at the end of a compared text; None where there is none.

    Example: memory of a job 6200 MB: 6200.
    """
    found = _NUMBER.search(text)
    try:
        return float(found[1]) if found else None
    except ValueError:
        return None


def distance(entry: Facts) -> float:
    """How far the two numbers are from each other, as a part of the larger; endless where there are none.

    Example: memory of a job 6200 MB, maxrss of the queue 4000 MB: 0.3548.
    """
    found, wanted = number_of(entry["found"]), number_of(entry["wanted"])
    if found is None or wanted is None:
        return float("inf")
    return abs(found - wanted) / max(abs(found), abs(wanted), 1e-9)


def nearest_first(entries: Sequence[Facts], miss: Facts | None) -> list[Facts]:
    """What one check left out: the nearest miss of the decision, then by the distance of the numbers."""
    nearest = (miss or {}).get("name")
    return sorted(entries, key=lambda one: (one["name"] != nearest, distance(one), one["name"]))
