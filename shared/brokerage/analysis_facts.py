"""What analysis brokerage knows beyond grid and load: who uses how much, how long jobs wait, how a task fares.

Derived from counts by pure functions, so that a live decision and a dry run derive the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.classes import CLASS_A, MID, SiteWaits, TaskProgress, classify_sites, classify_task
from shared.brokerage.columns import QueueColumns
from shared.model.world_file import GroupUsage, JobsCounted, QueueHistory, UserUsage

Real = NDArray[np.float64]
USER_SHARE, EXPRESS_SHARE = "User Analysis", "Express Analysis"
CLASSIFIED_SHARES = frozenset({USER_SHARE, EXPRESS_SHARE})
QUEUED = frozenset({"defined", "assigned", "activated", "starting", "sent"})
START_RATE_HOURS = 6


@dataclass(frozen=True)
class AnalysisLimits:
    """Components `anal_jobbroker`, `prio_mgr` and `analy_eval`; 0 for a cap: there is none."""

    running_jobs_cap: int = 0  # CAP_RUNNING_USER_JOBS, CAP_RUNNING_GROUP_JOBS
    running_cores_cap: int = 0  # CAP_RUNNING_USER_CORES, CAP_RUNNING_GROUP_CORES
    class_a_slots: int = 1000  # USER_USAGE_THRESHOLD_A
    class_b_slots: int = 8000  # USER_USAGE_THRESHOLD_B
    progress_to_boost_a: float = 90.0  # PROGRESS_TO_BOOST_A
    progress_to_boost_b: float = 95.0  # PROGRESS_TO_BOOST_B
    max_jobs_to_boost_a: int = 500  # MAX_REM_JOBS_TO_BOOST_A
    max_jobs_to_boost_b: int = 200  # MAX_REM_JOBS_TO_BOOST_B
    done_jobs_window_h: float = 6.0  # TW_DONE_JOB_STAT
    min_bad_jobs: int = 5  # MIN_BAD_JOBS_TO_SKIP_PQ
    base_queue_length: float = 100.0  # BASE_QUEUE_LENGTH_PER_PQ
    base_expected_wait_h: float = 8.0  # BASE_EXPECTED_WAIT_HOUR_ON_PQ
    base_user_queue_length: float = 5.0  # BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER
    base_queue_ratio: float = 0.05  # BASE_QUEUE_RATIO_ON_PQ
    max_queue_running_ratio: float = 2.0  # STATIC_MAX_QUEUE_RUNNING_RATIO
    max_expected_wait_h: float = 12.0  # MAX_EXPECTED_WAIT_HOUR
    overload_min_queue: int = 20  # OVERLOAD_MIN_QUEUE
    overload_ratio_offset: float = 1.2  # OVERLOAD_RATIO_OFFSET
    user_queued_jobs_cap: int = 0  # MAX_QUEUED_JOBS_PER_PQ_USER
    max_sites_of_task: int = 10  # MAX_SITES_OF_TASK
    new_weight: bool = False  # USE_NEW_BASIC_WEIGHT


@dataclass(frozen=True)
class UsageRows:
    """Everything that is counted, of all users and queues."""

    statistics: Sequence[JobsCounted] = ()
    history: QueueHistory = field(default_factory=QueueHistory)
    share_percent: Mapping[str, float] = field(default_factory=dict)
    users: Mapping[str, UserUsage] = field(default_factory=dict)
    groups: Mapping[str, GroupUsage] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskFacts:
    """The task whose chunk is placed; `queues_used`: where it has had jobs."""

    task_id: int
    user_name: str
    working_group: str
    gshare: str
    progress: TaskProgress = field(default_factory=TaskProgress)
    queues_used: frozenset[str] = frozenset()
    avoid_vp: bool = False


@dataclass(frozen=True)
class AnalysisFacts:
    """Arrays have one number for each row of the columns, that of its queue. Jobs are those of the task's share."""

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
    rows: UsageRows = field(default_factory=UsageRows)


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


