"""All SQL of the watchdog: rows in, values of the policy out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import cast

import asyncpg

from services.watchdog.policy.deadlines import Basis
from services.watchdog.policy.grace import Grace, LastRun
from services.watchdog.policy.rebrokerage import RUNNING, WAITING, Overload, ShareAtQueue
from services.watchdog.policy.tasks import (
    ENDED_PARENTS,
    PENDING_WAIT,
    PENDING_WAITS,
    AssigningTask,
    PendingLimits,
    PendingTask,
    Release,
    Throttle,
)
from shared.db.queries import Queries
from shared.db.turns import take_turn
from shared.events import JobMove, moves_of
from shared.model.co_jumbo import CO_JUMBO_QUEUE
from shared.states import JOB, TASK, Owner
from shared.states.job import JobStatus
from shared.states.task import TaskStatus
from shared.timeouts.built_in import FAST_REBROKERAGE, GROUP_RESTS, REBROKERED, WORKER_GONE
from shared.timeouts.judging import Expiry, FirstAsked
from shared.timeouts.rule import ES_PRIORITY, Group, Since, WatchedJob, WatchedQueue

SQL = Queries.beside(__file__)

EXPIRABLE = {target: JOB.sources(target, Owner.WATCHDOG) for target in ("failed", "closed")}
THROTTLEABLE = TASK.sources("throttled", Owner.WATCHDOG)
MOST_TASKS = 500
#: of a row of expire_jobs, for `moves_of`
_as_counted = itemgetter("task_id", "queue", "resource_type", "gshare", "user_name", "was", "core_count")
#: states other than pending in which a task may wait for a queue, a nucleus or its share
WOKEN_STATES = (
    "assigning", "ready", "scouting", "scouted", "running", "prepared", "finishing", "topreprocess", "preprocessing",
)  # fmt: skip


@dataclass(frozen=True)
class Expired:
    """Jobs that were ended by one statement, and the moves for the statistics."""

    job_ids: tuple[int, ...]
    moves: tuple[JobMove, ...]


async def start_run(connection: asyncpg.Connection, watch: str, period_s: float) -> LastRun | None:
    """Take this watch's turn: what is known of the previous run, or None if it is not due yet."""
    turn = await take_turn(connection, watch, period_s)
    if turn is None:
        return None
    row = await SQL.one(connection, "grace_of", watch=watch)
    return LastRun(turn.previous_at, row["grace_until"], row["grace_reason"], row["last_slice_at"])


async def record_grace(connection: asyncpg.Connection, watch: str, grace: Grace) -> None:
    """Keep until when nothing ends: what is due then ends little by little."""
    await SQL.run(connection, "record_grace", watch=watch, grace_until=grace.until, grace_reason=grace.reason)


async def dispatcher_seen_at(connection: asyncpg.Connection) -> datetime | None:
    return cast("datetime | None", await SQL.value(connection, "dispatcher_seen_at"))


async def give_back_turn(connection: asyncpg.Connection, watch: str, previous_at: datetime | None) -> None:
    """Let the next run come at once, as late as this one was; that this one was there is kept."""
    if previous_at is not None:
        await SQL.run(connection, "give_back_turn", watch=watch, previous_at=previous_at)


async def due_jobs(connection: asyncpg.Connection, asked: FactsAsked, before: datetime, most: int) -> list[WatchedJob]:
    """Read jobs whose deadline lies before a time, the earliest first."""
    rows = await SQL.rows(
        connection, "due_jobs", before=before, most=most, merges_before=asked.merges_before, es_priority=ES_PRIORITY,
        back_since=asked.now - asked.came_back,
    )  # fmt: skip
    return await _asked_jobs(connection, rows, asked)


async def concerned_jobs(
    connection: asyncpg.Connection, asked: FactsAsked, basis: Basis, *, looked_at: int, most: int
) -> tuple[int | None, list[WatchedJob]]:
    """Look at the next jobs by id: the last that was looked at, and those whom a change concerns.

    None: no more follow.
    """
    upto = cast("int | None", await SQL.value(connection, "upto_job", after=basis.moved_to, most=looked_at))
    if upto is None:
        return None, []
    rows = await SQL.rows(
        connection, "concerned_jobs", after=basis.moved_to, upto=upto, states=list(basis.moved_states),
        queues=list(basis.moved_queues), no_queue=CO_JUMBO_QUEUE, merges_before=asked.merges_before,
        most=most, es_priority=ES_PRIORITY, back_since=asked.now - asked.came_back,
    )  # fmt: skip
    return rows[-1]["job_id"] if len(rows) >= most else upto, await _asked_jobs(connection, rows, asked)


