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
    if not isinstance(configured, Sequence) or isinstance(configured, str) or not configured:
        return CPU_SEGMENTS_S
    if any(isinstance(one, bool) or not isinstance(one, int) or one <= 0 for one in configured):
        return CPU_SEGMENTS_S
    if any(later <= earlier for earlier, later in pairwise(configured)):
        return CPU_SEGMENTS_S
    return tuple(configured)


def cpu_segment_s(cpu_time_s: float, segments_s: Sequence[int] = CPU_SEGMENTS_S) -> int:
    """The segment of a job's CPU time, rounded up; above the last one it is the last.

    Example: 361 s is in the segment of 1800 s, 360 s in that of 360 s.
    """
    return segments_s[min(bisect_left(segments_s, cpu_time_s), len(segments_s) - 1)]
