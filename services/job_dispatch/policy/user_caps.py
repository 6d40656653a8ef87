"""Whose waiting jobs are held back because too many of theirs run (JEDI: Throttled jobs and tasks).

More running jobs than the cap: the activated jobs of that user, or of that working group, become throttled, so that
pilots take those of others. Below nine tenths of the cap as many go on as there is room for.
"""

from __future__ import annotations

from dataclasses import dataclass

#: part of a cap below which throttled jobs go on
RELEASED_BELOW = 0.9
#: what holds where no cap is set
DEFAULT_CAP = 10_000


@dataclass(frozen=True, order=True)
class Account:
    """A user, or the working group on whose behalf users work.

    Jobs of a group's tasks count for the group alone.
    """

    user_name: str = ""
    working_group: str = ""

    def __str__(self) -> str:
        return f"working group {self.working_group}" if self.working_group else f"user {self.user_name}"


@dataclass(frozen=True)
class AnalysisUse:
    """Analysis jobs of an account.

    Throttled ones of paused tasks are not counted: they wait for something else.
    """

    running_jobs: int = 0
    running_cores: int = 0
    activated_jobs: int = 0
    throttled_jobs: int = 0


@dataclass(frozen=True)
class RunningCaps:
    """Most running jobs and cores of one account."""

    jobs: int = DEFAULT_CAP
    cores: int = DEFAULT_CAP

    @classmethod
    def of(cls, jobs: float, cores: float) -> RunningCaps:
        """As they are set; 0 is not set."""
        return cls(int(jobs) or DEFAULT_CAP, int(cores) or DEFAULT_CAP)


@dataclass(frozen=True)
class HoldBack:
    """How many activated jobs are throttled, or how many throttled ones activated, and why."""

    n_throttle: int = 0
    n_activate: int = 0
    reason: str = ""


def room_of(use: AnalysisUse, caps: RunningCaps) -> int:
    """How many more jobs of an account may be activated.

    Example: with a cap of 100 jobs, 85 running and 5 activated: 10. With 95 running none, as throttled ones go on below
    nine tenths of the cap.
    """
    is_below = use.running_jobs < RELEASED_BELOW * caps.jobs and use.running_cores < RELEASED_BELOW * caps.cores
    return max(0, caps.jobs - use.running_jobs - use.activated_jobs) if is_below else 0


def hold_back(use: AnalysisUse, caps: RunningCaps) -> HoldBack:
    """What happens to the waiting jobs of an account.

    Example: with a cap of 100 jobs, 101 running and 40 activated: all 40 are throttled. At 95 running nothing happens.
    At 85, with 40 throttled and none activated: 15 go on.
    """
    for what, running, cap in (("jobs", use.running_jobs, caps.jobs), ("cores", use.running_cores, caps.cores)):
        if running > cap:
            return HoldBack(n_throttle=use.activated_jobs, reason=f"{running} running {what}, at most {cap}")
    room = room_of(use, caps)
    if not room or not use.throttled_jobs:
        return HoldBack()
    reason = f"{use.running_jobs} running jobs, below {RELEASED_BELOW * caps.jobs:g}"
    return HoldBack(n_activate=min(room, use.throttled_jobs), reason=reason)
