"""Jobs whose time is over end, and jobs of queues that have too many.

One replica at a time, under a lease whose term fences it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from prometheus_client import Counter

from services.watchdog.parameters import Periods, WatchLimits
from services.watchdog.policy import rebrokerage
from services.watchdog.policy.grace import grace
from services.watchdog.store import due as store
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsExpired
from shared.model.batches import batches
from shared.snapshot import KnownGrid
from shared.states.job import QUEUED, JobStatus
from shared.timeouts.added import rules_in_force
from shared.timeouts.built_in import ES_TOO_LONG
from shared.timeouts.judging import Expiry, search, verdict_of
from shared.timeouts.limits import TimeLimits, limits_of
from shared.timeouts.queues import queue_facts
from shared.timeouts.rule import TimeRule, WatchedJob, WatchedQueue

log = logging.getLogger(__name__)

#: jobs ended in one transaction: few enough that other transactions hardly wait for their rows
SLICE = 1000
#: overdue jobs of one state that are kept in memory; the rest is found when these have ended
FOUND_AT_ONCE = 20_000
#: states in which time runs for a pilot or for what it left behind
WITH_PILOT: tuple[JobStatus, ...] = ("sent", "starting", "running", "holding", "transferring", "merging")


@dataclass(frozen=True)
class _Judged:
    """Jobs that are to end, with why; `is_cut`: there may be more of them."""

    overdue: Sequence[tuple[WatchedJob, Expiry]] = ()
    is_cut: bool = False


class ExpiringJobs:
    """Find jobs that are to end, and end them slice by slice."""

    def __init__(self, parameters: Parameters, grid: KnownGrid, expired: Counter) -> None:
        self._parameters, self._grid, self._expired = parameters, grid, expired
        self._limits = WatchLimits(parameters)
        self._overdue: dict[str, tuple[object, _Judged]] = {}

    async def watch_jobs_with_pilots(self, work: UnitOfWork) -> bool:
        """End jobs whose heartbeats are lost or whose state lasts too long; whether there are more.

        These are the states from sent to merging.
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
        queues = await queue_facts(work.connection, await self._grid.grid(work.connection), self._parameters)
        rules = await rules_in_force(work.connection)
        limits = limits_of(self._parameters, rules, {facts.workflow for facts in queues.values()})
        found: dict[int, tuple[WatchedJob, Expiry]] = {}
        is_cut = False
        for rule in rules:
            for state in (one for one in states if one in rule.states):
                jobs = await self._overdue_by(work, rule, state, queues, limits)
                is_cut = is_cut or len(jobs) == FOUND_AT_ONCE
                for job in jobs:
                    limit = limits.of(rule, job.queue, analysis=job.is_analysis)
                    if limit is not None:
                        found.setdefault(job.job_id, (job, verdict_of(rule, job.status, limit)))
        return _Judged(tuple(found.values()), is_cut)

    async def _overdue_by(
        self,
        work: UnitOfWork,
        rule: TimeRule,
        state: JobStatus,
        queues: dict[str, WatchedQueue],
        limits: TimeLimits,
    ) -> list[WatchedJob]:
        """Jobs of a state that one rule ends. Those of the event service are found by their job sets."""
        wanted = search(rule, state, queues, limits, work.now)
        if rule is not ES_TOO_LONG:
            return await store.overdue_jobs(work.connection, wanted, queues, FOUND_AT_ONCE)
        if wanted.latest is None or state != "running":  # both of its states are found at once
            return []
        return await store.long_event_service(work.connection, wanted.latest, queues, FOUND_AT_ONCE)

    async def watch_overloaded_queues(self, work: UnitOfWork) -> None:
        """Send waiting jobs of a share elsewhere from a queue that has too many of them (fast rebrokerage)."""
        periods = self._limits.periods
        if await store.start_run(work.connection, "overloaded_queues", periods.rebrokerage_period_s) is None:
            return
        thresholds = self._limits.rebrokerage(await store.share_names(work.connection))
        if not thresholds.n_queued:
            return
        queues = await queue_facts(work.connection, await self._grid.grid(work.connection), self._parameters)
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
