"""CPU segments: jobs of about the same CPU time share a task queue (DIRAC: task queue identity)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

#: seconds; 6 minutes to 12 and a half days
CPU_SEGMENTS_S = (
    360, 1800, 3600, 21_600, 43_200, 86_400, 172_800, 259_200, 345_600, 518_400, 691_200, 864_000, 1_080_000,
)  # fmt: skip


def segments_of(configured: Any) -> tuple[int, ...]:
    """The configured segments in seconds, or the usual thirteen.

    They are taken if they are whole numbers that strictly increase.

    Example: [600, 7200] is taken; [600, 600] and "600" are not.
    """
    return CPU_SEGMENTS_S if configured is None or _wrong(configured) is not None else tuple(configured)


def check_segments(configured: Any) -> None:
    """Raises ValueError where `segments_of` would not take what is configured."""
    wrong = None if configured is None else _wrong(configured)
    if wrong is not None:
        raise ValueError(
            f"{wrong}; allowed: null, or a list of whole numbers of seconds from 1 on, each above the last"
        )


def _wrong(configured: Any) -> str | None:
    """What is wrong with it, in words."""
    if not isinstance(configured, Sequence) or isinstance(configured, str) or not configured:
        return f"{configured!r} is not a list with values"
    for place, one in enumerate(configured):
        if isinstance(one, bool) or not isinstance(one, int) or one <= 0:
            return f"value {one!r} at place {place}"
    for earlier, later in pairwise(configured):
        if later <= earlier:
            return f"{later} comes after {earlier}"
    return None


def cpu_segment_s(cpu_time_s: float, segments_s: Sequence[int] = CPU_SEGMENTS_S) -> int:
    """The segment of a job's CPU time, rounded up; above the last one it is the last.

    Example: 361 s is in the segment of 1800 s, 360 s in that of 360 s.
    """
    return segments_s[min(bisect_left(segments_s, cpu_time_s), len(segments_s) - 1)]
