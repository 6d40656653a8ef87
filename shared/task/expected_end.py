"""When a task will end, from how fast its input was processed. Pure.

Two rates are measured: over the life of its jobs, and lately. The better one says when it ends at the earliest, the
worse one when at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

#: later than that is told as never
LONGEST = timedelta(days=3650)


@dataclass(frozen=True)
class End:
    """When a task will end, and how that follows; None: nobody can say."""

    earliest_at: datetime | None
    latest_at: datetime | None
    told: str


def expected_end(now: datetime, n_units: int, n_ended: int, per_hour: float, lately: float) -> End:
    """When the units that are left will have ended, by two rates.

    Example: 400 of 1000 units ended within 4 h since its first jobs, 50 of these in the last hour: the 600 others take
    6 h at 100 an hour, and 12 h at 50 an hour.
    """
    left = n_units - n_ended
    told = f"{left} of {n_units} units are left; {per_hour:.3g} ended in an hour, lately {lately:.3g}"
    return End(_at(now, left, max(per_hour, lately)), _at(now, left, min(per_hour, lately)), told)


def rate_per_hour(n_units: float, duration: timedelta) -> float:
    """How many in an hour; what took less than a minute counts as one."""
    return n_units / max(duration / timedelta(hours=1), 1 / 60)


def _at(now: datetime, left: int, per_hour: float) -> datetime | None:
    """When so many units have ended at a rate; None: in more than ten years."""
    hours = left / per_hour if per_hour > 0 else float("inf")
    return now + timedelta(hours=hours) if hours < LONGEST / timedelta(hours=1) else None
