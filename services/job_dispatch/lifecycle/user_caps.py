"""Throttles the waiting jobs of users and working groups that run too many, and lets them go on."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace

from services.job_dispatch.lifecycle.cap_room import caps_of
from services.job_dispatch.lifecycle.transitions import move_jobs
from services.job_dispatch.policy.user_caps import (
    DEFAULT_CAP,
    Account,
    AnalysisUse,
    HoldBack,
    RunningCaps,
    hold_back,
)
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.user_caps import SQL
from shared.brokerage.limits import GROUP_CORES_CAP, GROUP_JOBS_CAP, USER_CORES_CAP, USER_JOBS_CAP
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import JobStatus

log = logging.getLogger(__name__)

#: jobs of all accounts that are moved in one transaction; what is left follows at once
SLICE = 500


class UserCaps:
    """One replica at a time looks at all accounts."""

    def __init__(self, parameters: Parameters, *, size: int = SLICE) -> None:
        self._parameters = parameters
        self._size = size
        self._left: deque[tuple[Account, str | None, HoldBack]] = deque()

    async def look(self, work: UnitOfWork) -> bool:
        """Hold back, or let go on, up to a slice of jobs; whether there are more.

        Accounts are counted once a minute: what one slice has no room for is left to the next slices.
        """
        if not self._left:
            self._left = await self._decisions(work)
        room, n_moved = self._size, 0
        while self._left and room > 0:
            account, vo, decision = self._left.popleft()
            n_wanted = decision.n_throttle or decision.n_activate
            n_found, n_moved_here = await self._move(work, account, vo, decision, room)
            room, n_moved = room - n_found, n_moved + n_moved_here
            if room <= 0 and n_found < n_wanted:
                self._left.appendleft((account, vo, _less(decision, n_found)))
        if self._left and not n_moved:
            self._left.clear()  # others hold what is left: the next look counts again
        return bool(self._left)

    async def _decisions(self, work: UnitOfWork) -> deque[tuple[Account, str | None, HoldBack]]:
        """Decide what is to be done, by what all accounts run now."""
        least = self._parameters.least
        rows = await SQL.rows(
            work.connection,
            "use_of_accounts",
            least_jobs=least(USER_JOBS_CAP, DEFAULT_CAP),
            least_cores=least(USER_CORES_CAP, DEFAULT_CAP),
            least_group_jobs=least(GROUP_JOBS_CAP, DEFAULT_CAP),
            least_group_cores=least(GROUP_CORES_CAP, DEFAULT_CAP),
        )
        found: deque[tuple[Account, str | None, HoldBack]] = deque()
        for vo, user_name, working_group, *counts, cap_jobs, cap_cores in rows:
            account = Account(user_name, working_group)
            caps = caps_of(self._parameters, account, vo)
            caps = RunningCaps(cap_jobs or caps.jobs, cap_cores or caps.cores)
            decision = hold_back(AnalysisUse(*counts), caps)
            if decision.n_throttle or decision.n_activate:
                found.append((account, vo, decision))
        return found

    async def _move(
        self, work: UnitOfWork, account: Account, vo: str | None, decision: HoldBack, most: int
    ) -> tuple[int, int]:
        """How many jobs were found and moved; those that a pilot took, or that are held, stay as they are."""
        n_wanted = min(most, decision.n_throttle or decision.n_activate)
        if not n_wanted:
            return 0, 0
        source: JobStatus = "activated" if decision.n_throttle else "throttled"
        target: JobStatus = "throttled" if decision.n_throttle else "activated"
        rows = await SQL.rows(
            work.connection,
            "jobs_of_account",
            vo=vo,
            user_name=account.user_name,
            working_group=account.working_group,
            status=source,
            most=n_wanted,
        )
        jobs, _ = await store.lock_free_jobs(work.connection, [row["job_id"] for row in rows])
        wanted = [job_id for job_id, job in jobs.items() if job.row.status == source]
        moved = await move_jobs(work, jobs, wanted, target, reason=f"{account}: {decision.reason}")
        log.info("%s: %d jobs %s: %s", account, len(moved), target, decision.reason)
        return len(rows), len(moved)


def _less(decision: HoldBack, n_done: int) -> HoldBack:
    """What is left of a decision."""
    return replace(
        decision,
        n_throttle=max(0, decision.n_throttle - n_done),
        n_activate=max(0, decision.n_activate - n_done),
    )
