"""What one event about jobs changes in the statistics. Pure: sums of moves by key, sorted by key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from shared.events.jobs import DatedMoves, JobMove, ShareMove
from shared.states.job import FINAL, JobStatus

# Entering one of these means that a pilot asked for work, or that a job started.
PILOT_ASKED: frozenset[JobStatus] = frozenset({"sent"})
STARTED: frozenset[JobStatus] = frozenset({"starting", "running"})
WAITED_FOR_A_PILOT: frozenset[JobStatus] = frozenset({"activated", "sent", "starting"})

#: queue, resource type, share, user, state, VO
StatisticsKey = tuple[str, str, str, str, str, str]
OutcomeKey = tuple[datetime, str, str, int]
#: audits in a row that have to find the same difference of a row that changed meanwhile
AUDITS_OF_BUSY_ROWS = 5
OUTCOMES = ("started", "finished", "failed", "closed", "cancelled")


@dataclass(frozen=True)
class Change:
    """Jobs and cores to add to one row of the statistics."""

    key: StatisticsKey
    n_jobs: int
    n_cores: int


def changes_of(moves: Iterable[JobMove], vos: Mapping[int, str]) -> list[Change]:
    """Rows of the statistics with what to add; `vos` of the tasks that have one.

    Final states are not counted: they only grow.

    Moves that cancel each other out leave nothing to write.
    """
    sums: dict[StatisticsKey, list[int]] = defaultdict(lambda: [0, 0])
    for move in moves:
        for status, sign in ((move.from_status, -1), (move.to_status, 1)):
            if status is None or status in FINAL:
                continue
            row = sums[move.queue, move.resource_type, move.gshare, move.user_name, status, vos.get(move.task_id, "")]
            row[0] += sign * move.n_jobs
            row[1] += sign * move.n_cores
    return [Change(key, jobs, cores) for key, (jobs, cores) in sorted(sums.items()) if jobs or cores]


def changes_of_shares(moves: Iterable[ShareMove], vos: Mapping[int, str]) -> list[Change]:
    """The same for jobs that wait in another share from now on."""
    sums: dict[StatisticsKey, list[int]] = defaultdict(lambda: [0, 0])
    for move in moves:
        for gshare, sign in ((move.from_gshare, -1), (move.to_gshare, 1)):
            vo = vos.get(move.task_id, "")
            row = sums[move.queue, move.resource_type, gshare, move.user_name, move.status, vo]
            row[0] += sign * move.n_jobs
            row[1] += sign * move.n_cores
    return [Change(key, jobs, cores) for key, (jobs, cores) in sorted(sums.items()) if jobs or cores]


def signs_of_life(dated: Iterable[DatedMoves], now: datetime) -> dict[str, tuple[datetime | None, datetime | None]]:
    """For each queue: when a pilot last asked, when a job last started; sorted by queue.

    Undated moves are of `now`.
    """
    asked: dict[str, datetime] = {}
    started: dict[str, datetime] = {}
    for at, move in _each(dated, now):
        for known, statuses in ((asked, PILOT_ASKED), (started, STARTED)):
            if move.to_status in statuses:
                known[move.queue] = max(at, known.get(move.queue, at))
    return {queue: (asked.get(queue), started.get(queue)) for queue in sorted({*asked, *started})}


def _each(dated: Iterable[DatedMoves], now: datetime) -> Iterator[tuple[datetime, JobMove]]:
    return ((at or now, move) for at, moves in dated for move in moves)


def outcomes_of(dated: Iterable[DatedMoves], now: datetime) -> dict[OutcomeKey, dict[str, int]]:
    """Jobs that left the queue (started) or ended, by hour, queue, share and task; sorted by key.

    Undated moves are of `now`.
    """
    found: dict[OutcomeKey, dict[str, int]] = {}
    for at, move in _each(dated, now):
        hour = at.replace(minute=0, second=0, microsecond=0)
        to_running = move.to_status == "running" and move.from_status in WAITED_FOR_A_PILOT
        name = "started" if to_running else move.to_status
        if name in OUTCOMES:
            counts = found.setdefault((hour, move.queue, move.gshare, move.task_id), dict.fromkeys(OUTCOMES, 0))
            counts[name] += move.n_jobs
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Drift:
    """By how much table jobs differs from one row of the statistics, and which version of the row that is.

    `n_times`: audits in a row that found it.
    """

    n_jobs: int
    n_cores: int
    version: int = 0
    n_times: int = 1


def seen_again(before: Mapping[StatisticsKey, Drift], now: Mapping[StatisticsKey, Drift]) -> dict[StatisticsKey, Drift]:
    """What an audit found, with how many audits in a row found it alike."""
    found = {}
    for key, one in now.items():
        known = before.get(key)
        alike = known is not None and (known.n_jobs, known.n_cores) == (one.n_jobs, one.n_cores)
        found[key] = replace(one, n_times=known.n_times + 1) if known is not None and alike else one
    return found


def confirmed_drift(before: Mapping[StatisticsKey, Drift], found: Mapping[StatisticsKey, Drift]) -> list[Change]:
    """Differences that are none of events on their way: correcting those would count the events twice.

    Two audits found them alike and nothing was counted in between; where jobs come and go all the time two audits may
    each meet one event on its way, and it takes more of them.
    """
    return [
        Change(key, one.n_jobs, one.n_cores)
        for key, one in sorted(found.items())
        if one.n_times >= (2 if key in before and before[key].version == one.version else AUDITS_OF_BUSY_ROWS)
    ]
