"""A stored decision (a row of `brokerage_decisions`) in words: needs nothing of the code that made it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from shared.brokerage.check import Check, Tier
from shared.brokerage.pipeline import PASSED

Facts = Mapping[str, Any]
_NUMBER = re.compile(r"(-?[\d.]+(?:e[+-]?\d+)?)(?: [^ ]+)?$")


def explain_row(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A stored decision, unpacked for people and JSON: one entry per queue or nucleus, passed ones first."""
    entries = []
    checks = {int(code): (_check(int(code), stored), stored) for code, stored in row["checks"].items()}
    arrays = (row["names"], row["codes"], row["found"], row["wanted"])
    for place, (name, code, found, wanted) in enumerate(zip(*arrays, strict=True)):
        if code == PASSED:
            terms = {term: values[place] for term, values in row["terms"].items()}
            entries.append({"name": name, "weight": row["weights"][place], "terms": terms, "check": None})
            continue
        check, stored = checks[code]
        entries.append(
            {
                "name": name,
                "check": check.name,
                "tier": check.tier.value,
                "temporary": check.temporary,
                "found": f"{check.found} {check.text(found)}",
                "wanted": f"{check.wanted} {check.text(wanted)}",
                "parameters": stored["parameters"],
                "lifts": stored["lifts"],
            }
        )
    return sorted(entries, key=lambda entry: (entry["check"] is not None, -(entry.get("weight") or 0.0), entry["name"]))


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


def shortened(entries: Sequence[Facts], miss: Facts | None, at_most: int) -> tuple[list[Facts], list[dict[str, Any]]]:
    """At most so many entries of each check, and how many there are of it.

    Those that passed are told by weight and have the check None; others the nearest first.
    """
    by_check = defaultdict[str | None, list[Facts]](list)
    for entry in entries:
        by_check[entry["check"]].append(entry)
    kept: list[Facts] = []
    for check, some in by_check.items():
        kept += (some if check is None or not at_most else nearest_first(some, miss))[:at_most]
    numbers = [
        {"check": check, "n_queues": len({queue_of(one["name"]) for one in some}), "n_entries": len(some)}
        for check, some in by_check.items()
    ]
    return kept, numbers
