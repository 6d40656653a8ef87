"""Whether so much of an account's analysis runs that its tasks make no jobs for a while. Pure.

Source: PanDA, analysis watchdog: from 0.95 of a cap tasks pause for two hours, below 0.85 they go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: parts of a cap: from which tasks pause, and below which they go on before the pause is over
PAUSES_FROM, ENDS_BELOW = 0.95, 0.85


@dataclass(frozen=True)
class RunningUse:
    """Running analysis jobs of a user, or of the working group that users work for, and the live tasks.

    A cap of 0: there is none.
    """

    vo: str
    user_name: str
    working_group: str
    n_jobs: int
    n_cores: int
    task_ids: Sequence[int]
    jobs_cap: int = 0
    cores_cap: int = 0


def too_much(use: RunningUse, part: float = PAUSES_FROM) -> str | None:
    """Why the account's tasks make no jobs for a while; None where they may.

    Example: with a cap of 1000 jobs they pause from 950 running ones on; below 850 they go on.
    """
    account = f"working group {use.working_group}" if use.working_group else f"user {use.user_name}"
    for what, n_running, cap in (("jobs", use.n_jobs, use.jobs_cap), ("cores", use.n_cores, use.cores_cap)):
        if cap > 0 and n_running >= part * cap:
            return f"{n_running} running {what} of {account}, {part:g} of the {cap} allowed or more"
    return None
