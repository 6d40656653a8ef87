"""What one event about jobs changes in the statistics. Pure: sums of moves by key, sorted by key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from shared.events.jobs import JobMove, ShareMove
from shared.states.job import FINAL, JobStatus

# Entering one of these means that a pilot asked for work, or that a job started.
PILOT_ASKED: frozenset[JobStatus] = frozenset({"sent"})
STARTED: frozenset[JobStatus] = frozenset({"starting", "running"})
WAITED_FOR_A_PILOT: frozenset[JobStatus] = frozenset({"activated", "sent", "starting"})

StatisticsKey = tuple[str, str, str, str, str]
OutcomeKey = tuple[datetime, str, str, int]
OUTCOMES = ("started", "finished", "failed", "closed", "cancelled")


@dataclass(frozen=True)
class Change:
    """Jobs and cores to add to one row of the statistics."""

    key: StatisticsKey
    n_jobs: int
    n_cores: int


def changes_of(moves: Iterable[JobMove]) -> list[Change]:
    """Rows (queue, resource type, share, user, status) with what to add.

    Final states are not counted: they only grow.

    Moves that cancel each other out leave nothing to write.
    """
    sums: dict[StatisticsKey, list[int]] = defaultdict(lambda: [0, 0])
    for move in moves:
        for status, sign in ((move.from_status, -1), (move.to_status, 1)):
            if status is None or status in FINAL:
                continue
            row = sums[move.queue, move.resource_type, move.gshare, move.user_name, status]
            row[0] += sign * move.n_jobs
            row[1] += sign * move.n_cores
    return [Change(key, jobs, cores) for key, (jobs, cores) in sorted(sums.items()) if jobs or cores]


def changes_of_shares(moves: Iterable[ShareMove]) -> list[Change]:
    """The same for jobs that wait in another share from now on."""
    sums: dict[StatisticsKey, list[int]] = defaultdict(lambda: [0, 0])
    for move in moves:
        for gshare, sign in ((move.from_gshare, -1), (move.to_gshare, 1)):
            row = sums[move.queue, move.resource_type, gshare, move.user_name, move.status]
            row[0] += sign * move.n_jobs
            row[1] += sign * move.n_cores
    return [Change(key, jobs, cores) for key, (jobs, cores) in sorted(sums.items()) if jobs or cores]


def signs_of_life(moves: Iterable[JobMove], at: datetime) -> dict[str, tuple[datetime | None, datetime | None]]:
    """For each queue: when a pilot last asked, when a job last started; sorted by queue."""
    asked = {move.queue for move in moves if move.to_status in PILOT_ASKED}
    started = {move.queue for move in moves if move.to_status in STARTED}
    return {
        queue: (at if queue in asked else None, at if queue in started else None) for queue in sorted(asked | started)
    }


def outcomes_of(moves: Iterable[JobMove], at: datetime) -> dict[OutcomeKey, dict[str, int]]:
    """Jobs that left the queue (started) or ended, by hour, queue, share and task; sorted by key."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    found: dict[OutcomeKey, dict[str, int]] = {}
    for move in moves:
        to_running = move.to_status == "running" and move.from_status in WAITED_FOR_A_PILOT
        name = "started" if to_running else move.to_status
        if name in OUTCOMES:
            counts = found.setdefault((hour, move.queue, move.gshare, move.task_id), dict.fromkeys(OUTCOMES, 0))
            counts[name] += move.n_jobs
    return dict(sorted(found.items()))


def confirmed_drift(
    before: dict[StatisticsKey, tuple[int, int]], now: dict[StatisticsKey, tuple[int, int]]
) -> list[Change]:
    """Differences that two audits in a row found alike.

    A difference of one audit may only be an event on its way: correcting it would count that event twice.
    """
    return [Change(key, *value) for key, value in sorted(now.items()) if before.get(key) == value]
