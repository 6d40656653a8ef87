"""Limits of retries: when a task waits for a decision instead, and when a retry is refused.

Source: PanDA: gdpconfig, retry_task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shared.config.parameter import Parameter, set_by

_LABEL = ("<label>",)


def _limit(key: str, unit: str, means: str) -> Parameter[int | None]:
    return Parameter("retry_task", key, None, unit, means, 1, kind="int", suffixes=_LABEL)


def _or_none(value: int | None) -> int | None:
    return value


@dataclass(frozen=True)
class RetryLimits:
    """None: no limit."""

    PER_VO: ClassVar = True

    task_attempts: int | None = set_by(
        _limit("TASK_MAX_ATTEMPT", "", "retries of a task until it is exhausted instead"), _or_none
    )
    job_attempts: int | None = set_by(
        _limit("JOB_MAX_ATTEMPT", "", "attempts of a unit of input from which a retry is refused"), _or_none
    )
    failure_rate_percent: int | None = set_by(
        _limit("MAX_JOB_FAILURE_RATE", "%", "failed jobs from which a retried task is exhausted instead"), _or_none
    )
    failed_hours: int | None = set_by(
        _limit("MAX_FAILED_HEP_SCORE_HOURS", "h", "HEP score hours of failed jobs from which it is exhausted instead"),
        _or_none,
    )
    failed_hours_percent: int | None = set_by(
        _limit("MAX_FAILED_HEP_SCORE_RATE", "%", "HEP score hours of failed jobs, of all, from which it is exhausted"),
        _or_none,
    )
    least_cpu_efficiency_percent: int | None = set_by(
        _limit("MIN_CPU_EFFICIENCY", "%", "CPU efficiency below which a retried task is exhausted instead"), _or_none
    )

    @property
    def ask_for_usage(self) -> bool:
        """Whether the jobs of the task have to be added up."""
        limits = (self.failed_hours, self.failed_hours_percent, self.least_cpu_efficiency_percent)
        return any(one is not None for one in limits)


@dataclass(frozen=True)
class RetryFacts:
    """What a task has done so far; `most_attempts`: of one unit of its input.

    Hours are those of cores multiplied by the benchmark of a core at their queue. `cpu_efficiency_percent`: CPU time
    among the time that finished jobs had their cores; None where no pilot told it.
    """

    n_retries: int
    n_jobs_finished: int
    n_jobs_failed: int
    most_attempts: int
    finished_hours: float = 0.0
    failed_hours: float = 0.0
    cpu_efficiency_percent: float | None = None

    @property
    def failed_hours_percent(self) -> float:
        """Hours of failed jobs among all; 0 where there are none."""
        every = self.finished_hours + self.failed_hours
        return 100 * self.failed_hours / every if every else 0.0

    @property
    def failure_rate_percent(self) -> float:
        """Failed jobs among those that ended; 0 where none did."""
        n_ended = self.n_jobs_finished + self.n_jobs_failed
        return 100 * self.n_jobs_failed / n_ended if n_ended else 0.0


def refused_for(facts: RetryFacts, limits: RetryLimits) -> str | None:
    """Why a retry is refused; None where it is not."""
    if limits.job_attempts is not None and facts.most_attempts >= limits.job_attempts:
        return f"a unit of its input was tried {facts.most_attempts} times; allowed: fewer than {limits.job_attempts}"
    return None


def exhausted_for(facts: RetryFacts, limits: RetryLimits) -> str | None:
    """Why a task is exhausted instead of being retried; None where it is not.

    Example: with a limit of 3 retries the first three are carried out; at the fourth the task is exhausted.
    """
    if limits.task_attempts is not None and facts.n_retries >= limits.task_attempts:
        return f"it was retried {facts.n_retries} times; allowed: {limits.task_attempts}"
    if limits.failure_rate_percent is not None and facts.failure_rate_percent >= limits.failure_rate_percent:
        return (
            f"{facts.failure_rate_percent:.0f} % of its jobs failed; allowed: less than {limits.failure_rate_percent} %"
        )
    return _wasteful(facts, limits)


def _wasteful(facts: RetryFacts, limits: RetryLimits) -> str | None:
    """Why what its jobs used was of too little use."""
    if limits.failed_hours is not None and facts.failed_hours >= limits.failed_hours:
        return (
            f"its failed jobs used {facts.failed_hours:,.0f} HEP score hours; "
            f"allowed: less than {limits.failed_hours:,}"
        )
    if limits.failed_hours_percent is not None and facts.failed_hours_percent >= limits.failed_hours_percent:
        return (
            f"{facts.failed_hours_percent:.0f} % of the HEP score hours of its jobs were those of failed ones; "
            f"allowed: less than {limits.failed_hours_percent} %"
        )
    efficiency, least = facts.cpu_efficiency_percent, limits.least_cpu_efficiency_percent
    if least is not None and efficiency is not None and efficiency < least:
        return f"its jobs used {efficiency:.0f} % of the CPU time that they had; allowed: {least} % or more"
    return None