async def jobs_of_groups(
    connection: asyncpg.Connection, jobs: Sequence[WatchedJob], asked: FactsAsked, most: int
) -> list[WatchedJob]:
    """Read at most so many waiting jobs that were made with these for their queues, without these.

    Work that came back lately is left out.
    """
    rows = await SQL.rows(
        connection, "jobs_of_groups", task_ids=[job.task_id for job in jobs], chunk_ids=[job.chunk_id for job in jobs],
        queues=[job.queue_name for job in jobs], waiting=WAITING, codes=REBROKERED,
        back_since=asked.now - asked.came_back, most=most, but=[job.job_id for job in jobs],
    )  # fmt: skip
    return [replace(_job_facts(row, asked.queues), job_type=row["job_type"]) for row in rows]


async def put_off(connection: asyncpg.Connection, later: Sequence[tuple[WatchedJob, datetime]]) -> int:
    """Have rules asked again about these jobs at these times; of how many the deadline changed."""
    rows = await SQL.rows(
        connection,
        "put_off_jobs",
        job_ids=[job.job_id for job, _ in later],
        statuses=[job.status for job, _ in later],
        changed_at=[job.state_changed_at for job, _ in later],
        deadlines=[at for _, at in later],
    )
    return len(rows)


async def basis(connection: asyncpg.Connection) -> Basis | None:
    """Read by what jobs were judged; None: never yet."""
    row = await SQL.row(connection, "basis")
    if row is None:
        return None
    return Basis(row["states"], row["queues"], tuple(row["moved_states"]), tuple(row["moved_queues"]), row["moved_to"])


async def put_basis(connection: asyncpg.Connection, now: Basis, deadlines: Mapping[JobStatus, FirstAsked]) -> None:
    """Keep by what jobs are judged, and when those that change their state are asked about."""
    await SQL.run(
        connection, "put_basis", states=dict(now.states), queues=dict(now.queues),
        moved_states=list(now.moved_states), moved_queues=list(now.moved_queues), moved_to=now.moved_to,
    )  # fmt: skip
    await SQL.run(
        connection, "put_deadlines", statuses=list(deadlines), after_change=[one for one, _ in deadlines.values()],
        after_creation=[one for _, one in deadlines.values()],
    )  # fmt: skip


_UNKNOWN_QUEUE = WatchedQueue()


@dataclass(frozen=True)
class FactsAsked:
    """With what jobs are read.

    `merges_before`: whoever wrote the input of a merge job has not changed since. `came_back`: for which work that came
    back to a queue stays. `moved_at`: when groups last went on, of those that were asked about in this turn.
    """

    now: datetime
    queues: Mapping[str, WatchedQueue]
    merges_before: datetime
    came_back: timedelta
    moved_at: dict[Group, datetime | None] = field(default_factory=dict)


async def _asked_jobs(
    connection: asyncpg.Connection, rows: Sequence[asyncpg.Record], asked: FactsAsked
) -> list[WatchedJob]:
    """Jobs with everything that rules ask about them; when a group went on is read once in a turn."""
    jobs = [_asked_job(row, asked) for row in rows]
    since = asked.now - GROUP_RESTS
    resting = [
        job for job in jobs if job.is_analysis and job.status in WAITING and job.begin(Since.ACTIVATION) <= since
    ]
    if not resting:
        return jobs
    await _read_moves(connection, [job for job in resting if job.group not in asked.moved_at], asked, since)
    return [replace(job, group_moved_at=asked.moved_at.get(job.group)) for job in jobs]


async def _read_moves(
    connection: asyncpg.Connection, jobs: Sequence[WatchedJob], asked: FactsAsked, since: datetime
) -> None:
    """Read when the groups of these jobs last went on, for this turn."""
    groups = {job.group for job in jobs}
    if not groups:
        return
    asked.moved_at.update(dict.fromkeys(groups))
    moved = await SQL.rows(
        connection, "moves_of_groups", task_ids=[group[0] for group in groups],
        chunk_ids=[group[1] for group in groups], queues=[group[2] for group in groups], since=since,
    )  # fmt: skip
    for row in moved:
        asked.moved_at[row["task_id"], row["chunk_id"], row["queue"]] = row["moved_at"]


def _asked_job(row: asyncpg.Record, asked: FactsAsked) -> WatchedJob:
    """A job with everything that rules ask about it alone."""
    return replace(
        _job_facts(row, asked.queues),
        is_bound=row["is_bound"],
        came_back_until=None if row["taken_at"] is None else row["taken_at"] + asked.came_back,
        working_group=row["working_group"],
        stays=row["stays"],
        vo=row["vo"],
        job_type=row["job_type"],
        own_stage_out=row["own_stage_out"],
        producers_gone=row["producers_gone"],
        report_waits=row["report_waits"],
        in_job_set=row["in_job_set"],
        activated_at=row["activated_at"],
    )


