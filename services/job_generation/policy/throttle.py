"""Decides whether enough jobs are queued already (JEDI: Job throttling), with reason and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from shared.config.parameter import SHARE, Parameter
from shared.states.job import JobStatus

NOT_RUNNING: tuple[JobStatus, ...] = ("assigned", "activated", "starting")
RUNNING: tuple[JobStatus, ...] = ("running", "sent")
#: jobs that chunks on their way through brokerage may become
OFFERED: Literal["offered"] = "offered"
CountedStatus = JobStatus | Literal["offered"]
UNTHROTTLED_LABELS = ("test", "ptest", "install")


#: components: for each kind of work, and for what holds for both
PRODUCTION, ANALYSIS, BASE = "prod_job_throttler", "anal_job_throttler", "base_job_throttler"
THROTTLE_THRESHOLD = Parameter(
    PRODUCTION, "THROTTLE_THRESHOLD", 2.0, "", "queued to running from which jobs are throttled", also_in=(ANALYSIS,)
)


def _cap(key: str, means: str) -> Parameter[int | None]:
    return Parameter(
        PRODUCTION,
        key,
        None,
        "jobs",
        means,
        -1,
        kind="int",
        also_in=(ANALYSIS, BASE),
        suffixes=(SHARE, f"{SHARE}_<resource type>", f"{SHARE}_MCORE*", f"{SHARE}_SCORE*"),
    )


N_QUEUE_LIMIT = _cap("NQUEUELIMIT", "queued ones always allowed; -1: 4 x bunch")
N_QUEUE_CAP = _cap("NQUEUECAP", "queued ones never exceeded; -1: not set")
N_RUNNING_CAP = _cap("NRUNNINGCAP", "running ones never exceeded; -1: not set")


@dataclass(frozen=True)
class ThrottleLimits:
    """None means no such limit, for `n_queue_limit` 4 x bunch."""

    threshold: float = THROTTLE_THRESHOLD.default
    n_queue_limit: int | None = N_QUEUE_LIMIT.default
    n_queue_cap: int | None = N_QUEUE_CAP.default
    n_running_cap: int | None = N_RUNNING_CAP.default


@dataclass(frozen=True)
class ThrottleDecision:
    """`max_jobs`: how many may be made now; zero when throttled."""

    passes: bool
    reason: str
    max_jobs: int
    numbers: Mapping[str, float]


def judge(
    counts: Mapping[CountedStatus, int], limits: ThrottleLimits, *, share_is_throttled: bool = True
) -> ThrottleDecision:
    """Decide for one share and resource type from its jobs by state.

    bunch = min(max(500, int(running x T - not running)), 600); queue limit = configured, else 4 x bunch; the number of
    jobs is bunch / 2, or a fifth of the cap on queued jobs; with less than 0.9 x the limit queued it is at least a
    twentieth of the limit. The first rule that matches stops generation. The limit is one for all tasks and chunks of
    the share: jobs that offered chunks may still become (`offered`) count as queued.

    Example: 100 running, 150 activated and 1900 offered jobs have a bunch of 500 and a limit of 2000: with 2050 queued
    nothing is made. Where no job runs and the total walltime of those queued is not known, the limit alone decides.
    """
    running = sum(counts.get(state, 0) for state in RUNNING)
    not_running = sum(counts.get(state, 0) for state in NOT_RUNNING)
    defined, waiting = counts.get("defined", 0), counts.get("waiting", 0)
    offered = counts.get(OFFERED, 0)
    queued = not_running + defined + offered
    bunch = min(max(500, int(running * limits.threshold - not_running)), 600)
    limit = limits.n_queue_limit if limits.n_queue_limit is not None else 4 * bunch
    numbers: dict[str, float] = {
        "running": running, "not_running": not_running, "defined": defined, "offered": offered,
        "waiting": waiting,
        "threshold": limits.threshold, "queue_limit": limit, "bunch": bunch,
    }  # fmt: skip

    def skip(reason: str) -> ThrottleDecision:
        """Generate nothing now, for this reason."""
        return ThrottleDecision(False, reason, 0, numbers)

    if share_is_throttled:
        if limits.n_running_cap is not None and running > limits.n_running_cap:
            return skip(f"{running} running jobs are more than the cap {limits.n_running_cap}")
        if running == 0 and queued > limit:
            return skip(f"nothing runs and {queued} queued jobs are more than the limit {limit}")
        if running and queued / running > limits.threshold and queued > limit:
            return skip(f"{queued} queued jobs are more than {limits.threshold:g} x {running} running and {limit}")
        if defined > limit:
            return skip(f"{defined} defined jobs are more than the limit {limit}")
        if waiting > max(4 * running, 2 * bunch):
            return skip(f"{waiting} waiting jobs are more than {max(4 * running, 2 * bunch)}")
        if limits.n_queue_cap is not None and queued > limits.n_queue_cap:
            return skip(f"{queued} queued jobs are more than the cap {limits.n_queue_cap}")
    max_jobs = bunch // 2 if limits.n_queue_cap is None else max(1, limits.n_queue_cap // 5)
    if queued < 0.9 * limit or queued < running:
        max_jobs = max(max_jobs, limit // 20)
    return ThrottleDecision(True, "not enough jobs are queued", max_jobs, numbers)
