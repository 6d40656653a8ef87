"""Jobs whose time is over end, and jobs of queues that have too many.

Rules are asked about a job when its deadline has come, which whoever changes its state writes; then it ends, or the
rules name the next time. A changed rule, limit or queue has them asked about the jobs that it concerns, in slices.

One replica at a time, under a lease whose term fences it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial

from prometheus_client import Counter

from services.watchdog.acting import Looked
from services.watchdog.parameters import WatchLimits
from services.watchdog.policy import rebrokerage
from services.watchdog.policy.deadlines import basis_of, changed
from services.watchdog.policy.grace import LastRun, grace
from services.watchdog.store import due as store
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsExpired
from shared.model.batches import batches
from shared.snapshot import KnownGrid
from shared.timeouts.added import added_rules
from shared.timeouts.hearing import EVERYBODY, Hearing, hearings, look_back, turn_of
from shared.timeouts.judging import Expiry, asked_again, first_asked, overdue
from shared.timeouts.limits import TimeLimits, limits_of
from shared.timeouts.outages import heartbeat_interval, outage_times
from shared.timeouts.queues import queue_facts
from shared.timeouts.rule import TimeRule, WatchedJob, WatchedQueue

log = logging.getLogger(__name__)

#: jobs judged in one transaction: few enough that other transactions hardly wait for their rows
SLICE = 500
#: after that overloaded queues are judged anew
JUDGED_FOR = timedelta(minutes=1)
#: jobs among which one transaction looks for those whom a change concerns
LOOKED_AT = 5000


@dataclass(frozen=True)
class _Asked:
    """With what rules are asked in one turn, at one time.

    `spread`: what is due after a grace ends within so long.
    """

    now: datetime
    rules: tuple[TimeRule, ...]
    limits: TimeLimits
    heard: Mapping[str, Hearing]
    facts: store.FactsAsked
    grace_until: datetime | None
    spread: timedelta

    @cached_property
    def taking_groups(self) -> frozenset[str]:
        """Names of the rules that end a job with its group."""
        return frozenset(rule.name for rule in self.rules if rule.takes_group)

    def hearing(self, job: WatchedJob) -> Hearing:
        """How pilots of the job's VO were heard."""
        return self.heard.get(job.vo or EVERYBODY, self.heard[EVERYBODY])

    def verdict(self, job: WatchedJob) -> Expiry | None:
        """Whether the job is overdue."""
        return overdue(job, self.limits, self.now, self.rules, self.hearing(job))

    def asked_again(self, job: WatchedJob) -> datetime:
        """When rules are asked again about a job that goes on."""
        return asked_again(job, self.limits, self.now, self.rules, self.hearing(job))

    def its_turn(self, job: WatchedJob, verdict: Expiry) -> datetime | None:
        """When a job that is overdue may end, if that is later: after a grace not all end at once."""
        turns = [turn_of(job.job_id, self.grace_until, self.spread, self.now)]
        if any(rule.hears(job.status) for rule in self.rules if rule.name == verdict.rule):
            turns.append(self.hearing(job).turn(job.job_id))
        return max((turn for turn in turns if turn is not None), default=None)


