"""Whether so many jobs of a production task fail, or jobs that used so much, that it pauses.

What a job used are its HEP score seconds: core seconds times the benchmark of a core of its queue, as for the limits of
retries. Source: PanDA: gdpconfig, watchdog (auto pause). It is off until a rate is set.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.config.parameter import Parameter, set_by

COMPONENT = "watchdog"
#: the label of the tasks that are looked at
LABEL = "managed"
OF_LABEL, OF_SHARE = "<label>", "<label>_<gshare>"


def _or_none(value: float | None) -> float | None:
    return value


RATE: Parameter[float | None] = Parameter(
    COMPONENT, "MAX_JOB_FAILURE_RATE_TO_PAUSE", None, "%", "failed jobs among those that ended, to pause",
    low=1, high=100, kind="float", suffixes=(OF_SHARE, OF_LABEL),
)  # fmt: skip
HEP_SCORE_RATE: Parameter[float | None] = Parameter(
    COMPONENT, "MAX_HEP_SCORE_FAILURE_RATE_TO_PAUSE", None, "%", "HEP score seconds of failed jobs, of all, to pause",
    low=1, high=100, kind="float", suffixes=(OF_SHARE, OF_LABEL),
)  # fmt: skip


@dataclass(frozen=True)
class PauseLimits:
    """Numbers of jobs; rates are percentages, None: no task pauses for it."""

    failure_rate_percent: float | None = set_by(RATE, _or_none)
    least_jobs: int = set_by(
        Parameter(
            COMPONENT, "MIN_JOBS_TO_PAUSE", 1000, "jobs", "that ended, before a task pauses for failures",
            suffixes=(OF_LABEL,),
        ),
        int,
    )  # fmt: skip
    least_remaining: int = set_by(
        Parameter(
            COMPONENT, "MIN_REMAINING_JOBS_TO_PAUSE", 100, "jobs", "still to come, for a task to pause for failures",
            suffixes=(OF_LABEL,),
        ),
        int,
    )  # fmt: skip
    hep_score_rate_percent: float | None = set_by(HEP_SCORE_RATE, _or_none)

    @property
    def is_on(self) -> bool:
        """Whether a rate is set."""
        return self.failure_rate_percent is not None or self.hep_score_rate_percent is not None


@dataclass(frozen=True)
class FailingTask:
    """Jobs of a running task that ended, and units of its input that are done (or given up) and left.

    HEP score seconds are 0 where no rate of them is set.
    """

    task_id: int
    gshare: str
    request_type: str | None
    n_finished: int
    n_failed: int
    units_done: int
    units_left: int
    finished_hep_score_s: float = 0.0
    failed_hep_score_s: float = 0.0

    @property
    def failure_rate_percent(self) -> float:
        """Failed jobs among those that ended."""
        ended = self.n_finished + self.n_failed
        return 100 * self.n_failed / ended if ended else 0.0

    @property
    def hep_score_rate_percent(self) -> float:
        """HEP score seconds of failed jobs among those of all that ended.

        Example: 3 jobs of 10000 s finished and 1 of 30000 s failed: a quarter of the jobs, and half of what they used.
        """
        used = self.finished_hep_score_s + self.failed_hep_score_s
        return 100 * self.failed_hep_score_s / used if used else 0.0

    @property
    def remaining_jobs(self) -> float:
        """Jobs that finish the rest of the input, if they are as large as those that finished.

        Example: 50 jobs finished 200 of 1000 units, so that 200 jobs remain. A unit is a job before any finished.
        """
        return (
            self.units_left * self.n_finished / self.units_done
            if self.n_finished and self.units_done
            else self.units_left
        )


def pauses(task: FailingTask, limits: PauseLimits) -> str | None:
    """Why a task pauses; None where it goes on."""
    ended = task.n_finished + task.n_failed
    if ended < limits.least_jobs or task.remaining_jobs < limits.least_remaining:
        return None
    most, rate = limits.failure_rate_percent, task.failure_rate_percent
    if most is not None and rate >= most:
        return f"{task.n_failed} of {ended} jobs failed ({rate:.0f} %); allowed: less than {most:g} %"
    most, rate = limits.hep_score_rate_percent, task.hep_score_rate_percent
    if most is not None and rate >= most:
        return f"failed jobs used {rate:.0f} % of the HEP score seconds of its jobs; allowed: less than {most:g} %"
    return None
