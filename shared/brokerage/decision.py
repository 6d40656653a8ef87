"""The outcome of one brokerage with every number that led to it, and its packed form for storage.

Names and arrays are parallel: place i of `codes`, `found`, `wanted` and `weights` belongs to `names[i]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.check import Check, Tier, compared
from shared.brokerage.pipeline import PASSED

Real = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """One ranked queue; `resource_type`: that of its jobs there; None for `max_jobs` means no limit."""

    queue: str
    resource_type: str
    weight: float
    max_jobs: int | None = None


@dataclass(frozen=True)
class Decision:
    """`chosen`: the best names, best first (a drawn nucleus); if empty, `retry_at`: when to look again.

    `queue_index`: the number of each name's queue, where a queue has several names (one for each resource type).
    `notes`: what no check of a queue or nucleus tells, such as why an exception was not made.
    """

    kind: Literal["task", "job"]
    task_id: int
    plugin: str
    seed: int
    world_version: int
    decided_at: datetime
    names: tuple[str, ...]
    codes: NDArray[np.int16]
    found: Real
    wanted: Real
    weights: Real
    checks: Mapping[int, Check]
    chosen: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    terms: Mapping[str, Real] = field(default_factory=dict)
    chunk_id: int | None = None
    retry_at: datetime | None = None
    notes: tuple[str, ...] = ()
    queue_index: NDArray[np.int64] | None = None

    @property
    def outcome(self) -> Literal["chosen", "none"]:
        return "chosen" if self.chosen else "none"

    def exclusion(self, name: str) -> tuple[Check, float, float] | None:
        """Why a queue or nucleus was left out: check, number found, number wanted; None if it passed."""
        place = self.names.index(name)
        code = int(self.codes[place])
        return None if code == PASSED else (self.checks[code], float(self.found[place]), float(self.wanted[place]))

    def summary(self) -> dict[str, Any]:
        """Numbers of passed and excluded queues or nuclei, by check and tier; the nearest miss; any notes."""
        counts = self._counts()
        tiers: Counter[str] = Counter()
        for code, number in counts.items():
            if code != PASSED:
                tiers[self.checks[code].tier] += number
        summary: dict[str, Any] = {
            "considered": sum(counts.values()),
            "passed": counts.get(PASSED, 0),
            "tiers": {tier.value: tiers[tier] for tier in Tier if tiers[tier]},
            "checks": {self.checks[code].name: number for code, number in sorted(counts.items()) if code != PASSED},
            "temporary": all(self.checks[int(code)].temporary for code in np.unique(self.codes) if code != PASSED),
            "nearest_miss": self.nearest_miss(),
        }
        return summary | ({"notes": list(self.notes)} if self.notes else {})

    def _counts(self) -> dict[int, int]:
        """Queues or nuclei by the number of the check that excluded them.

        A queue with several names is counted once: as passed if one of them passed, else with the check of the name
        that came furthest.
        """
        # The checks were noted in the order in which they were asked.
        in_order = [code for code in self.checks if code != PASSED] + [PASSED]
        place_of = np.zeros(max(in_order) + 1, np.int64)
        place_of[in_order] = np.arange(len(in_order))
        furthest = place_of[self.codes]
        if self.queue_index is not None and len(furthest):
            rows, furthest = furthest, np.zeros(int(self.queue_index.max()) + 1, np.int64)
            np.maximum.at(furthest, self.queue_index, rows)
        numbers = np.bincount(furthest, minlength=len(in_order))
        return {code: int(number) for code, number in zip(in_order, numbers, strict=True) if number}

    def nearest_miss(self) -> dict[str, Any] | None:
        """The excluded name that came furthest; of equals the one whose numbers differ least."""
        excluded = np.flatnonzero(self.codes != PASSED)
        if not len(excluded):
            return None
        # The checks were noted in the order in which they were asked.
        position = {code: place for place, code in enumerate(self.checks)}
        asked = {int(code): position[int(code)] for code in np.unique(self.codes[excluded])}
        furthest = excluded[self.codes[excluded] == max(asked, key=asked.__getitem__)]
        found, wanted = self.found[furthest], self.wanted[furthest]
        with np.errstate(invalid="ignore"):
            apart = np.abs(found - wanted) / np.maximum(np.maximum(np.abs(found), np.abs(wanted)), 1e-9)
        apart = np.where(np.isnan(apart), np.inf, apart)
        nearest = furthest[apart == apart.min()].tolist()
        return self._explain(min(nearest, key=self.names.__getitem__))

    def _explain(self, place: int) -> dict[str, Any]:
        check = self.checks[int(self.codes[place])]
        return {
            "name": self.names[place],
            "check": check.name,
            "tier": check.tier.value,
            "temporary": check.temporary,
            "found": f"{check.found} {check.text(float(self.found[place]))}",
            "wanted": f"{check.wanted} {check.text(float(self.wanted[place]))}",
        }

    def reason(self, summary: Mapping[str, Any] | None = None) -> str:
        """One line for people; `summary`: where it is known already.

        Example: "48 queues: 3 configuration, 40 data ...; nearest miss: NAME (check: found, wanted)".
        """
        summary = summary or self.summary()
        one, many = ("queue", "queues") if self.kind == "job" else ("nucleus", "nuclei")
        if not self.names:
            return f"there are no {many}"
        tiers = ", ".join(f"{number} {tier}" for tier, number in summary["tiers"].items()) or "none excluded"
        number = summary["considered"]
        text = f"{number} {one if number == 1 else many}, {summary['passed']} passed: {tiers}"
        miss = summary["nearest_miss"]
        if miss:
            text += f"; nearest miss: {miss['name']} ({miss['check']}: {compared(miss['found'], miss['wanted'])})"
        return "; ".join((text, *self.notes))

    def packed(self) -> dict[str, Any]:
        """Columns of table `brokerage_decisions`. Numbers that are not known are stored as NaN."""
        return {
            "kind": self.kind,
            "task_id": self.task_id,
            "chunk_id": self.chunk_id,
            "plugin": self.plugin,
            "seed": self.seed,
            "world_version": self.world_version,
            "outcome": self.outcome,
            "chosen": list(self.chosen),
            "retry_at": self.retry_at,
            "summary": self.summary(),
            "names": list(self.names),
            "codes": self.codes.tolist(),
            "found": self.found.tolist(),
            "wanted": self.wanted.tolist(),
            "weights": self.weights.tolist(),
            "terms": {name: _jsonable(values) for name, values in self.terms.items()},
            "checks": {str(code): check.describe() for code, check in sorted(self.checks.items())},
        }


def _jsonable(values: Real) -> list[float | None]:
    """JSON has no NaN. Nine significant digits: terms may be as small as one over all the work of a nucleus."""
    return [None if isnan(value) else float(f"{value:.9g}") for value in values.tolist()]
