"""An ordered tuple of filters.

Each queue remembers the first filter that excluded it and the numbers compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.check import Check, Filter, Mask, Numbers, Verdict, by_code
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World

PASSED = 0


@dataclass
class Exclusions:
    """For each row: 0 or the number of the check that excluded it, what was found and what was wanted.

    Mutable only while one decision is being made.
    """

    alive: Mask
    codes: NDArray[np.int16]
    found: Numbers
    wanted: Numbers
    checks: dict[int, Check]

    @classmethod
    def none(cls, rows: int) -> Exclusions:
        """Nothing excluded yet: every row is a candidate."""
        return cls(np.ones(rows, bool), np.zeros(rows, np.int16), np.full(rows, np.nan), np.full(rows, np.nan), {})

    def judge(self, check: Check, verdict: Verdict) -> None:
        """Record the rows that are not excluded yet and do not pass as excluded by `check`."""
        self.checks[check.code] = replace(check, words=verdict.words) if verdict.words else check
        # For truth values "greater" is "and not", in one go.
        (rows,) = (self.alive > verdict.passes).nonzero()
        if not len(rows):
            return
        found, wanted = verdict.found, verdict.wanted
        self.alive[rows] = False
        self.codes[rows] = check.code
        self.found[rows] = found[rows] if isinstance(found, np.ndarray) else found
        self.wanted[rows] = wanted[rows] if isinstance(wanted, np.ndarray) else wanted


@dataclass(frozen=True)
class Pipeline:
    """Filters in the order of the specification."""

    filters: tuple[Filter, ...]

    def __post_init__(self) -> None:
        by_code(self.filters)

    def run(
        self, world: World, request: JobRequest, into: Exclusions | None = None, *, persistent_only: bool = False
    ) -> Exclusions:
        """Apply every filter to every row; `persistent_only` leaves temporary ones out (could it ever run?)."""
        exclusions = into if into is not None else Exclusions.none(len(world.columns))
        for one in self.filters:
            if persistent_only and one.check.temporary:
                continue
            verdict = one.decide(world, request)
            if verdict is not None:
                exclusions.judge(one.check, verdict)
        return exclusions

    def replacing(self, *filters: Filter) -> Pipeline:
        """The same pipeline with other filters for the checks of these."""
        instead = {one.check.name: one for one in filters}
        return Pipeline(tuple(instead.get(one.check.name, one) for one in self.filters))

    def without(self, *names: str) -> Pipeline:
        """The same pipeline less the filters with these names: for a second pass."""
        return Pipeline(tuple(one for one in self.filters if one.check.name not in names))
