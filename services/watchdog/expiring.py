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
from services.watchdog.policy.grace import LastRun, grace
from services.watchdog.store import due as store
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsExpired
from shared.model.batches import batches
from shared.snapshot import KnownGrid
from shared.states.job import QUEUED, JobStatus
from shared.timeouts.added import added_rules
from shared.timeouts.built_in import ES_TOO_LONG
from shared.timeouts.hearing import EVERYBODY, Hearing, hearings, look_back, per_mille
from shared.timeouts.judging import Expiry, search, verdict_of
from shared.timeouts.limits import TimeLimits, limits_of
from shared.timeouts.outages import heartbeat_interval, outage_times
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


@dataclass(frozen=True)
class _Asked:
    """With what all rules are asked in one turn; `per_mille`: the part of what is due that may end by now."""

    queues: dict[str, WatchedQueue]
    limits: TimeLimits
    heard: dict[str, Hearing]
    per_mille: int

    def parts(self, rule: TimeRule, state: JobStatus) -> list[tuple[Hearing | None, store.Among]]:
        """The jobs that a rule is asked about, by how pilots of their VO were heard where that counts."""
        if not rule.hears(state):
            return [(None, store.Among(per_mille=self.per_mille))]
        named = sorted(self.heard.keys() - {EVERYBODY})
        return [
            (
                hearing,
                store.Among(
                    vos=None if vo == EVERYBODY else [vo],
                    other_vos_than=named or None if vo == EVERYBODY else None,
                    per_mille=min(self.per_mille, hearing.per_mille),
                ),
            )
            for vo, hearing in self.heard.items()
        ]


async def _overdue_by(work: UnitOfWork, rule: TimeRule, state: JobStatus, asked: _Asked) -> list[WatchedJob]:
    """Jobs of a state that one rule ends. Those of the event service are found by their job sets."""
    found: list[WatchedJob] = []
    for hearing, among in asked.parts(rule, state):
        wanted = search(rule, state, asked.queues, asked.limits, work.now, hearing)
        if rule is not ES_TOO_LONG:
            found += await store.overdue_jobs(work.connection, wanted, asked.queues, FOUND_AT_ONCE, among)
        elif wanted.latest is not None and state == "running":  # both of its states are found at once
            jobs = await store.long_event_service(work.connection, wanted.latest, asked.queues, FOUND_AT_ONCE)
            found += [job for job in jobs if job.job_id % 1000 < among.per_mille]
    return found


class ExpiringJobs:
    """Find jobs that are to end, and end them slice by slice."""

    def __init__(self, parameters: Parameters, grid: KnownGrid, expired: Counter, skipped: Counter) -> None:
        self._parameters, self._grid, self._expired, self._skipped = parameters, grid, expired, skipped
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
            heartbeat_interval=heartbeat_interval(self._parameters),
            dispatcher_seen_at=await store.dispatcher_seen_at(work.connection),
            times=outage_times(self._parameters),
        )
        if suspended is not None:
            await store.record_grace(work.connection, watch, suspended)
            log.info("%s: nothing expires until %s: %s", watch, suspended.until, suspended.reason)
            self._overdue.pop(watch, None)
            return False
        # Verdicts of this turn only, and of these limits: another replica may have had the turns in between.
        rules = await self._rules(work)
        judged_by = (last.at, self._parameters.version, rules)
        known_by, judged = self._overdue.get(watch, (None, _Judged()))
        if not judged.overdue or known_by != judged_by:
            judged = await self._judge(work, states, rules, last)
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

    async def _rules(self, work: UnitOfWork) -> tuple[TimeRule, ...]:
        """Read all rules; sets that cannot be read are counted, and the others are asked."""
        added = await added_rules(work.connection)
        for vo in added.skipped_vos:
            self._skipped.labels(vo).inc()
        return added.in_force

    async def _judge(
        self, work: UnitOfWork, states: Sequence[JobStatus], rules: Sequence[TimeRule], last: LastRun
    ) -> _Judged:
        """Find overdue jobs, once for all slices: each ends only if it is then still as it was judged."""
        asked = await self._asked(work, states, rules, last)
        found: dict[int, tuple[WatchedJob, Expiry]] = {}
        is_cut = False
        for rule in rules:
            for state in (one for one in states if one in rule.states):
                jobs = await _overdue_by(work, rule, state, asked)
                is_cut = is_cut or len(jobs) >= FOUND_AT_ONCE
                for job in jobs:
                    limit = asked.limits.of(rule, job.queue, analysis=job.is_analysis)
                    if limit is not None:
                        found.setdefault(job.job_id, (job, verdict_of(rule, job.status, limit)))
        return _Judged(tuple(found.values()), is_cut)

    async def _asked(
        self, work: UnitOfWork, states: Sequence[JobStatus], rules: Sequence[TimeRule], last: LastRun
    ) -> _Asked:
        """Read with what all rules are asked; how pilots were heard only where one of them is about that."""
        queues = await queue_facts(work.connection, await self._grid.grid(work.connection), self._parameters)
        limits = limits_of(self._parameters, rules, {facts.workflow for facts in queues.values()})
        times, heard = outage_times(self._parameters), {EVERYBODY: Hearing(work.now)}
        if any(rule.hears(state) for rule in rules for state in rule.states if state in states):
            heard = await hearings(work.connection, work.now, look_back(limits.longest_silence, times), times)
        return _Asked(queues, limits, heard, per_mille(last.grace_until, times.spread, work.now))

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
