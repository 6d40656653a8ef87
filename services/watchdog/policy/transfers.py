"""Whether so much input of a user's tasks is moved that they pause.

Limited is what a user's analysis tasks have staged from tape or moved from disk at one time. Source: JEDI: Throttled
jobs and tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.config.parameter import Parameter, set_by

COMPONENT = "anal_watchdog"
GB_BYTES = 1024**3
#: minutes of a pause, and the part of the limit below which it ends before
PAUSE_MIN, ENDS_BELOW = 120, 0.85


@dataclass(frozen=True)
class TransferLimits:
    """In GB; 0: no limit."""

    from_tape_gb: float = set_by(
        Parameter(COMPONENT, "USER_PRESTAGE_LIMIT", 1024.0, "GB", "staged from tape for a user at a time; 0: any"),
        float,
    )
    from_disk_gb: float = set_by(
        Parameter(COMPONENT, "USER_TRANSFER_LIMIT", 1024.0, "GB", "moved from disk for a user at a time; 0: any"), float
    )


@dataclass(frozen=True)
class MovedForUser:
    """What is being moved for the tasks of a user in a VO, and which tasks these are."""

    user_name: str
    vo: str
    from_tape_bytes: int
    from_disk_bytes: int
    task_ids: Sequence[int]


def too_much(moved: MovedForUser, limits: TransferLimits, part: float = 1.0) -> str | None:
    """Why the user's tasks make no jobs for a while; None where they may.

    `part`: of the limits that count. Example: with 1100 GB staged from tape and a limit of 1024 GB they pause; below
    870 GB they go on.
    """
    kinds = (
        ("staged from tape", moved.from_tape_bytes, limits.from_tape_gb),
        ("moved from disk", moved.from_disk_bytes, limits.from_disk_gb),
    )
    for what, n_bytes, limit_gb in kinds:
        if limit_gb > 0 and n_bytes > part * limit_gb * GB_BYTES:
            return f"{n_bytes / GB_BYTES:,.0f} GB are {what} for {moved.user_name}; allowed: {limit_gb:g} GB"
    return None