class ExpiringJobs:
    """Find jobs that are to end, and end them slice by slice."""

    def __init__(self, parameters: Parameters, grid: KnownGrid, expired: Counter, skipped: Counter) -> None:
        self._parameters, self._grid, self._expired, self._skipped = parameters, grid, expired, skipped
        self._limits = WatchLimits(parameters)
        self._asked_by: tuple[object, _Asked] | None = None

    async def watch_jobs(self, work: UnitOfWork) -> Looked:
        """Ask the rules about one slice of the jobs whose deadline has come.

        They end, or have a later deadline. While some are left, the turn stays as it was and the next slice follows.
        """
        period_s = self._limits.periods.jobs_period_s
        last = await store.start_run(work.connection, "jobs", period_s)
        if last is None:
            return Looked()
        suspended = grace(
            last,
            work.now,
            period=timedelta(seconds=period_s),
            heartbeat_interval=heartbeat_interval(self._parameters),
            dispatcher_seen_at=await store.dispatcher_seen_at(work.connection),
            times=outage_times(self._parameters),
        )
        if suspended is not None:
            await store.record_grace(work.connection, "jobs", suspended)
            log.info("jobs: nothing expires until %s: %s", suspended.until, suspended.reason)
            return Looked()
        asked = await self._asked(work, last)
        most = min(SLICE, self._limits.periods.most_jobs)
        due = await store.due_jobs(work.connection, asked.facts, asked.now, most)
        n_judged = await self._judge(work, asked, due)
        more = await self._judge_concerned(work, asked, most - n_judged) or (len(due) >= most and n_judged > 0)
        if more:
            await store.give_back_turn(work.connection, "jobs", last.at)
        else:
            self._asked_by = None
        return Looked(more, len(due), n_judged)

    async def _judge(self, work: UnitOfWork, asked: _Asked, jobs: Sequence[WatchedJob]) -> int:
        """End those that are overdue, put off the others; how many of them were as they were judged."""
        by_verdict: dict[Expiry, list[WatchedJob]] = {}
        later: list[tuple[WatchedJob, datetime]] = []
        for job in jobs:
            verdict = asked.verdict(job)
            turn = None if verdict is None else asked.its_turn(job, verdict)
            if verdict is None or turn is not None:
                later.append((job, turn or asked.asked_again(job)))
            else:
                by_verdict.setdefault(verdict, []).append(job)
        n_ended = 0
        for verdict, found in by_verdict.items():
            if verdict.rule in asked.taking_groups:
                n_ended += await self._expire_groups(work, asked, verdict, found)
            else:
                n_ended += await self._expire(work, verdict, found)
        return n_ended + (await store.put_off(work.connection, later) if later else 0)

    async def _expire_groups(
        self, work: UnitOfWork, asked: _Asked, verdict: Expiry, found: Sequence[WatchedJob]
    ) -> int:
        """End these jobs with all that wait and were made with them for the same queue.

        Of a large group as many as fit into a slice: one that was found stays overdue until the others are gone, and
        is found again.
        """
        last = {job.group: job for job in found}
        first = [job for job in found if job is not last[job.group]]
        room = SLICE - len(first)
        others = await store.jobs_of_groups(work.connection, found, asked.facts, room)
        ended = [*first, *others] if len(others) >= room else [*found, *others]
        return await self._expire(work, verdict, ended)

    async def _judge_concerned(self, work: UnitOfWork, asked: _Asked, most: int) -> bool:
        """Ask about at most so many of the jobs whom a change concerns; whether there are more."""
        known = await store.basis(work.connection)
        now = basis_of(asked.rules, asked.limits, asked.facts.queues)
        if known is None or known.differs(now):
            found = now if known is None else changed(known, now)
            await store.put_basis(
                work.connection, found, first_asked(asked.limits, asked.facts.queues.values(), asked.rules)
            )
            if known is not None:
                log.info("rules are asked about jobs in %s, and at queues %s", found.moved_states, found.moved_queues)
            return found.moved_to is not None
        if known.moved_to is None:
            return False
        if most <= 0:
            return True
        upto, jobs = await store.concerned_jobs(work.connection, asked.facts, known, looked_at=LOOKED_AT, most=most)
        await self._judge(work, asked, jobs)
        await store.SQL.run(work.connection, "note_moved", moved_to=upto)
        return upto is not None

    async def _rules(self, work: UnitOfWork) -> tuple[TimeRule, ...]:
        """Read all rules; sets that cannot be read are counted, and the others are asked."""
        added = await added_rules(work.connection)
        for vo in added.skipped_vos:
            self._skipped.labels(vo).inc()
        return added.in_force

    async def _asked(self, work: UnitOfWork, last: LastRun) -> _Asked:
        """Read with what rules are asked, once for all slices of a turn unless it changes or lasts for a period."""
        rules = await self._rules(work)
        # Another replica may have had the turns in between.
        asked_by = (last.at, self._parameters.version, rules)
        newest = work.now - timedelta(seconds=self._limits.periods.jobs_period_s)
        if self._asked_by is not None and self._asked_by[0] == asked_by and self._asked_by[1].now > newest:
            return self._asked_by[1]
        queues = await queue_facts(work.connection, await self._grid.grid(work.connection), self._parameters)
        limits = limits_of(self._parameters, rules, {facts.workflow for facts in queues.values()})
        times = outage_times(self._parameters)
        heard = await hearings(work.connection, work.now, look_back(limits.longest_silence, times), times)
        merges = [limits.of(rule, WatchedQueue(), analysis=False) for rule in rules if rule.when.producers_gone]
        latest = work.now - min((one for one in merges if one is not None), default=timedelta())
        facts = store.FactsAsked(work.now, queues, latest, limits.came_back)
        found = _Asked(work.now, rules, limits, heard, facts, last.grace_until, times.spread)
        self._asked_by = asked_by, found
        return found

    async def watch_overloaded_queues(self, work: UnitOfWork) -> Looked:
        """Send waiting jobs of a share elsewhere from a queue that has too many of them (fast rebrokerage).

        What was judged goes in slices. What is left of it is in the database, so that whoever comes next goes on.
        """
        judged_at, allotted = await self._allotted(work)
        if not allotted:
            return Looked()
        queues = await queue_facts(work.connection, await self._grid.grid(work.connection), self._parameters)
        now, later = rebrokerage.parted(allotted, SLICE)
        again_s = self._limits.periods.rebrokerage_again_s
        chosen = await store.jobs_to_rebroker(work.connection, now, queues, again_s)
        n_all = 0
        for overload, _ in now:
            n_all += (n_closed := await self._expire(work, overload.verdict, chosen.get(overload, [])))
            log.info("%s: %d closed of %d too many", overload.reason, n_closed, overload.n_excess)
        await store.put_overloads(work.connection, later, judged_at)
        return Looked(bool(later), sum(map(len, chosen.values())), n_all)

    async def _allotted(self, work: UnitOfWork) -> tuple[datetime, Sequence[tuple[rebrokerage.Overload, int]]]:
        """What is left of the last judgement, and when that was; it is judged anew if it is time for that.

        Where too much time passed, because whoever judged was killed, what is left is judged anew at once: no more jobs
        end than were left.
        """
        judged_at, left = await store.overloads_left(work.connection)
        if judged_at is not None and work.now - judged_at <= JUDGED_FOR:
            return judged_at, left
        periods = self._limits.periods
        period_s = 0.0 if left else periods.rebrokerage_period_s
        if await store.start_run(work.connection, "overloaded_queues", period_s) is None:
            return work.now, ()
        most = min(periods.most_jobs, sum(n_jobs for _, n_jobs in left)) if left else periods.most_jobs
        allotted = rebrokerage.within(await self._overloads(work), most)
        if left and not allotted:
            await store.put_overloads(work.connection, (), work.now)
        return work.now, allotted

    async def _overloads(self, work: UnitOfWork) -> Sequence[rebrokerage.Overload]:
        """Judge all queues."""
        thresholds = self._limits.rebrokerage(await store.share_names(work.connection))
        crowded = await store.crowded_shares(work.connection, thresholds.n_queued) if thresholds.n_queued else []
        if not crowded:
            return ()
        queues = await queue_facts(work.connection, await self._grid.grid(work.connection), self._parameters)
        counts = await store.jobs_by_queue_and_share(work.connection, crowded, queues)
        return rebrokerage.overloads(counts, thresholds)

    async def _expire(self, work: UnitOfWork, verdict: Expiry, overdue: Sequence[WatchedJob]) -> int:
        """End these jobs; how many were still as they were judged."""
        await work.because(verdict.reason)
        n_ended = 0
        for some in batches(overdue, IDS_OF_EVENT):
            ended = await store.expire(work.connection, some, verdict)
            if ended.job_ids:
                work.emit(JobsExpired(job_ids=ended.job_ids, moves=ended.moves, reason=verdict.reason))
                count = partial(self._expired.labels(rule=verdict.rule).inc, len(ended.job_ids))
                work.after_commit(count)
            n_ended += len(ended.job_ids)
        return n_ended
