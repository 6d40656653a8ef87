"""Facts of analysis brokerage beyond grid and load: use by users, waits of jobs, success of a task.

Derived from counts by pure functions, so that a live decision and a dry run derive the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.classes import CLASS_A, MID, TaskProgress, classify_sites, classify_task
from shared.brokerage.columns import QueueColumns
from shared.brokerage.limits import AnalysisLimits
from shared.brokerage.usage import CLASSIFIED_SHARES, EXPRESS_SHARE, QUEUED, RUNNING, USER_SHARE, OwnUsage, Usage
from shared.model.world_file import GroupUsage, JobsCounted, UserUsage

Real = NDArray[np.float64]
START_RATE_HOURS = 6
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class TaskFacts:
    """The task whose chunk is placed; `queues_used`: where it has had jobs."""

    task_id: int
    user_name: str
    working_group: str
    gshare: str
    vo: str = ""
    progress: TaskProgress = field(default_factory=TaskProgress)
    queues_used: frozenset[str] = frozenset()
    avoid_vp: bool = False


@dataclass(frozen=True)
class AnalysisFacts:
    """Arrays have one number for each row of the columns, that of its queue.

    Jobs are those of the task's VO and share; class and starts of a queue are of all VOs.
    """

    task: TaskFacts
    limits: AnalysisLimits
    usage: GroupUsage
    disk: UserUsage
    task_class: int
    slots_in_hi_sites: int
    share_usage_percent: float
    site_class: NDArray[np.int64]
    queued: Real
    running: Real
    queued_of_user: Real
    running_of_user: Real
    n_users: Real
    started_per_hour: Real
    finished_of_task: Real
    bad_of_task: Real


@dataclass(frozen=True)
class AnalysisInput:
    """What a request for an analysis task carries: the facts follow from it for the columns of a world."""

    task: TaskFacts
    limits: AnalysisLimits = field(default_factory=AnalysisLimits)
    usage: Usage = field(default_factory=Usage)
    own: OwnUsage = field(default_factory=OwnUsage)
    # The last facts that were derived; never part of the value, never copied.
    _known: dict[str, tuple[QueueColumns, datetime, AnalysisFacts]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __getstate__(self) -> dict[str, Any]:
        """Without what was computed on the way."""
        return {**self.__dict__, "_known": {}}

    def facts(self, columns: QueueColumns, now: datetime) -> AnalysisFacts:
        """What follows from it at these columns, derived once: two requests may share it."""
        known = self._known.get("facts")
        if known is None or known[0] is not columns or known[1] != now:
            known = self._known["facts"] = (columns, now, analysis_facts(self, columns, now))
        return known[2]


def _by_row(columns: QueueColumns, numbers: Mapping[str, float]) -> Real:
    found = np.zeros(len(columns))
    for queue, number in numbers.items():
        rows = columns.rows_of_queue.get(queue)
        if rows is not None:
            found[rows] = number
    return found


def _sum(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for queue, number in rows:
        found[queue] = found.get(queue, 0.0) + number
    return found


def analysis_facts(given: AnalysisInput, columns: QueueColumns, now: datetime) -> AnalysisFacts:
    """Derive everything for one task."""
    task, limits, usage = given.task, given.limits, given.usage
    share = (task.vo, task.gshare)
    here = {queue: one.shares[share] for queue, one in usage.queues.items() if share in one.shares}
    mine = [row for row in given.own.counts if row.gshare == task.gshare]
    site_class = classify_sites({queue: one.waits for queue, one in usage.queues.items()}, now)
    slots_hi, slots_mid = _slots(given.own.counts, site_class)
    task_class = (
        classify_task(
            task.gshare == EXPRESS_SHARE,
            slots_hi,
            slots_mid,
            task.progress,
            slots=(limits.class_a_slots, limits.class_b_slots),
            boost_a=(limits.progress_to_boost_a, limits.max_jobs_to_boost_a),
            boost_b=(limits.progress_to_boost_b, limits.max_jobs_to_boost_b),
        )
        if task.gshare in CLASSIFIED_SHARES
        else CLASS_A
    )
    done_since = now - timedelta(hours=limits.done_jobs_window_h)
    done = [one for one in given.own.outcomes if one.hour + HOUR > done_since]
    return AnalysisFacts(
        task=task,
        limits=limits,
        usage=_usage(given.own, task),
        disk=given.own.disk,
        task_class=task_class,
        slots_in_hi_sites=slots_hi,
        share_usage_percent=share_usage(usage),
        site_class=_by_row(columns, {queue: float(one) for queue, one in site_class.items()}).astype(np.int64),
        queued=_by_row(columns, {queue: one.queued for queue, one in here.items()}),
        running=_by_row(columns, {queue: one.running for queue, one in here.items()}),
        queued_of_user=_by_row(columns, _sum((row.queue, row.n_jobs) for row in mine if row.status in QUEUED)),
        running_of_user=_by_row(columns, _sum((row.queue, row.n_jobs) for row in mine if row.status == RUNNING)),
        n_users=_by_row(columns, {queue: one.n_users for queue, one in here.items()}),
        started_per_hour=_by_row(columns, _started_per_hour(usage, task.gshare, now)),
        finished_of_task=_by_row(columns, _sum((one.queue, one.n_finished) for one in done)),
        bad_of_task=_by_row(columns, _sum((one.queue, one.n_failed + one.n_closed) for one in done)),
    )


def _started_per_hour(usage: Usage, gshare: str, now: datetime) -> dict[str, float]:
    """trr: jobs of the share that began to run at each queue, by the hour, over the last six hours.

    They are counted by whole hours: of the oldest one that reaches into the six counts what is inside.
    """
    since = now - timedelta(hours=START_RATE_HOURS)

    def inside(hour: datetime) -> float:
        return min(1.0, max(0.0, (hour + HOUR - since) / HOUR))

    return {
        queue: sum(n_started * inside(hour) for share, hour, n_started in one.starts if share == gshare)
        / START_RATE_HOURS
        for queue, one in usage.queues.items()
        if one.starts
    }


def _usage(own: OwnUsage, task: TaskFacts) -> GroupUsage:
    """Jobs and cores of the user, or of the working group if the task names one."""
    if task.working_group:
        return own.group
    running = [row for row in own.counts if row.status == RUNNING]
    queued = [row for row in own.counts if row.status in QUEUED]
    return GroupUsage(
        running_jobs=max(0, sum(row.n_jobs for row in running)),
        queued_jobs=max(0, sum(row.n_jobs for row in queued)),
        running_cores=max(0, sum(row.n_cores for row in running)),
        queued_cores=max(0, sum(row.n_cores for row in queued)),
    )


def _slots(counts: Iterable[JobsCounted], site_class: Mapping[str, int]) -> tuple[int, int]:
    """Running cores of the user's analysis in hi and in mid sites."""
    found = {1: 0, 0: 0, -1: 0}
    for row in counts:
        if row.status == RUNNING and row.gshare in CLASSIFIED_SHARES:
            found[site_class.get(row.queue, MID)] += row.n_cores
    return max(0, found[1]), max(0, found[0])


def share_usage(usage: Usage) -> float:
    """Use of User Analysis or its level-1 share in percent of what is due, whichever is less.

    The first is its running cores in percent of what is due to it, the second those of everything below its level-1
    share in percent of what is due to that; NaN without a target, 0 if nothing runs.
    """
    running = usage.running_cores
    total, top = sum(running.values()), usage.level_1.get(USER_SHARE, USER_SHARE)
    below = sum(cores for gshare, cores in running.items() if usage.level_1.get(gshare, gshare) == top)
    due, due_to_top = usage.share_percent.get(USER_SHARE, 0.0), usage.share_percent.get(top, 0.0)
    if due <= 0:
        return float("nan")
    if total <= 0:
        return 0.0
    return min(
        100.0 * (cores / total) / (part / 100.0)
        for cores, part in ((running.get(USER_SHARE, 0), due), (below, due_to_top))
    )
