"""Use by users as analysis brokerage sees it: what all decisions share, and what is the task's own.

The shared part has one value for each queue, so that a change of one queue costs one queue. Both parts are made of
counted rows: all of them in a world file, sums of them from the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from shared.brokerage.classes import SiteWaits
from shared.model.world_file import GroupUsage, JobsCounted, Outcomes, QueueHistory, UserUsage
from shared.states.job import JobStatus

USER_SHARE, EXPRESS_SHARE = "User Analysis", "Express Analysis"
CLASSIFIED_SHARES = frozenset({USER_SHARE, EXPRESS_SHARE})
QUEUED: frozenset[JobStatus] = frozenset({"defined", "assigned", "activated", "starting", "sent"})
RUNNING: JobStatus = "running"
# How long the past is looked at: a day of starts (and the hour that it began in), four days of waiting times.
STARTS_KEPT, WAITS_KEPT = timedelta(hours=25), timedelta(days=4)


@dataclass(frozen=True, slots=True)
class ShareCounts:
    """Jobs of one VO and share at one queue, running cores, and the users whose jobs they are."""

    queued: int = 0
    running: int = 0
    running_cores: int = 0
    n_users: int = 0


@dataclass(frozen=True)
class QueueUsage:
    """One queue: counts by VO and share, starts by share and hour, waits of analysis merge jobs.

    Starts and waits are of all VOs: how fast the queue is, whoever's jobs it takes.
    """

    shares: Mapping[tuple[str, str], ShareCounts] = field(default_factory=dict)
    starts: Sequence[tuple[str, datetime, int]] = ()
    waits: SiteWaits = field(default_factory=SiteWaits)

    def followed_by(self, recent: QueueUsage, since: datetime, now: datetime) -> QueueUsage:
        """This past up to the hour `since`, and all else from `recent`."""
        starts = [row for row in self.starts if now - STARTS_KEPT < row[1] < since]
        hours = [row for row in self.waits.hours if now - WAITS_KEPT < row[0] < since]
        return _queue_usage(
            recent.shares, [*starts, *recent.starts], [*hours, *recent.waits.hours], recent.waits.waiting_since
        )


@dataclass(frozen=True)
class Usage:
    """All queues, the percent of everything that is due to each share, and the level-1 share above each."""

    queues: Mapping[str, QueueUsage] = field(default_factory=dict)
    share_percent: Mapping[str, float] = field(default_factory=dict)
    level_1: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def running_cores(self) -> Mapping[str, int]:
        """Those of each share at all queues, summed once for all decisions that share this value."""
        found: dict[str, int] = {}
        for queue in self.queues.values():
            for (_, gshare), counts in queue.shares.items():
                found[gshare] = found.get(gshare, 0) + counts.running_cores
        return found

    def updated(self, names: Iterable[str], recent: Mapping[str, QueueUsage], since: datetime, now: datetime) -> Usage:
        """Usage with some queues replaced; of their past only the hours from `since` on were read."""
        nothing = QueueUsage()
        again = {
            queue: self.queues.get(queue, nothing).followed_by(recent.get(queue, nothing), since, now)
            for queue in names
        }
        return replace(self, queues={**self.queues, **again})


@dataclass(frozen=True)
class OwnUsage:
    """Rows of the task's user, outcomes of the task, the user's disk, and the task's working group."""

    counts: Sequence[JobsCounted] = ()
    outcomes: Sequence[Outcomes] = ()
    disk: UserUsage = field(default_factory=UserUsage)
    group: GroupUsage = field(default_factory=GroupUsage)


@dataclass(frozen=True)
class UsageRows:
    """Everything that is counted, of all users and queues: what a world file has."""

    statistics: Sequence[JobsCounted] = ()
    history: QueueHistory = field(default_factory=QueueHistory)
    share_percent: Mapping[str, float] = field(default_factory=dict)
    level_1: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, UserUsage] = field(default_factory=dict)
    groups: Mapping[str, GroupUsage] = field(default_factory=dict)
    users_of_vos: Mapping[tuple[str, str], UserUsage] = field(default_factory=dict)
    groups_of_vos: Mapping[tuple[str, str], GroupUsage] = field(default_factory=dict)

    def shared(self) -> Usage:
        """What all decisions share."""
        return Usage(
            queue_usages(
                counts_of_shares(self.statistics),
                ((one.queue, one.gshare, one.hour, one.n_started) for one in self.history.outcomes),
                (
                    (one.queue, one.hour, one.n_jobs, one.wait_s, one.wait_squared_s2)
                    for one in self.history.waits
                    if one.job_type == "merge" and one.gshare in CLASSIFIED_SHARES
                ),
                ((one.queue, one.since) for one in self.history.waiting_merge_jobs),
            ),
            self.share_percent,
            self.level_1,
        )

    def own(self, *, task_id: int, user_name: str, working_group: str, vo: str = "") -> OwnUsage:
        """What is one task's own."""
        disk = self.users_of_vos.get((user_name, vo)) or self.users.get(user_name, UserUsage())
        group = self.groups_of_vos.get((working_group, vo)) or self.groups.get(working_group, GroupUsage())
        return OwnUsage(
            [row for row in self.statistics if row.user_name == user_name and row.vo == vo],
            [row for row in self.history.outcomes if row.task_id == task_id],
            disk,
            GroupUsage.model_validate({name: getattr(group, name) for name in GroupUsage.model_fields}),
        )


