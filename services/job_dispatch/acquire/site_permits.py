"""Limits and delays of sites hold for all dispatchers: PostgreSQL permits each job that is meant.

What a process counts in memory keeps it from asking in vain; what it is told here decides. Losing the permits of a
process that ended costs room for `PERMIT_S` at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import asyncpg

from services.job_dispatch.acquire.sessions import ClaimLine, ClaimOutcome, Sessions
from services.job_dispatch.acquire.site_limits import RulesAt
from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.store import task_queues as store
from shared.db.database import Database
from shared.order.site_limits import n_meant, room

#: a permit whose job is not claimed by then counts no more: longer than any claim takes
PERMIT_S = 60.0
REASON = "limits of sites"


class SitePermits:
    """Answers in a transaction that no other dispatcher runs at the same time."""

    def __init__(self, database: Database, task_queues: TaskQueues) -> None:
        self._database = database
        self._task_queues = task_queues
        self._limits = task_queues.limits

    def means(self, job_id: int) -> bool:
        """Whether a limit or delay means this job, which was picked."""
        return self._limits.meant(job_id) is not None

    async def ask(self, job_ids: Sequence[int]) -> set[int]:
        """Ask which of these jobs, picked and meant by limits or delays, may be claimed now, in this order."""
        wanted = {job_id: rules for job_id in job_ids if (rules := self._limits.meant(job_id)) is not None}
        names = {self._limits.delay(at)[0] for rules in wanted.values() for at in rules.delays}
        async with self._database.begin(reason=REASON) as work:
            await store.one_at_a_time(work.connection)
            running = await store.running_delays(work.connection, sorted(names))
            # another dispatcher may have picked the same job: it is counted, and takes no more room
            counted = await store.permitted(work.connection, sorted(wanted), PERMIT_S)
            left = await self._left(work.connection, wanted)
            allowed, begun = self._decide(wanted, left, running, counted)
            await store.permit(work.connection, sorted(allowed), PERMIT_S)
            await store.begin_delays(work.connection, begun)
        return allowed

    async def _left(self, connection: asyncpg.Connection, wanted: Mapping[int, RulesAt]) -> Counter[tuple[int, str]]:
        """How many more jobs may run, of each limit at each site that is asked for."""
        asked = {at for rules in wanted.values() for at in rules.limits}
        if not asked:
            return Counter()
        sites = {site for _, site in asked}
        running = await self._task_queues.at_sites(connection, sites, PERMIT_S)
        limits = {at: self._limits.rule(at) for at in asked}
        return Counter({at: room(rule.number, n_meant(rule, running, at[1])) for at, rule in limits.items()})

    def _decide(
        self,
        wanted: Mapping[int, RulesAt],
        left: Counter[tuple[int, str]],
        running: Mapping[str, tuple[int, float]],
        counted: Collection[int],
    ) -> tuple[set[int], dict[str, tuple[int, float]]]:
        """Those that are allowed, and the delays that begin: by name the job and the seconds.

        `running`: of each delay that has not ended the job that began it, which may ask again, and the seconds left.
        """
        allowed: set[int] = set()
        begun: dict[str, tuple[int, float]] = {}
        for job_id, rules in wanted.items():
            full = [at for at in rules.limits if left[at] <= 0 and job_id not in counted]
            delayed = {}
            for at in rules.delays:
                by, seconds = {**running, **begun}.get(self._limits.delay(at)[0], (job_id, 0.0))
                if by != job_id:
                    delayed[at] = seconds
            if full or delayed:
                self._limits.refused(job_id, full, delayed)
                continue
            allowed.add(job_id)
            if job_id not in counted:
                left.subtract(rules.limits)
            begun |= {name: (job_id, seconds) for name, seconds in map(self._limits.delay, rules.delays)}
        return allowed, begun


class PermittedSessions:
    """Claims without the jobs that a limit or delay of their site does not permit: picks are lost."""

    def __init__(self, sessions: Sessions, permits: SitePermits) -> None:
        self._sessions = sessions
        self._permits = permits

    @property
    def count(self) -> int:
        """As many claims as the sessions make at a time."""
        return self._sessions.count

    async def claim(self, session: int, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]:
        """Claim in one statement; before it, ask in one transaction if any of the jobs is limited."""
        limited = [line.job_id for line in wanted if line.job_id and self._permits.means(line.job_id)]
        if limited:
            refused = set(limited) - await self._permits.ask(limited)
            # without a job only the key is looked up
            wanted = [line._replace(job_id=0) if line.job_id in refused else line for line in wanted]
        return await self._sessions.claim(session, wanted)

    async def close(self) -> None:
        await self._sessions.close()
