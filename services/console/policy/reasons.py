"""A stored decision by check, the nearest miss first, and what is different in another one, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.brokerage.explained import nearest_first, queue_of

Facts = Mapping[str, Any]
#: queues of a check that are listed at once
SHOWN = 50
MOST_DIGITS = 18


def ids_of(*words: str) -> list[str]:
    """Those that are ids of decisions."""
    return [one for one in words if one.isascii() and one.isdigit() and int(one) and len(one) <= MOST_DIGITS]


@dataclass(frozen=True)
class Group:
    """The queues that one check left out; `more`: those that are not listed."""

    check: str
    tier: str
    temporary: bool
    has_nearest: bool
    n_queues: int
    lifts: Sequence[str]
    parameters: Sequence[str]
    queues: Sequence[Facts]
    more: int


def grouped(decision: Facts, whole: str = "") -> list[Group]:
    """What left queues out: the check of the nearest miss, those that may pass by themselves, others.

    `whole`: the check of which every queue that is told is listed.
    """
    nearest = (decision.get("summary") or {}).get("nearest_miss") or {}
    by_check = defaultdict[str, list[Facts]](list)
    for entry in decision["queues"]:
        if entry.get("check") is not None:
            by_check[entry["check"]].append(entry)
    numbers = {one["check"]: one for one in decision.get("by_check") or ()}
    groups = [
        _group(entries, nearest, numbers.get(check), None if check == whole else SHOWN)
        for check, entries in by_check.items()
    ]
    return sorted(groups, key=lambda one: (not one.has_nearest, not one.temporary, -one.n_queues, one.check))


def _group(entries: Sequence[Facts], nearest: Facts, numbers: Facts | None, at_most: int | None) -> Group:
    """`numbers`: how many there are where not all were told, the nearest first."""
    ordered = nearest_first(entries, nearest)
    listed = ordered[:at_most]
    first = ordered[0]
    return Group(
        check=first["check"],
        tier=first["tier"],
        temporary=first["temporary"],
        has_nearest=nearest.get("check") == first["check"],
        n_queues=numbers["n_queues"] if numbers else len({queue_of(one["name"]) for one in entries}),
        lifts=first.get("lifts") or (),
        parameters=first.get("parameters") or (),
        queues=listed,
        more=(numbers["n_entries"] if numbers else len(ordered)) - len(listed),
    )


def more_passed(decision: Facts) -> int:
    """How many passed every check besides those that are told."""
    told = sum(one.get("check") is None for one in decision["queues"])
    return sum(max(0, one["n_entries"] - told) for one in decision.get("by_check") or () if one["check"] is None)


def passed(decision: Facts) -> list[Facts]:
    """The queues that passed every check, and whether each was chosen."""
    chosen = set(decision.get("chosen") or ())
    kept = [one for one in decision["queues"] if one.get("check") is None]
    return [{**one, "chosen": one["name"] in chosen or queue_of(one["name"]) in chosen} for one in kept]


@dataclass(frozen=True)
class Change:
    """What became of one queue from one decision to another; `terms`: those that are different."""

    name: str
    what: str
    before: str
    after: str
    terms: Sequence[tuple[str, float | None, float | None]] = ()


def changes_of(found: Sequence[Facts]) -> list[Change]:
    """Changes from one decision to another, as they are told of two, in words."""
    return [Change(one["name"], one["what"], _said(one["before"]), _said(one["after"]), _terms(one)) for one in found]


def _terms(change: Facts) -> Sequence[tuple[str, float | None, float | None]]:
    """The terms of a weight that are different."""
    old, new = ((change[when] or {}).get("terms") or {} for when in ("before", "after"))
    both = [(term, old.get(term), new.get(term)) for term in sorted({*old, *new})]
    return [one for one in both if one[1] != one[2]] if change["what"] == "other weight" else ()


def _said(entry: Facts | None) -> str:
    if entry is None:
        return ""
    if entry.get("check") is None:
        return f"weight {entry.get('weight') or 0:.4g}"
    return f"{entry['check']}: {entry['found']}, {entry['wanted']}"
