"""All SQL of the watchdog: rows in, values of the policy out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import aiosql
import asyncpg

from services.watchdog.policy.grace import Grace, LastRun
from services.watchdog.policy.jobs import ANALYSIS_LABELS, HIGH_PRIORITY, JobFacts, QueueFacts, Search, Verdict
from services.watchdog.policy.rebrokerage import FAST_REBROKERAGE, RUNNING, WAITING, Overload, ShareAtQueue
from services.watchdog.policy.tasks import (
    ENDED_PARENTS,
    PENDING_WAIT,
    PENDING_WAITS,
    PendingLimits,
    PendingTask,
    Release,
    Throttle,
)
from shared.db.turns import take_turn
from shared.events.jobs import JobMove
from shared.model.queue import Queue, queue_from_cric
from shared.states import JOB, TASK, Owner

_HERE = Path(__file__).parent
QUERIES = aiosql.from_path(_HERE / "queries.sql", "asyncpg", mandatory_parameters=False)
SWEEPS = aiosql.from_path(_HERE / "queries_sweep.sql", "asyncpg", mandatory_parameters=False)

EXPIRABLE = {target: JOB.sources(target, Owner.WATCHDOG) for target in ("failed", "closed")}
THROTTLEABLE = TASK.sources("throttled", Owner.WATCHDOG)
MOST_TASKS = 1000
#: states other than pending in which a task may wait for a queue, a nucleus or its share
WOKEN_STATES = ("assigning", "ready", "scouting", "scouted", "running", "prepared", "finishing")

# Rows in a condition for longer than the age, whose last announcement is 1, 2, 4 ... 64 ages ago; a row that came into
# the condition after its mark was made is new.
_DUE = """
WITH found AS ({query})
SELECT f.*, CASE WHEN m.swept_at >= f.since THEN m.times + 1 ELSE 1 END AS times_swept
  FROM found f LEFT JOIN sweep_marks m ON m.kind = $2 AND m.entity_id = f.entity_id
 WHERE m.entity_id IS NULL OR m.swept_at < f.since
    OR m.swept_at + make_interval(secs => $3::float8 * 2 ^ least(m.times, 6)) <= orrery_now()
 ORDER BY f.since, f.entity_id
 LIMIT $4
