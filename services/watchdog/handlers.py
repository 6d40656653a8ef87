"""The periodic work of the watchdog: take the turn, load, decide, commit.

One replica at a time, under a lease whose term fences it; `watch_runs` makes every period a runtime parameter.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from prometheus_client import Counter

from services.watchdog import sweeping as sweeps
from services.watchdog.acting import EVER, OVERLAP, Lately, Looked, SliceTime
from services.watchdog.parameters import WatchLimits
from services.watchdog.pausing import pause_analysis, pause_failing
from services.watchdog.policy import tasks as task_policy
from services.watchdog.store import due as store
from services.watchdog.store import sweeps as sweep_store
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCompleted, TaskReleased, TasksWoken
from shared.snapshot import KnownGrid
from shared.states.task import TaskStatus

log = logging.getLogger(__name__)

#: live states whose `retry_at` asks for another look. Those in which jobs are made are left to job generation, which
#: looks at them itself: a reminder here would only put its `retry_at` off.
REMINDED: tuple[TaskStatus, ...] = ("registered", "defined", "assigning", "staged", "rerefine")


@dataclass
class _Round:
    """Kinds of a round of the sweep that were not looked at yet, and those that were and have more."""

    kinds: deque[sweeps.Sweep] = field(default_factory=deque)
    left: deque[sweeps.Sweep] = field(default_factory=deque)


class Watchdog:
    """What happens to tasks because time passed, and what is said again."""

    def __init__(self, parameters: Parameters, grid: KnownGrid, swept: Counter) -> None:
        self._grid = grid
        self._parameters = parameters
        self._limits = WatchLimits(parameters)
        self._sweep = ReconcilingSweep(self._limits, swept)
        #: whether throttled tasks are left for whom a slice had no time
        self._pauses_are_over = False
        self._throttled, self._failing = Lately(), Lately()

    async def watch_tasks(self, work: UnitOfWork) -> Looked:
        """Let pending tasks go on or exhaust them, look again at tasks that asked."""
        last = await store.start_run(work.connection, "tasks", self._limits.periods.pending_period_s)
        if last is None:
            return Looked()
        time = SliceTime.of(work)
        n_pending, n_assigning = await self._release_pending(work, time), await self._give_up_assigning(work, time)
        n_released = n_pending + n_assigning
        due = await store.remind_due_tasks(work.connection, REMINDED, self._limits.periods.remind_again_s)
        for task_id, status in due:
            reason = f"the time to look at it again has come while {status}"
            work.emit(TaskReleased(task_id=task_id, status=status, reason=reason, released_at=work.now))
        # who committed a chunk at the last look is seen now
        since = EVER if last.at is None else last.at - OVERLAP
        await store.SQL.run(work.connection, "forget_waiting", since=since)
        more = (
            max(n_pending, n_assigning, len(due)) >= store.MOST_TASKS
            or time.ends_after(n_pending)
            or time.ends_after(n_assigning)
        )
        if more:
            await store.give_back_turn(work.connection, "tasks", last.at)
        n_done = n_released + len(due)
        return Looked(more, n_done, n_done)

    async def on_tasks_woken(self, event: TasksWoken, work: UnitOfWork) -> None:
        """Let pending tasks go on: what held them has changed. The others are looked at where they are."""
        limits = self._limits.pending()
        for task in await store.woken_pending_tasks(work.connection, event.task_ids):
            await self._release(work, task, task_policy.wake(task, limits, event.cause, work.now))
        reason = f"woken before its time by {event.cause}"
        for task_id, status in await store.woken_tasks(work.connection, event.task_ids):
            work.emit(TaskReleased(task_id=task_id, status=status, reason=reason, released_at=work.now))

    async def _release_pending(self, work: UnitOfWork, time: SliceTime) -> int:
        """Release or exhaust pending tasks whose time has come, while there is time; how many."""
        limits = self._limits.pending()
        n_released = 0
        for task in await store.pending_tasks(work.connection, limits):
            release = task_policy.release(task, limits, work.now)
            if release is not None:
                n_released += await self._release(work, task, release)
            if time.ends_after(n_released):
                break
        return n_released

    async def _give_up_assigning(self, work: UnitOfWork, time: SliceTime) -> int:
        """Exhaust tasks that found no nucleus for too long, while there is time; how many."""
        limits, n_given_up = self._limits.pending(), 0
        for task in await store.assigning_tasks(work.connection, limits):
            verdict = task_policy.no_nucleus(task, limits, work.now)
            if verdict is None:
                continue
            await work.because(verdict.reason)
            if await store.exhaust_assigning(work.connection, task.task_id, verdict.reason):
                work.emit(TaskCompleted(task_id=task.task_id, status="exhausted"))
                n_given_up += 1
            if time.ends_after(n_given_up):
                break
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

    async def watch_attempts(self, work: UnitOfWork) -> Looked:
        """Pause production that fails again and again, and analysis with too much input under way.

        Slices that follow let those go on whose pause is over, and for whom the first had no time.
        """
        time = SliceTime.of(work)
        if self._pauses_are_over:
            return await self._release_throttled(work, time, 0)
        last = await store.start_run(work.connection, "attempts", self._limits.periods.throttle_period_s)
        if last is None:
            return Looked()
        n_throttled, more = await self._throttle(work, time)
        if more:
            await store.give_back_turn(work.connection, "attempts", last.at)
            return Looked(True, n_throttled, n_throttled)
        await pause_failing(work, self._parameters, self._grid, self._failing)
        await pause_analysis(work, self._parameters, self._grid)
        return await self._release_throttled(work, time, n_throttled)

    async def _throttle(self, work: UnitOfWork, time: SliceTime) -> tuple[int, bool]:
        """Throttle tasks whose files were tried too often, while there is time; how many, and whether some are left."""
        n_throttled, every = 0, self._limits.periods.throttle_attempts
        if not every:
            return 0, False
        rows = await store.SQL.rows(
            work.connection, "throttle_candidates", every_attempts=every, since=self._throttled.since(every, work.now),
            most=store.MOST_TASKS,
        )  # fmt: skip
        more = len(rows) >= store.MOST_TASKS
        for row in rows:
            decision = task_policy.throttle(row["max_attempt_nr"], row["num_throttled"], every)
            if decision is not None:
                reason = f"throttled for {decision.minutes} min: attempt {row['max_attempt_nr']} was reached"
                await work.because(reason)
                n_throttled += await store.throttle_task(work.connection, row["task_id"], decision, reason)
            if time.ends_after(n_throttled):
                more = True
                break
        if not more:
            work.after_commit(partial(self._throttled.looked, every, work.now))
        return n_throttled, more

    async def _release_throttled(self, work: UnitOfWork, time: SliceTime, n_done: int) -> Looked:
        """Let throttled tasks go on, while there is time; what the slice did in all, so many before."""
        await work.because("its throttling is over")
        rows, more = await store.SQL.rows(work.connection, "throttled_due", most=store.MOST_TASKS), False
        for number, row in enumerate(rows, 1):
            status = task_policy.unthrottled_status(row["old_status"])
            if await store.unthrottle_task(work.connection, row["task_id"], status):
                work.emit(
                    TaskReleased(
                        task_id=row["task_id"], status=status, reason="its throttling is over", released_at=work.now
                    )
                )
            if time.ends_after(number) or number >= store.MOST_TASKS:
                more = True
                break
        work.after_commit(partial(self._keep_over, more))
        return Looked(more, n_done + len(work.emitted), n_done + len(work.emitted))

    def _keep_over(self, more: bool) -> None:
        self._pauses_are_over = more

    async def sweep_tasks(self, work: UnitOfWork) -> Looked:
        """Announce again a slice of what seems to be lost of tasks."""
        return await self._sweep.slice(work, sweeps.TASKS)

    async def sweep_work(self, work: UnitOfWork) -> Looked:
        """Announce again a slice of what seems to be lost of chunks, jobs and transfers."""
        return await self._sweep.slice(work, sweeps.WORK)


class ReconcilingSweep:
    """What is said again; what it remembers is which kinds of its rounds are left."""

    def __init__(self, limits: WatchLimits, swept: Counter) -> None:
        self._limits, self._swept = limits, swept
        self._rounds = {partition: _Round() for partition in (sweeps.TASKS, sweeps.WORK)}

    async def slice(self, work: UnitOfWork, partition: str) -> Looked:
        """Announce again a slice of the next kind of a partition that has any.

        A kind that fails stops no other, and one that has more goes on between the rounds: each has its turn again when
        the period is over.
        """
        time = SliceTime.of(work)
        round_, watch = self._rounds[partition], f"sweep/{partition}"
        if not round_.kinds:
            if await store.start_run(work.connection, watch, self._limits.periods.sweep_period_s) is not None:
                round_.kinds.extend(kind for kind in sweeps.SWEEPS if kind.partition == partition)
                kinds = [one.kind for one in round_.kinds]
                # one partition alone deletes marks of no kind: both would wait for each other
                all_kinds = [one.kind for one in sweeps.SWEEPS] if partition == sweeps.TASKS else None
                await sweep_store.SQL.run(work.connection, "forget_marks", kinds=kinds, all_kinds=all_kinds)
                round_.left.clear()
            elif round_.left:
                round_.kinds.append(round_.left.popleft())
        if not round_.kinds:
            return Looked()
        n_rows = 0
        while round_.kinds and not n_rows and not time.is_over:
            n_rows = await self._sweep_next(work, round_)
        return Looked(bool(round_.kinds or round_.left), n_rows, n_rows)

    async def _sweep_next(self, work: UnitOfWork, round_: _Round) -> int:
        """Announce a slice of the next kind; how many rows."""
        kind, n_rows, more = round_.kinds.popleft(), 0, False
        try:
            async with work.connection.transaction():
                n_rows, more = await self._sweep_kind(work, kind)
        except Exception as error:
            if work.connection.is_closed():
                raise
            log.error("sweep of %s failed: %s: %s", kind.kind, type(error).__name__, error, exc_info=error)
        if more:
            round_.left.append(kind)
        return n_rows

    async def _sweep_kind(self, work: UnitOfWork, kind: sweeps.Sweep) -> tuple[int, bool]:
        """Announce rows of this kind again: how many, and whether more may follow.

        All of the slice or, if one cannot be announced, none.
        """
        age_s = self._limits.age_s(kind.age)
        before = work.now - timedelta(seconds=age_s)
        if kind.by_time:
            found = await sweep_store.due_lately(
                work.connection, kind.kind, before=before, age_s=age_s, most=kind.most, overlap=OVERLAP
            )
            rows, more = found.rows, found.more
        else:
            rows = await sweep_store.due_for_sweep(
                work.connection, kind.kind, before=before, age_s=age_s, most=kind.most
            )
            more = len(rows) >= kind.most
        events = list(kind.build(rows, work.now))
        tasks = sorted({row["task_id"] for row in rows if row.get("task_id") == row["entity_id"]})
        if tasks:
            await sweep_store.SQL.run(work.connection, "note_rescued_tasks", task_ids=tasks)
        # what a rollback to the savepoint does not take back comes last
        for event in events:
            work.emit(event)
        if rows:
            log.info("sweep: %d %s are announced again", len(rows), kind.kind.replace("_", " "))
            work.after_commit(partial(self._swept.labels(kind=kind.kind).inc, len(rows)))
        return len(rows), more