def analysis_facts(
    rows: UsageRows, columns: QueueColumns, task: TaskFacts, limits: AnalysisLimits, now: datetime
) -> AnalysisFacts:
    """Derive everything for one task."""
    ours = [row for row in rows.statistics if row.gshare == task.gshare]
    mine = [row for row in ours if row.user_name == task.user_name]
    site_class = classify_sites(site_waits(rows, now), now)
    slots_hi, slots_mid = _slots(rows.statistics, task.user_name, site_class)
    task_class = classify_task(
        task.gshare == EXPRESS_SHARE, slots_hi, slots_mid, task.progress,
        slots=(limits.class_a_slots, limits.class_b_slots),
        boost_a=(limits.progress_to_boost_a, limits.max_jobs_to_boost_a),
        boost_b=(limits.progress_to_boost_b, limits.max_jobs_to_boost_b),
    ) if task.gshare in CLASSIFIED_SHARES else CLASS_A  # fmt: skip
    users: dict[str, set[str]] = {}
    for row in ours:
        if row.n_jobs > 0 and (row.status in QUEUED or row.status == "running"):
            users.setdefault(row.queue, set()).add(row.user_name)
    started_since = now - timedelta(hours=START_RATE_HOURS)
    started = [one for one in rows.history.outcomes if one.gshare == task.gshare and one.hour >= started_since]
    done_since = now - timedelta(hours=limits.done_jobs_window_h)
    done = [one for one in rows.history.outcomes if one.task_id == task.task_id and one.hour >= done_since]
    return AnalysisFacts(
        task=task,
        limits=limits,
        usage=_usage(rows, task),
        disk=rows.users.get(task.user_name, UserUsage()),
        task_class=task_class,
        slots_in_hi_sites=slots_hi,
        share_usage_percent=_share_usage(rows),
        site_class=_by_row(columns, {queue: float(one) for queue, one in site_class.items()}).astype(np.int64),
        queued=_by_row(columns, _sum((row.queue, row.n_jobs) for row in ours if row.status in QUEUED)),
        running=_by_row(columns, _sum((row.queue, row.n_jobs) for row in ours if row.status == "running")),
        queued_of_user=_by_row(columns, _sum((row.queue, row.n_jobs) for row in mine if row.status in QUEUED)),
        running_of_user=_by_row(columns, _sum((row.queue, row.n_jobs) for row in mine if row.status == "running")),
        n_users=_by_row(columns, {queue: float(len(names)) for queue, names in users.items()}),
        started_per_hour=_by_row(columns, _sum((one.queue, one.n_started / START_RATE_HOURS) for one in started)),
        finished_of_task=_by_row(columns, _sum((one.queue, one.n_finished) for one in done)),
        bad_of_task=_by_row(columns, _sum((one.queue, one.n_failed + one.n_closed) for one in done)),
    )


def _usage(rows: UsageRows, task: TaskFacts) -> GroupUsage:
    """Jobs and cores of the user, or of the working group if the task names one."""
    if task.working_group:
        return rows.groups.get(task.working_group, GroupUsage())
    mine = [row for row in rows.statistics if row.user_name == task.user_name]
    running, queued = [row for row in mine if row.status == "running"], [row for row in mine if row.status in QUEUED]
    return GroupUsage(
        running_jobs=max(0, sum(row.n_jobs for row in running)), queued_jobs=max(0, sum(row.n_jobs for row in queued)),
        running_cores=max(0, sum(row.n_cores for row in running)),
        queued_cores=max(0, sum(row.n_cores for row in queued)),
    )  # fmt: skip


def _slots(statistics: Sequence[JobsCounted], user_name: str, site_class: Mapping[str, int]) -> tuple[int, int]:
    """Running cores of the user's analysis in hi and in mid sites."""
    found = {1: 0, 0: 0, -1: 0}
    for row in statistics:
        if row.user_name == user_name and row.status == "running" and row.gshare in CLASSIFIED_SHARES:
            found[site_class.get(row.queue, MID)] += row.n_cores
    return max(0, found[1]), max(0, found[0])


def _share_usage(rows: UsageRows) -> float:
    """Running cores of User Analysis in percent of what is due to it; NaN without a target, 0 if nothing runs."""
    due = rows.share_percent.get(USER_SHARE, 0.0)
    if due <= 0:
        return float("nan")
    running = _sum((row.gshare, row.n_cores) for row in rows.statistics if row.status == "running")
    total = sum(running.values())
    return 100.0 * (running.get(USER_SHARE, 0.0) / total) / (due / 100.0) if total > 0 else 0.0


def site_waits(rows: UsageRows, now: datetime) -> dict[str, SiteWaits]:
    """Waiting times of analysis merge jobs by queue, and whether analysis started there within a day."""
    started = {
        one.queue for one in rows.history.outcomes
        if one.n_started > 0 and one.gshare in CLASSIFIED_SHARES and one.hour >= now - timedelta(hours=24)
    }  # fmt: skip
    found: dict[str, SiteWaits] = {}
    for row in rows.history.waits:
        if row.job_type == "merge" and row.gshare in CLASSIFIED_SHARES:
            found.setdefault(row.queue, SiteWaits(row.queue in started)).hours.append(
                (row.hour, row.n_jobs, row.wait_s, row.wait_squared_s2)
            )
    for job in rows.history.waiting_merge_jobs:
        waits = found.setdefault(job.queue, SiteWaits(job.queue in started))
        waits.waiting_s.append((now - job.since).total_seconds())
    return found


def percent_of_shares(shares: Iterable[tuple[str, float, str | None]]) -> dict[str, float]:
    """Percent of everything that is due to each share of (name, value, parent): values count among siblings."""
    siblings: dict[str | None, list[tuple[str, float]]] = {}
    for name, value, parent in shares:
        siblings.setdefault(parent, []).append((name, value))
    percent: dict[str, float] = {}
    waiting: list[tuple[str | None, float]] = [(None, 100.0)]
    while waiting:
        parent, available = waiting.pop()
        total = sum(value for _, value in siblings.get(parent, ()))
        for name, value in siblings.get(parent, ()):
            percent[name] = available * value / total if total > 0 else 0.0
            waiting.append((name, percent[name]))
    return percent
