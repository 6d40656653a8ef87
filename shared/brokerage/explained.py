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
from shared.brokerage.decision import Decision
from shared.brokerage.pipeline import PASSED

Facts = Mapping[str, Any]
#: texts have six digits: numbers that are closer read the same
ALIKE = 1e-6
_NUMBER = re.compile(r"(-?[\d.]+(?:e[+-]?\d+)?)(?: [^ ]+)?$")


class Stored:
    """A stored decision by its columns: a place becomes text where it is asked for, and nowhere else."""

    @classmethod
    def of(cls, decision: Decision) -> Stored:
        """A decision as it would be stored, without the lists that are stored."""
        names = ("names", "codes", "found", "wanted", "weights", "terms")
        checks = {str(code): check.describe() for code, check in sorted(decision.checks.items())}
        return cls({**{name: getattr(decision, name) for name in names}, "checks": checks})

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

    def weight_of(self, place: int) -> tuple[float | None, dict[str, float | None]]:
        """Its weight and the terms of it."""
        terms = {term: _known_number(values[place]) for term, values in self._row["terms"].items()}
        return float(self._row["weights"][place]), terms

    def reasons(self, places: NDArray[np.int64]) -> NDArray[np.str_]:
        """The names of the checks that left out what is at these places; empty: it passed."""
        names = {PASSED: "", **{code: check.name for code, check in self._known.items()}}
        codes, place_of = np.unique(self.codes[places], return_inverse=True)
        return np.asarray([names[int(code)] for code in codes], np.str_)[place_of]

    def numbers_are_alike(
        self, places: NDArray[np.int64], other: Stored, others: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether found and wanted here read as there; each decision numbers its words for itself."""
        found, wanted = (self._found[places], other._found[others]), (self._wanted[places], other._wanted[others])
        alike: NDArray[np.bool_] = _are_alike(*found) & _are_alike(*wanted)
        says_words = self._are_words()[places] | other._are_words()[others]
        codes = [code for code in self._known.keys() & other._known.keys() if self._words(code) == other._words(code)]
        has_same_words = np.isin(self.codes[places], codes) & (self.codes[places] == other.codes[others])
        for one in np.flatnonzero(says_words & ~(has_same_words & alike)).tolist():
            alike[one] = self._texts(int(places[one])) == other._texts(int(others[one]))
        return alike

    def _words(self, code: int) -> Sequence[str]:
        return self._known[code].words

    def _texts(self, place: int) -> tuple[str, str] | None:
        check = self._known.get(int(self.codes[place]))
        return None if check is None else (check.text(self._found[place]), check.text(self._wanted[place]))

    def weights_are_alike(
        self, places: NDArray[np.int64], other: Stored, others: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether weight and terms here are as there."""
        terms, other_terms = self._row["terms"], other._row["terms"]
        if terms.keys() != other_terms.keys():
            return np.zeros(len(places), np.bool_)
        pairs = [(self._row["weights"], other._row["weights"]), *((terms[one], other_terms[one]) for one in terms)]
        columns = [(np.asarray(one, np.float64)[places], np.asarray(two, np.float64)[others]) for one, two in pairs]
        return np.all([_are_alike(one, two) for one, two in columns], axis=0)

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


def _are_alike(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        # of infinity everything else would be near
        is_near = np.isfinite(one) & np.isfinite(other)
        is_near &= np.abs(one - other) <= ALIKE * np.maximum(np.abs(one), np.abs(other))
    found: NDArray[np.bool_] = (one == other) | is_near | (np.isnan(one) & np.isnan(other))
    return found


def _known_number(value: float | None) -> float | None:
    """None for what is not known, which is NaN in a decision that is not stored."""
    return None if value is None or np.isnan(value) else float(f"{value:.9g}")


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