"""


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
    row = await QUERIES.grace_of(connection, watch=watch)
    return LastRun(turn.previous_at, row["grace_until"], row["grace_reason"])


async def record_grace(connection: asyncpg.Connection, watch: str, grace: Grace | None) -> None:
    until, reason = (grace.until, grace.reason) if grace else (None, None)
    await QUERIES.record_grace(connection, watch=watch, grace_until=until, grace_reason=reason)


async def dispatcher_seen_at(connection: asyncpg.Connection) -> datetime | None:
    return cast("datetime | None", await QUERIES.dispatcher_seen_at(connection))


async def give_back_turn(connection: asyncpg.Connection, watch: str, previous_at: datetime | None) -> None:
    """The next run comes at once, and is as late as this one was."""
    if previous_at is not None:
        await QUERIES.give_back_turn(connection, watch=watch, previous_at=previous_at)


async def overdue_jobs(
    connection: asyncpg.Connection, status: str, wanted: Search, queues: dict[str, QueueFacts], most: int
) -> list[JobFacts]:
    """Jobs of one state that a rule ends, at most `most`: what may go on hides nothing."""
    latest = list(wanted.latest.values())
    changed = [one for latest_one in latest for one in (latest_one.changed, latest_one.silent) if one is not None]
    created = [one.created for one in latest if one.created is not None]
    rows = QUERIES.overdue_jobs(
        connection, status=status, queues=list(wanted.kinds), kinds=list(wanted.kinds.values()),
        kind_numbers=[kind for kind, _, _ in wanted.latest], highs=[high for _, high, _ in wanted.latest],
        analyses=[analysis for _, _, analysis in wanted.latest], changed=[one.changed for one in latest],
        silent=[one.silent for one in latest], created=[one.created for one in latest], high_priority=HIGH_PRIORITY,
        analysis_labels=ANALYSIS_LABELS, changed_before=max(changed, default=None),
        created_before=max(created, default=None), most=most,
    )  # fmt: skip
    return [_job_facts(row, queues) async for row in rows]


_UNKNOWN_QUEUE = QueueFacts()


def _job_facts(row: asyncpg.Record, queues: dict[str, QueueFacts]) -> JobFacts:
    return JobFacts(
        job_id=row["job_id"], status=row["status"], created_at=row["creation_time"],
        state_changed_at=row["state_change_time"], heartbeat_at=row["heartbeat_at"], priority=row["current_priority"],
        label=row["prod_source_label"], queue_name=row["queue"], queue=queues.get(row["queue"], _UNKNOWN_QUEUE),
    )  # fmt: skip


async def share_names(connection: asyncpg.Connection) -> list[str]:
    return [row["gshare"] async for row in QUERIES.shares(connection)]


async def jobs_by_queue_and_share(
    connection: asyncpg.Connection, gshares: Sequence[str], queues: dict[str, QueueFacts]
) -> list[ShareAtQueue]:
    """Waiting and running jobs of these shares, counted at every queue that fast rebrokerage counts."""
    rows = QUERIES.jobs_by_queue_and_share(connection, gshares=gshares, waiting=WAITING, running=RUNNING)
    return [
        ShareAtQueue(
            row["queue"], row["gshare"], row["n_queued"], row["n_running"],
            exempt=queues.get(row["queue"], _UNKNOWN_QUEUE).exempt,
        )
        async for row in rows
    ]  # fmt: skip


async def jobs_to_rebroker(
    connection: asyncpg.Connection, allotted: Sequence[tuple[Overload, int]], queues: dict[str, QueueFacts],
    again_s: float,
) -> dict[Overload, list[JobFacts]]:  # fmt: skip
    """The oldest jobs of each overload, at most as many as it was allotted."""
    rows = QUERIES.jobs_to_rebroker(
        connection, queues=[one.queue for one, _ in allotted], gshares=[one.gshare for one, _ in allotted],
        n_jobs=[n_jobs for _, n_jobs in allotted], waiting=WAITING, error_code=FAST_REBROKERAGE, again_s=again_s,
    )  # fmt: skip
    by_place = {(one.queue, one.gshare): one for one, _ in allotted}
    found: dict[Overload, list[JobFacts]] = {}
    async for row in rows:
        found.setdefault(by_place[row["queue"], row["gshare"]], []).append(_job_facts(row, queues))
    return found


async def queue_facts(connection: asyncpg.Connection) -> dict[str, QueueFacts]:
    """The facts of every queue; one whose record cannot be read has the defaults."""
    facts = {}
    for row in [row async for row in QUERIES.queue_facts(connection)]:
        queue = queue_from_cric(row["queue"], row["data"])
        if isinstance(queue, Queue):
            facts[row["queue"]] = QueueFacts(
                status=row["status"], workflow=queue.workflow,
                disable_reassign=queue.options.get("disableReassign", "false").lower() not in ("false", "0", ""),
                last_job_start_at=row["last_job_start_at"],
                transfer_time_high_days=queue.transfer_time_high_days,
                transfer_time_low_days=queue.transfer_time_low_days,
            )  # fmt: skip
    return facts


async def expire(connection: asyncpg.Connection, jobs: Sequence[JobFacts], verdict: Verdict) -> Expired:
    """End these jobs as the verdict says, each only if it is still as it was judged."""
    rows = [
        row
        async for row in QUERIES.expire_jobs(
            connection,
            job_ids=[job.job_id for job in jobs],
            statuses=[job.status for job in jobs],
            changed_at=[job.state_changed_at for job in jobs],
            heartbeats_at=[job.heartbeat_at for job in jobs],
            allowed=EXPIRABLE[verdict.to_status],
            to_status=verdict.to_status,
            error_code=verdict.error_code,
            reason=verdict.reason,
        )
    ]
    return Expired(tuple(sorted(row["job_id"] for row in rows)), moves_of(rows, verdict.to_status))


def moves_of(rows: Sequence[asyncpg.Record], to_status: str) -> tuple[JobMove, ...]:
    """Count rows (task, queue, type, share, user, `was`, cores) into moves."""
    counts: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("task_id", "queue", "resource_type", "gshare", "user_name", "was"))
        count = counts.setdefault(key, [0, 0])
        count[0] += 1
        count[1] += row["core_count"]
    return tuple(
        JobMove(
            task_id=key[0], queue=key[1], resource_type=key[2], gshare=key[3], user_name=key[4], from_status=key[5],
            to_status=to_status, n_jobs=n_jobs, n_cores=n_cores,
        )
        for key, (n_jobs, n_cores) in sorted(counts.items())
    )  # fmt: skip


async def pending_tasks(connection: asyncpg.Connection, limits: PendingLimits) -> list[PendingTask]:
    """Pending tasks whose time has come, the most important first."""
    rows = QUERIES.pending_tasks(
        connection, least_priorities=[least for least, _ in PENDING_WAITS],
        waits_s=[limits.wait(least).total_seconds() for least, _ in PENDING_WAITS],
        longest_wait_s=(PENDING_WAIT * limits.wait_scale).total_seconds(), labels=list(limits.timeout_h),
        timeouts_s=[hours * 3600 for hours in limits.timeout_h.values()], ended=sorted(ENDED_PARENTS), most=MOST_TASKS,
    )  # fmt: skip
    return [_pending_task(row) async for row in rows]


async def woken_pending_tasks(connection: asyncpg.Connection, task_ids: Sequence[int]) -> list[PendingTask]:
    """Those of these tasks that are pending and wait for a time."""
    return [_pending_task(row) async for row in QUERIES.woken_pending_tasks(connection, task_ids=list(task_ids))]


async def woken_tasks(connection: asyncpg.Connection, task_ids: Sequence[int]) -> list[tuple[int, str]]:
    """Those of these tasks (id, status) that wait for a time in another state."""
    rows = QUERIES.woken_tasks(connection, task_ids=list(task_ids), statuses=list(WOKEN_STATES))
    return [(row["task_id"], row["status"]) async for row in rows]


def _pending_task(row: asyncpg.Record) -> PendingTask:
    return PendingTask(
        task_id=row["task_id"], old_status=row["old_status"], priority=row["current_priority"],
        label=row["prod_source_label"] or "", pending_since=row["state_change_time"],
        waiting_since=row["frozen_time"] or row["state_change_time"], retry_at=row["retry_at"],
        parent_status=row["parent_status"],
    )  # fmt: skip


async def release_task(connection: asyncpg.Connection, task: PendingTask, release: Release) -> bool:
    """Compare-and-set; whether it was still pending as it was judged."""
    TASK.check("pending", release.to_status, Owner.WATCHDOG)
    row = await QUERIES.release_task(
        connection, task_id=task.task_id, to_status=release.to_status, reason=release.reason,
        old_status=task.old_status, retry_at=task.retry_at,
    )  # fmt: skip
    return row is not None


async def remind_due_tasks(
    connection: asyncpg.Connection, statuses: Sequence[str], again_s: float
) -> list[tuple[int, str]]:
    """Tasks (id, status) whose `retry_at` has come; their next reminder is set."""
    due = [row["task_id"] async for row in QUERIES.due_tasks(connection, statuses=statuses, most=MOST_TASKS)]
    rows = QUERIES.put_off_due_tasks(connection, task_ids=due, statuses=statuses, again_s=float(again_s))
    return sorted([(row["task_id"], row["status"]) async for row in rows])


async def throttle_task(connection: asyncpg.Connection, task_id: int, decision: Throttle, reason: str) -> bool:
    row = await QUERIES.throttle_task(
        connection, task_id=task_id, times=decision.times, minutes=decision.minutes, reason=reason, allowed=THROTTLEABLE
    )
    return row is not None


async def unthrottle_task(connection: asyncpg.Connection, task_id: int, to_status: str) -> bool:
    TASK.check("throttled", to_status, Owner.WATCHDOG)
    return await QUERIES.unthrottle_task(connection, task_id=task_id, to_status=to_status) is not None


async def due_for_sweep(
    connection: asyncpg.Connection, kind: str, query: str, *, before: datetime, age_s: float, most: int
) -> list[asyncpg.Record]:
    """Rows of one query of queries_sweep.sql that are due to be announced (again), and the mark that they were."""
    sql = _DUE.format(query=getattr(SWEEPS, query).sql.strip().rstrip(";"))
    rows = await connection.fetch(sql, before, kind, float(age_s), most)
    if rows:
        await SWEEPS.mark_swept(
            connection, kind=kind, entity_ids=[row["entity_id"] for row in rows],
            times=[row["times_swept"] for row in rows],
        )  # fmt: skip
    return rows