def _job_facts(row: asyncpg.Record, queues: Mapping[str, WatchedQueue]) -> WatchedJob:
    name = row["queue"] or CO_JUMBO_QUEUE
    return WatchedJob(
        job_id=row["job_id"],
        status=row["status"],
        created_at=row["creation_time"],
        state_changed_at=row["state_change_time"],
        heartbeat_at=row["heartbeat_at"],
        priority=row["current_priority"],
        label=row["prod_source_label"],
        task_id=row["task_id"],
        chunk_id=row["chunk_id"],
        queue_name=name,
        queue=queues.get(name, _UNKNOWN_QUEUE),
    )


async def share_names(connection: asyncpg.Connection) -> list[str]:
    return [row["gshare"] for row in await SQL.rows(connection, "shares")]


async def crowded_shares(connection: asyncpg.Connection, n_queued: Mapping[str, float]) -> list[str]:
    """Read which of these shares may have more jobs waiting at a queue than that."""
    rows = await SQL.rows(
        connection, "crowded_shares", gshares=list(n_queued), n_queued=list(n_queued.values()), waiting=WAITING
    )
    return [row["gshare"] for row in rows]


async def jobs_by_queue_and_share(
    connection: asyncpg.Connection, gshares: Sequence[str], queues: Mapping[str, WatchedQueue]
) -> list[ShareAtQueue]:
    """Count waiting and running jobs of these shares, at every queue that fast rebrokerage counts."""
    rows = await SQL.rows(connection, "jobs_by_queue_and_share", gshares=gshares, waiting=WAITING, running=RUNNING)
    return [
        ShareAtQueue(
            row["queue"],
            row["gshare"],
            row["n_queued"],
            row["n_running"],
            exempt=queues.get(row["queue"], _UNKNOWN_QUEUE).off is not None,
        )
        for row in rows
    ]


async def overloads_left(connection: asyncpg.Connection) -> tuple[datetime | None, list[tuple[Overload, int]]]:
    """Read how many jobs each overloaded queue is still to lose, and when that was judged.

    None: nothing is left.
    """
    rows = await SQL.rows(connection, "overloads_left")
    left = [(Overload(row["queue"], row["gshare"], row["n_excess"], row["reason"]), row["n_left"]) for row in rows]
    return rows[0]["judged_at"] if rows else None, left


async def put_overloads(
    connection: asyncpg.Connection, left: Sequence[tuple[Overload, int]], judged_at: datetime
) -> None:
    """Keep how many jobs each overloaded queue is still to lose."""
    await SQL.run(
        connection, "put_overloads", queues=[one.queue for one, _ in left], gshares=[one.gshare for one, _ in left],
        n_excess=[one.n_excess for one, _ in left], n_left=[n_jobs for _, n_jobs in left],
        reasons=[one.reason for one, _ in left], judged_at=judged_at,
    )  # fmt: skip


async def jobs_to_rebroker(
    connection: asyncpg.Connection,
    allotted: Sequence[tuple[Overload, int]],
    queues: Mapping[str, WatchedQueue],
    again_s: float,
) -> dict[Overload, list[WatchedJob]]:
    """Read the oldest jobs of each overload, at most as many as it was allotted."""
    rows = await SQL.rows(
        connection,
        "jobs_to_rebroker",
        queues=[one.queue for one, _ in allotted],
        gshares=[one.gshare for one, _ in allotted],
        n_jobs=[n_jobs for _, n_jobs in allotted],
        waiting=WAITING,
        error_code=FAST_REBROKERAGE,
        again_s=again_s,
    )
    by_place = {(one.queue, one.gshare): one for one, _ in allotted}
    found: dict[Overload, list[WatchedJob]] = {}
    for row in rows:
        found.setdefault(by_place[row["queue"], row["gshare"]], []).append(_job_facts(row, queues))
    return found


async def expire(connection: asyncpg.Connection, jobs: Sequence[WatchedJob], verdict: Expiry) -> Expired:
    """End these jobs as the verdict says, each only if it is still as it was judged."""
    rows = await SQL.rows(
        connection,
        "expire_jobs",
        job_ids=[job.job_id for job in jobs],
        statuses=[job.status for job in jobs],
        changed_at=[job.state_changed_at for job in jobs],
        heartbeats_at=[job.heartbeat_at for job in jobs],
        allowed=EXPIRABLE[verdict.to_status],
        to_status=verdict.to_status,
        error_code=verdict.error_code,
        worker_gone=WORKER_GONE,
        reason=verdict.reason,
    )
    moves = tuple(
        move
        for status in sorted({row["status"] for row in rows})
        for move in moves_of((_as_counted(row) for row in rows if row["status"] == status), status)
    )
    return Expired(tuple(sorted(row["job_id"] for row in rows)), moves)


