"""Fast rebrokerage: which queues have too much of a share waiting.

Source: PanDA brokerage, Timeout Rules, the last one.

A job that waits where little of its share runs, while most of what waits in the share waits there too, is closed and
made again elsewhere, long before its own time limit. Counts are jobs. Waiting is defined, assigned, activated or
starting; running is running, so a job on its way to a pilot (sent) is neither.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.config.parameter import SERVER, SHARE, Parameter, set_by
from shared.states.job import JobStatus
from shared.timeouts.built_in import BEFORE_RUNNING, FAST_REBROKERAGE
from shared.timeouts.judging import Expiry

RULE = "fast_rebrokerage"
WAITING = BEFORE_RUNNING
RUNNING: JobStatus = "running"


N_QUEUED: Parameter[float | None] = Parameter(
    "rebroker",
    "FAST_REBRO_THRESHOLD_NQUEUE",
    None,
    "jobs",
    "waiting at a queue; not set: none closed",
    1,
    kind="float",
    suffixes=(SHARE,),
    only_family=True,
    app=SERVER,
)


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of fast rebrokerage; a share without its own never triggers.

    FAST_REBRO_THRESHOLD_NQNR_RATIO, _NQUEUE_FRAC and, by share, _NQUEUE_<gshare>.
    """

    ratio: float = set_by(
        Parameter(
            "rebroker",
            "FAST_REBRO_THRESHOLD_NQNR_RATIO",
            3.0,
            "",
            "waiting to running jobs of a share at a queue",
            app=SERVER,
        ),
        float,
    )
    fraction: float = set_by(
        Parameter(
            "rebroker",
            "FAST_REBRO_THRESHOLD_NQUEUE_FRAC",
            0.3,
            "",
            "part of what waits in the share",
            high=1,
            app=SERVER,
        ),
        float,
    )
    n_queued: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ShareAtQueue:
    """Jobs of one share at one queue; `exempt`: paused or disableReassign, where no timeout rule holds."""

    queue: str
    gshare: str
    n_queued: int
    n_running: int
    exempt: bool = False


@dataclass(frozen=True)
class Overload:
    """A share that overloads a queue: `n_excess` of its waiting jobs go, `reason` says by which numbers."""

    queue: str
    gshare: str
    n_excess: int
    reason: str

    @property
    def verdict(self) -> Expiry:
        """What becomes of each of the jobs; they share one sentence, and so one event."""
        return Expiry("closed", RULE, FAST_REBROKERAGE, self.reason)


def overloads(counts: Iterable[ShareAtQueue], thresholds: Thresholds) -> list[Overload]:
    """Where all three thresholds are passed, the largest excess first.

    `counts` has every queue at which the share has jobs, for nQueue_total is their sum; queues with slots of their own
    and the work of resource queues are in neither number, for there many wait on purpose. A queue without running
    jobs passes the ratio with its first waiting one.
    """
    of_shares = [one for one in counts if one.gshare in thresholds.n_queued]
    totals: Counter[str] = Counter()
    for one in of_shares:
        totals[one.gshare] += one.n_queued
    found = [
        overload
        for one in of_shares
        if not one.exempt and (overload := _overload(one, totals[one.gshare], thresholds)) is not None
    ]
    return sorted(found, key=lambda one: (-one.n_excess, one.queue, one.gshare))


def _overload(one: ShareAtQueue, n_queued_total: int, thresholds: Thresholds) -> Overload | None:
    """How many jobs must go to bring the queue down to the first threshold that it meets.

    It is ceil(min(nQueue - ratio x nRun, nQueue - limit, nQueue - fraction x nQueue_total)). Why the least: the
    queue is no longer overloaded once one threshold holds. Example: of 100 jobs with 20 running, ratio 3, a limit of 30
    and 0.1 of 200 in all, 100 - 60 = 40 go. Source: PanDA brokerage, Timeout Rules.
    """
    limit = thresholds.n_queued[one.gshare]
    allowed = max(thresholds.ratio * one.n_running, thresholds.fraction * n_queued_total, limit)
    n_excess = one.n_queued - math.floor(allowed)
    if n_excess <= 0:
        return None
    reason = (
        f"fast rebrokerage: {one.n_queued} jobs of share {one.gshare} waited at {one.queue}, more than "
        f"{thresholds.ratio:g} x {one.n_running} running there, {thresholds.fraction:g} x {n_queued_total} waiting in "
        f"the whole share, and the {limit:g} that its queues may have"
    )
    return Overload(one.queue, one.gshare, n_excess, reason)


def within(found: Sequence[Overload], most: int) -> list[tuple[Overload, int]]:
    """How many jobs each may lose in one run that ends at most so many."""
    allotted = []
    for overload in found:
        n_jobs = min(overload.n_excess, most)
        if n_jobs > 0:
            allotted.append((overload, n_jobs))
            most -= n_jobs
    return allotted


def parted(
    allotted: Sequence[tuple[Overload, int]], most: int
) -> tuple[list[tuple[Overload, int]], list[tuple[Overload, int]]]:
    """What goes now, at most so many jobs, and what goes later.

    Example: of 300 and 400 at most 500 now: 300 and 200, and the other 200 later.
    """
    now, later = list[tuple[Overload, int]](), list[tuple[Overload, int]]()
    for overload, n_jobs in allotted:
        n_now = min(n_jobs, most)
        most -= n_now
        if n_now:
            now.append((overload, n_now))
        if n_jobs > n_now:
            later.append((overload, n_jobs - n_now))
    return now, later
