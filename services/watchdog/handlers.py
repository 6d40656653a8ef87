"""The periodic work of the watchdog: take the turn, load, decide, commit.

One replica at a time, under a lease whose term fences it; `watch_runs` makes every period a runtime parameter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from prometheus_client import Counter

from services.watchdog import sweeping as sweeps
from services.watchdog.parameters import Periods, WatchLimits
from services.watchdog.pausing import pause_failing
from services.watchdog.policy import jobs as job_policy
from services.watchdog.policy import rebrokerage
from services.watchdog.policy import tasks as task_policy
from services.watchdog.policy.grace import grace
from services.watchdog.policy.jobs import Expiry, WatchedJob
from services.watchdog.policy.transfers import ENDS_BELOW, PAUSE_MIN, MovedForUser, TransferLimits, too_much
from services.watchdog.store import due as store
from services.watchdog.store import sweeps as sweep_store
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsExpired, TaskCompleted, TaskReleased, TasksWoken
from shared.model.batches import batches
from shared.snapshot import KnownGrid
from shared.states.job import QUEUED, JobStatus
from shared.states.task import TaskStatus

log = logging.getLogger(__name__)

#: jobs ended in one transaction: few enough that other transactions hardly wait for their rows
SLICE = 1000
#: overdue jobs of one state that are kept in memory; the rest is found when these have ended
FOUND_AT_ONCE = 20_000
#: states in which time runs for a pilot or for what it left behind
WITH_PILOT: tuple[JobStatus, ...] = ("sent", "starting", "running", "holding", "transferring")
#: live states whose `retry_at` asks for another look. Those in which jobs are made are left to job generation, which
#: looks at them itself: a reminder here would only put its `retry_at` off.
REMINDED: tuple[TaskStatus, ...] = ("registered", "defined", "assigning", "staged", "rerefine")


@dataclass(frozen=True)
class _Judged:
    """Jobs that are to end, with why; `is_cut`: there may be more of them."""

    overdue: Sequence[tuple[WatchedJob, Expiry]] = ()
    is_cut: bool = False


class Watchdog:
    """Everything that happens because time passed."""

    def __init__(self, parameters: Parameters, grid: KnownGrid, expired: Counter, swept: Counter) -> None:
        self._grid = grid
        self._parameters = parameters
        self._limits = WatchLimits(parameters)
        self._expired = expired
        self._swept = swept
        self._overdue: dict[str, tuple[object, _Judged]] = {}

    async def watch_jobs_with_pilots(self, work: UnitOfWork) -> bool:
        """End jobs whose heartbeats are lost or whose state lasts too long; whether there are more.

        These are the states sent, running, holding and transferring.
        """
        return await self._watch_jobs(work, "jobs_with_pilots", WITH_PILOT, lambda periods: periods.jobs_period_s)

    async def watch_queued_jobs(self, work: UnitOfWork) -> bool:
        """End jobs that no pilot took in time; whether there are more."""
        return await self._watch_jobs(work, "queued_jobs", QUEUED, lambda periods: periods.queued_period_s)

    async def _watch_jobs(
        self, work: UnitOfWork, watch: str, states: Sequence[JobStatus], period_of: Callable[[Periods], float]
    ) -> bool:
        """End one slice of what is overdue. While some is left, the turn stays as it was and the next slice follows."""
        period_s = period_of(self._limits.periods)
        last = await store.start_run(work.connection, watch, period_s)
        if last is None:
            return False
        suspended = grace(
            last,
            work.now,
            period=timedelta(seconds=period_s),
            heartbeat_interval=self._limits.heartbeat_interval,
            dispatcher_seen_at=await store.dispatcher_seen_at(work.connection),
            dispatcher_silence=self._limits.dispatcher_silence,
        )
        await store.record_grace(work.connection, watch, suspended)
        if suspended is not None:
            log.info("%s: nothing expires until %s: %s", watch, suspended.until, suspended.reason)
            self._overdue.pop(watch, None)
            return False
        # Verdicts of this turn only, and of these parameters: another replica may have had the turns in between.
        judged_by = (last.at, self._parameters.version)
        known_by, judged = self._overdue.get(watch, (None, _Judged()))
        if not judged.overdue or known_by != judged_by:
            judged = await self._judge(work, states)
        most = min(SLICE, self._limits.periods.most_jobs)
        now, left = judged.overdue[:most], replace(judged, overdue=judged.overdue[most:])
        # A slice that is rolled back is judged, or ended, again.
        work.after_commit(lambda: self._overdue.update({watch: (judged_by, left)}))
        by_verdict: dict[Expiry, list[WatchedJob]] = {}
        for job, verdict in now:
            by_verdict.setdefault(verdict, []).append(job)
        n_ended = sum([await self._expire(work, verdict, jobs) for verdict, jobs in by_verdict.items()])
        more = bool(left.overdue) or (judged.is_cut and n_ended > 0)
        if more:
            await store.give_back_turn(work.connection, watch, last.at)
        return more

    async def _judge(self, work: UnitOfWork, states: Sequence[JobStatus]) -> _Judged:
        """Find overdue jobs, once for all slices: each ends only if it is then still as it was judged."""
        queues = await store.queue_facts(work.connection, await self._grid.grid(work.connection))
        limits = self._limits.jobs(facts.workflow for facts in queues.values())
        found: list[tuple[WatchedJob, Expiry]] = []
        is_cut = False
        for state in states:
            wanted = job_policy.search(state, queues, limits, work.now)
            jobs = await store.overdue_jobs(work.connection, state, wanted, queues, FOUND_AT_ONCE)
            is_cut = is_cut or len(jobs) == FOUND_AT_ONCE
            verdicts = [(job, job_policy.overdue(job, limits, work.now)) for job in jobs]
            found += [(job, verdict) for job, verdict in verdicts if verdict is not None]
        too_long = job_policy.lasted_too_long(limits) if "running" in states else None
        if too_long is not None:
            before = work.now - timedelta(hours=limits.hours.get(too_long.rule, job_policy.ES_TOO_LONG.limit_h))
            known = {job.job_id for job, _ in found}
            jobs = await store.long_event_service(work.connection, before, queues, FOUND_AT_ONCE)
            found += [(job, too_long) for job in jobs if job.job_id not in known]
        return _Judged(found, is_cut)

    async def watch_overloaded_queues(self, work: UnitOfWork) -> None:
        """Send waiting jobs of a share elsewhere from a queue that has too many of them (fast rebrokerage)."""
        periods = self._limits.periods
        if await store.start_run(work.connection, "overloaded_queues", periods.rebrokerage_period_s) is None:
            return
        thresholds = self._limits.rebrokerage(await store.share_names(work.connection))
        if not thresholds.n_queued:
            return
        queues = await store.queue_facts(work.connection, await self._grid.grid(work.connection))
        counts = await store.jobs_by_queue_and_share(work.connection, sorted(thresholds.n_queued), queues)
        allotted = rebrokerage.within(rebrokerage.overloads(counts, thresholds), periods.most_jobs)
        chosen = await store.jobs_to_rebroker(work.connection, allotted, queues, periods.rebrokerage_again_s)
        for overload, _ in allotted:
            n_closed = await self._expire(work, overload.verdict, chosen.get(overload, []))
            log.info("%s: %d closed of %d too many", overload.reason, n_closed, overload.n_excess)

    async def _expire(self, work: UnitOfWork, verdict: Expiry, overdue: Sequence[WatchedJob]) -> int:
        """End these jobs; how many were still as they were judged."""
        await work.because(verdict.reason)
        n_ended = 0
        for some in batches(overdue, IDS_OF_EVENT):
            ended = await store.expire(work.connection, some, verdict)
            if ended.job_ids:
                work.emit(JobsExpired(job_ids=ended.job_ids, moves=ended.moves, reason=verdict.reason))
                self._expired.labels(rule=verdict.rule).inc(len(ended.job_ids))
            n_ended += len(ended.job_ids)
        return n_ended

    async def watch_tasks(self, work: UnitOfWork) -> bool:
        """Let pending tasks go on or exhaust them, look again at tasks that asked; whether there are more."""
        last = await store.start_run(work.connection, "tasks", self._limits.periods.pending_period_s)
        if last is None:
            return False
        n_released = max(await self._release_pending(work), await self._give_up_assigning(work))
        due = await store.remind_due_tasks(work.connection, REMINDED, self._limits.periods.remind_again_s)
        for task_id, status in due:
            reason = f"the time to look at it again has come while {status}"
            work.emit(TaskReleased(task_id=task_id, status=status, reason=reason, released_at=work.now))
        await store.SQL.run(work.connection, "forget_waiting")
        more = max(n_released, len(due)) >= store.MOST_TASKS
        if more:
            await store.give_back_turn(work.connection, "tasks", last.at)
        return more

    async def on_tasks_woken(self, event: TasksWoken, work: UnitOfWork) -> None:
        """Let pending tasks go on: what held them has changed. The others are looked at where they are."""
        limits = self._limits.pending()
        for task in await store.woken_pending_tasks(work.connection, event.task_ids):
            await self._release(work, task, task_policy.wake(task, limits, event.cause, work.now))
        reason = f"woken before its time by {event.cause}"
        for task_id, status in await store.woken_tasks(work.connection, event.task_ids):
            work.emit(TaskReleased(task_id=task_id, status=status, reason=reason, released_at=work.now))

    async def _release_pending(self, work: UnitOfWork) -> int:
        """Release or exhaust pending tasks whose time has come; how many."""
        limits = self._limits.pending()
        n_released = 0
        for task in await store.pending_tasks(work.connection, limits):
            release = task_policy.release(task, limits, work.now)
            if release is not None:
                n_released += await self._release(work, task, release)
        return n_released

    async def _give_up_assigning(self, work: UnitOfWork) -> int:
        """Exhaust tasks that found no nucleus for too long; how many."""
        limits, n_given_up = self._limits.pending(), 0
        for task in await store.assigning_tasks(work.connection, limits):
            verdict = task_policy.no_nucleus(task, limits, work.now)
            if verdict is None:
                continue
            await work.because(verdict.reason)
            if await store.exhaust_assigning(work.connection, task.task_id, verdict.reason):
                work.emit(TaskCompleted(task_id=task.task_id, status="exhausted"))
                n_given_up += 1
        return n_given_up

    async def _release(self, work: UnitOfWork, task: task_policy.PendingTask, release: task_policy.Release) -> bool:
        """Move a pending task on; whether it was still pending."""
        await work.because(release.reason)
        if not await store.release_task(work.connection, task, release):
            return False
        if release.to_status == "exhausted":
            work.emit(TaskCompleted(task_id=task.task_id, status="exhausted"))
        else:
            work.emit(
                TaskReleased(
                    task_id=task.task_id, status=release.to_status, reason=release.reason, released_at=work.now
                )
            )
        return True

    async def watch_attempts(self, work: UnitOfWork) -> None:
        """Pause production that fails again and again, and analysis with too much input under way."""
        if await store.start_run(work.connection, "attempts", self._limits.periods.throttle_period_s) is None:
            return
        every = self._limits.periods.throttle_attempts
        if every:
            rows = await store.SQL.rows(
                work.connection, "throttle_candidates", every_attempts=every, most=store.MOST_TASKS
            )
            for row in rows:
                decision = task_policy.throttle(row["max_attempt_nr"], row["num_throttled"], every)
                if decision is not None:
                    reason = f"throttled for {decision.minutes} min: attempt {row['max_attempt_nr']} was reached"
                    await work.because(reason)
                    await store.throttle_task(work.connection, row["task_id"], decision, reason)
        await pause_failing(work, self._parameters, self._grid)
        await self._limit_transfers(work)
        await self._release_throttled(work)

    async def _limit_transfers(self, work: UnitOfWork) -> None:
        """Keep analysis of users who have too much input moved from making jobs until that is less."""
        limits = self._parameters.filled(TransferLimits)
        storages = (await self._grid.grid(work.connection)).storages.values()
        tapes = sorted(one.name for one in storages if one.is_tape)
        rows = await store.SQL.rows(work.connection, "moved_for_users", tapes=tapes)
        moved = [MovedForUser(**dict(row)) for row in rows]
        for one in moved:
            reason = too_much(one, limits)
            if reason is not None:
                await work.because(reason)
                await store.SQL.run(
                    work.connection,
                    "throttle_for_transfers",
                    task_ids=one.task_ids,
                    minutes=PAUSE_MIN,
                    reason=reason,
                    allowed=store.THROTTLEABLE,
                )
        waiting = [one for one in moved if too_much(one, limits, ENDS_BELOW)]
        users, vos = [one.user_name for one in waiting], [one.vo for one in waiting]
        await store.SQL.run(work.connection, "end_pauses", users=users, vos=vos)

    async def _release_throttled(self, work: UnitOfWork) -> None:
        await work.because("its throttling is over")
        rows = await store.SQL.rows(work.connection, "throttled_due", most=store.MOST_TASKS)
        for row in rows:
            status = task_policy.unthrottled_status(row["old_status"])
            if await store.unthrottle_task(work.connection, row["task_id"], status):
                work.emit(
                    TaskReleased(
                        task_id=row["task_id"], status=status, reason="its throttling is over", released_at=work.now
                    )
                )

    async def sweep(self, work: UnitOfWork) -> bool:
        """Announce again what seems to be lost; whether there is more. A kind that fails stops no other."""
        last = await store.start_run(work.connection, "sweep", self._limits.periods.sweep_period_s)
        if last is None:
            return False
        more = False
        for kind in sweeps.SWEEPS:
            try:
                async with work.connection.transaction():
                    n_rows = await self._sweep_kind(work, kind)
            except Exception as error:
                if work.connection.is_closed():
                    raise
                log.error("sweep of %s failed: %s: %s", kind.kind, type(error).__name__, error, exc_info=error)
                continue
            more = more or n_rows >= kind.most
        await sweep_store.SQL.run(work.connection, "forget_marks")
        if more:
            await store.give_back_turn(work.connection, "sweep", last.at)
        return more

    async def _sweep_kind(self, work: UnitOfWork, kind: sweeps.Sweep) -> int:
        """Announce rows of this kind again; how many: all of them or, if one cannot be, none."""
        age_s = self._limits.age_s(kind.age)
        rows = await sweep_store.due_for_sweep(
            work.connection,
            kind.kind,
            before=work.now - timedelta(seconds=age_s),
            age_s=age_s,
            most=kind.most,
        )
        events = list(kind.build(rows, work.now))
        if rows:
            log.info("sweep: %d %s are announced again", len(rows), kind.kind.replace("_", " "))
            self._swept.labels(kind=kind.kind).inc(len(rows))
        for event in events:
            work.emit(event)
        tasks = sorted({row["task_id"] for row in rows if row.get("task_id") == row["entity_id"]})
        if tasks:
            await sweep_store.SQL.run(work.connection, "note_rescued_tasks", task_ids=tasks)
        return len(rows)