def counts_of_shares(statistics: Iterable[JobsCounted]) -> dict[tuple[str, str, str], ShareCounts]:
    """Sums by (queue, VO, share): what the database's own grouping gives."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    users: dict[tuple[str, str, str], set[str]] = {}
    for row in statistics:
        key = (row.queue, row.vo, row.gshare)
        found = sums.setdefault(key, [0, 0, 0])
        if row.status == RUNNING:
            found[1] += row.n_jobs
            found[2] += row.n_cores
        elif row.status in QUEUED:
            found[0] += row.n_jobs
        else:
            continue
        if row.n_jobs > 0:
            users.setdefault(key, set()).add(row.user_name)
    return {
        key: ShareCounts(queued, running, running_cores, len(users.get(key, ())))
        for key, (queued, running, running_cores) in sums.items()
    }


def queue_usages(
    counts: Mapping[tuple[str, str, str], ShareCounts],
    starts: Iterable[tuple[str, str, datetime, int]],
    waits: Iterable[tuple[str, datetime, int, float, float]],
    waiting_merge_jobs: Iterable[tuple[str, datetime]],
) -> dict[str, QueueUsage]:
    """Each queue's part of rows that begin with a queue.

    Counts by (queue, VO, share); starts: queue, share, hour, jobs; waits of analysis merge jobs: queue, hour, jobs, sum
    and sum of squares of seconds; since when each analysis merge job waits.
    """
    shares: dict[str, dict[tuple[str, str], ShareCounts]] = {}
    for (queue, vo, gshare), found in counts.items():
        shares.setdefault(queue, {})[vo, gshare] = found
    started: dict[str, dict[tuple[str, datetime], int]] = {}
    for queue, gshare, hour, n_started in starts:
        if n_started > 0:
            of_queue = started.setdefault(queue, {})
            of_queue[gshare, hour] = of_queue.get((gshare, hour), 0) + n_started
    hours: dict[str, list[tuple[datetime, int, float, float]]] = {}
    for queue, hour, n_jobs, wait_s, wait_squared_s2 in waits:
        hours.setdefault(queue, []).append((hour, n_jobs, wait_s, wait_squared_s2))
    since: dict[str, list[datetime]] = {}
    for queue, at in waiting_merge_jobs:
        since.setdefault(queue, []).append(at)
    return {
        queue: _queue_usage(
            shares.get(queue, {}),
            [(gshare, hour, number) for (gshare, hour), number in started.get(queue, {}).items()],
            hours.get(queue, []),
            since.get(queue, ()),
        )
        for queue in shares.keys() | started.keys() | hours.keys() | since.keys()
    }


def _queue_usage(
    shares: Mapping[tuple[str, str], ShareCounts],
    starts: Iterable[tuple[str, datetime, int]],
    hours: Iterable[tuple[datetime, int, float, float]],
    waiting_since: Iterable[datetime],
) -> QueueUsage:
    in_order = sorted(starts)
    last = max((hour for gshare, hour, _ in in_order if gshare in CLASSIFIED_SHARES), default=None)
    return QueueUsage(shares, in_order, SiteWaits(last, tuple(hours), tuple(waiting_since)))


def percent_of_shares(shares: Iterable[tuple[str, float, str | None]]) -> dict[str, float]:
    """Percent of everything that is due to each share (name, value, parent); values count among siblings."""
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


def level_1_of_shares(shares: Iterable[tuple[str, float, str | None]]) -> dict[str, str]:
    """The share just below the top of the tree that each share of (name, value, parent) belongs to."""
    parents = {name: parent for name, _, parent in shares}
    found = {}
    for name in parents:
        top, seen = name, {name}
        while (parent := parents.get(top)) is not None and parent not in seen:
            top = parent
            seen.add(parent)
        found[name] = top
    return found
