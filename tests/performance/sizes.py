"""The two sizes of every benchmark: the full one, whose figures count, and a small one of seconds for `.ci/run`.

The small size shows that a benchmark still runs to its end. Its figures mean nothing, so no target is asked of them.
A benchmark takes each of its numbers as `sized(full, small)` and ends with `exit_code(kept)`.
"""

from __future__ import annotations

import os
from typing import TypeVar

VARIABLE = "BENCH_SMALL"
SMALL = os.environ.get(VARIABLE, "") not in ("", "0")
_Number = TypeVar("_Number", int, float)


def sized(full: _Number, small: _Number) -> _Number:
    """The number for the size that was asked for."""
    return small if SMALL else full


def exit_code(kept: bool) -> int:
    """0 if every figure kept its target, and always in the small size."""
    return 0 if kept or SMALL else 1