async def pending_tasks(connection: asyncpg.Connection, limits: PendingLimits) -> list[PendingTask]:
    """Read pending tasks whose time has come, the most important first."""
    rows = await SQL.rows(
        connection,
        "pending_tasks",
        least_priorities=[least for least, _ in PENDING_WAITS],
        waits_s=[limits.wait(least).total_seconds() for least, _ in PENDING_WAITS],
        longest_wait_s=(PENDING_WAIT * limits.wait_scale).total_seconds(),
        labels=list(limits.timeout_h),
        timeouts_s=[hours * 3600 for hours in limits.timeout_h.values()],
        ended=sorted(ENDED_PARENTS),
        most=MOST_TASKS,
    )
    return [_pending_task(row) for row in rows]


async def assigning_tasks(connection: asyncpg.Connection, limits: PendingLimits) -> list[AssigningTask]:
    """Read tasks that found no nucleus for too long, the most important first."""
    rows = await SQL.rows(
        connection,
        "assigning_tasks",
        labels=list(limits.timeout_h),
        timeouts_s=[hours * 3600 for hours in limits.timeout_h.values()],
        ended=sorted(ENDED_PARENTS),
        most=MOST_TASKS,
    )
    return [
        AssigningTask(row["task_id"], row["prod_source_label"] or "", row["waiting_since"], row["parent_status"])
        for row in rows
    ]


async def exhaust_assigning(connection: asyncpg.Connection, task_id: int, reason: str) -> bool:
    """Exhaust a task that waits for a nucleus; whether it still had none."""
    TASK.check("assigning", "exhausted", Owner.WATCHDOG)
    return await SQL.row(connection, "exhaust_assigning", task_id=task_id, reason=reason) is not None


async def woken_pending_tasks(connection: asyncpg.Connection, task_ids: Sequence[int]) -> list[PendingTask]:
    """Read those of these tasks that are pending and wait for a time."""
    return [_pending_task(row) for row in await SQL.rows(connection, "woken_pending_tasks", task_ids=list(task_ids))]


async def woken_tasks(connection: asyncpg.Connection, task_ids: Sequence[int]) -> list[tuple[int, str]]:
    """Read those of these tasks (id, status) that wait for a time in another state."""
    rows = await SQL.rows(connection, "woken_tasks", task_ids=list(task_ids), statuses=list(WOKEN_STATES))
    return [(row["task_id"], row["status"]) for row in rows]


def _pending_task(row: asyncpg.Record) -> PendingTask:
    return PendingTask(
        task_id=row["task_id"],
        old_status=row["old_status"],
        priority=row["current_priority"],
        label=row["prod_source_label"] or "",
        pending_since=row["state_change_time"],
        waiting_since=row["frozen_time"] or row["state_change_time"],
        retry_at=row["retry_at"],
        parent_status=row["parent_status"],
    )


async def release_task(connection: asyncpg.Connection, task: PendingTask, release: Release) -> bool:
    """Move a pending task on; whether it was still pending as it was judged."""
    TASK.check("pending", release.to_status, Owner.WATCHDOG)
    row = await SQL.row(
        connection,
        "release_task",
        task_id=task.task_id,
        to_status=release.to_status,
        reason=release.reason,
        old_status=task.old_status,
        retry_at=task.retry_at,
    )
    return row is not None


async def remind_due_tasks(
    connection: asyncpg.Connection, statuses: Sequence[TaskStatus], again_s: float
) -> list[tuple[int, str]]:
    """Set the next reminder of tasks whose `retry_at` has come, and give them as (id, status)."""
    due = [row["task_id"] for row in await SQL.rows(connection, "due_tasks", statuses=statuses, most=MOST_TASKS)]
    rows = await SQL.rows(connection, "put_off_due_tasks", task_ids=due, statuses=statuses, again_s=float(again_s))
    return sorted([(row["task_id"], row["status"]) for row in rows])


async def note_passed_over(
    connection: asyncpg.Connection, action: str, reasons: Mapping[int, str], chosen: Sequence[int]
) -> None:
    """Keep why an action did not choose tasks; what is kept of those that it chose is forgotten."""
    await SQL.run(
        connection, "note_passed_over", action=action, task_ids=list(reasons), reasons=list(reasons.values()),
        chosen=list(chosen),
    )  # fmt: skip


async def throttle_task(connection: asyncpg.Connection, task_id: int, decision: Throttle, reason: str) -> bool:
    row = await SQL.row(
        connection,
        "throttle_task",
        task_id=task_id,
        times=decision.times,
        minutes=decision.minutes,
        reason=reason,
        allowed=THROTTLEABLE,
    )
    return row is not None


async def unthrottle_task(connection: asyncpg.Connection, task_id: int, to_status: TaskStatus) -> bool:
    TASK.check("throttled", to_status, Owner.WATCHDOG)
    return await SQL.row(connection, "unthrottle_task", task_id=task_id, to_status=to_status) is not None
