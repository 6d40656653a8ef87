"""Fast rebrokerage: which queues have too much of a share waiting (PanDA brokerage: Timeout Rules, the last one).

A job that waits where little of its share runs, while most of what waits in the share waits there too, is closed and
made again elsewhere, long before its own time limit. Counts are jobs. Waiting is defined, assigned, activated or
starting; running is running, so a job on its way to a pilot (sent) is neither.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from services.watchdog.policy.jobs import Verdict

#: error code of the field (task buffer)
FAST_REBROKERAGE = 130
RULE = "fast_rebrokerage"
WAITING = ("defined", "assigned", "activated", "starting")
RUNNING = "running"


@dataclass(frozen=True)
class Thresholds:
    """FAST_REBRO_THRESHOLD_NQNR_RATIO, _NQUEUE_FRAC and, by share, _NQUEUE_<gshare>; a share without it never
    triggers.
    """

    ratio: float = 3.0
    fraction: float = 0.3
    n_queued: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ShareAtQueue:
    """Jobs of one share at one queue; `exempt`: paused or with disableReassign, where no timeout rule holds."""

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
    def verdict(self) -> Verdict:
        """What becomes of each of the jobs; they share one sentence, and so one event."""
        return Verdict("closed", RULE, FAST_REBROKERAGE, self.reason)


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
    """Just as many go as bring the queue to the first threshold on its way down: ceil(min(nQueue - ratio x nRun,
    nQueue - limit, nQueue - fraction x nQueue_total)).
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
