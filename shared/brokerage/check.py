"""What a check is: its number (it is stored), its tier, and what the two compared numbers mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.governed_by import GOVERNED_BY
from shared.brokerage.lifts import LIFTED_BY, Lift

if TYPE_CHECKING:
    from shared.brokerage.request import JobRequest
    from shared.brokerage.world import World

Mask = NDArray[np.bool_]
Numbers = NDArray[np.float64]
# Numbers as they come: they become floats only where they are kept.
AnyNumbers = NDArray[np.generic]

#: the words of a check that compares truth values
YES_NO = ("no", "yes")
#: how the words for what is wanted begin where they would otherwise be read as said of what was found
_COMPARES = ("more than", "less than", "at most", "at least", "not", "one of", "unified or")


class Tier(StrEnum):
    """The subject of an exclusion: the queue's description, data locality, load, or a rule."""

    CONFIGURATION = "configuration"
    DATA = "data"
    CAPACITY = "capacity"
    POLICY = "policy"


@dataclass(frozen=True)
class Check:
    """One reason for leaving a queue out. `code` is stored with decisions: never reuse or change one.

    `found` and `wanted` name the two numbers; `words` translates them where they stand for words (a status).
    A temporary check may pass by itself later; a persistent one needs someone to change something. `own_lifts`: what
    lifts a check of a plugin, which the table of lifts does not know.
    """

    code: int
    name: str
    tier: Tier
    temporary: bool
    found: str
    wanted: str
    unit: str = ""
    words: tuple[str, ...] = ()
    own_lifts: tuple[Lift, ...] = ()

    @property
    def lifts(self) -> tuple[Lift, ...]:
        """What has to happen before it can decide otherwise; of an unknown check of a plugin, the grid."""
        return self.own_lifts or LIFTED_BY.get(self.name, (Lift.GRID,))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The runtime parameters that govern it, as COMPONENT.KEY."""
        return GOVERNED_BY.get(self.name, ())

    def text(self, number: float) -> str:
        """A compared number as a person reads it."""
        if math.isnan(number):
            return "unknown"
        if self.words:
            return self.words[int(number)] if 0 <= int(number) < len(self.words) else str(int(number))
        return f"{plain(number)} {self.unit}".rstrip()

    def describe(self) -> dict[str, object]:
        """The stored form, so that an old decision can be read without this code."""
        return {
            "name": self.name,
            "tier": self.tier.value,
            "temporary": self.temporary,
            "found": self.found,
            "wanted": self.wanted,
            "unit": self.unit,
            "words": list(self.words),
            "parameters": list(self.parameters),
            "lifts": [lift.value for lift in self.lifts],
        }


def plain(number: float) -> str:
    """A number without an exponent where it is large: 976562500000, 0.25, 1500."""
    return f"{number:.0f}" if abs(number) >= 1_000_000 else f"{number:.6g}"


def compared(found: str, wanted: str) -> str:
    """Both sides as one text; what names its own subject stays as it is.

    Examples: "usable space of the output storage 1 GB, wanted: more than 200 GB"; "memory of a job 9000 MB, maxrss of
    the queue 2000 MB".
    """
    return f"{found}, {'wanted: ' * wanted.startswith(_COMPARES)}{wanted}"


@dataclass(frozen=True)
class Verdict:
    """For each row: does it pass, and the numbers that were compared (arrays, or one number for all rows).

    `words`: what the numbers stand for in this decision alone; they are stored with it, in place of the check's own.
    """

    passes: Mask
    found: AnyNumbers | float
    wanted: AnyNumbers | float
    words: tuple[str, ...] = ()


Decide = Callable[["World", "JobRequest"], Verdict | None]


@dataclass(frozen=True)
class Filter:
    """A check with the pure function that decides it; the function gives None where it does not apply."""

    check: Check
    decide: Decide


def decides(check: Check) -> Callable[[Decide], Filter]:
    """Make a filter of a function: `@decides(MEMORY)`."""

    def make(function: Decide) -> Filter:
        return Filter(check, function)

    return make


def by_code(filters: Sequence[Filter]) -> dict[int, Check]:
    """The checks of a pipeline by number. Raises ValueError if two different checks share a number."""
    checks: dict[int, Check] = {}
    for one in filters:
        if checks.setdefault(one.check.code, one.check) != one.check:
            raise ValueError(
                f"checks {one.check.name!r} and {checks[one.check.code].name!r} share number {one.check.code}"
            )
    return checks
