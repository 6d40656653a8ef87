"""Throttles the waiting jobs of users and working groups that run too many, and lets them go on."""

from __future__ import annotations

import logging

from services.job_dispatch.lifecycle.transitions import Lifecycle
from services.job_dispatch.policy.user_caps import (
    DEFAULT_CAP,
    Account,
    AnalysisUse,
    HoldBack,
    RunningCaps,
    hold_back,
)
from services.job_dispatch.store.user_caps import SQL
from shared.brokerage.limits import GROUP_CORES_CAP, GROUP_JOBS_CAP, USER_CORES_CAP, USER_JOBS_CAP
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.runtime.service import Periodic
from shared.states.job import JobStatus

log = logging.getLogger(__name__)

EVERY_S = 60.0
#: jobs of all accounts that are moved in one transaction; what is left follows at once
SLICE = 500


class UserCaps:
    """One replica at a time looks at all accounts."""

    def __init__(self, lifecycle: Lifecycle, parameters: Parameters, *, size: int = SLICE) -> None:
        self._lifecycle = lifecycle
        self._parameters = parameters
        self._size = size

    def periodic(self) -> Periodic:
        """Looks once a minute."""
        return Periodic("user-caps", EVERY_S, self.look)

    async def look(self, work: UnitOfWork) -> bool:
        """Hold back, or let go on, up to a slice of jobs; whether there are more."""
        left, n_moved = self._size, 0
        least = self._parameters.least
        rows = await SQL.rows(
            work.connection,
            "use_of_accounts",
            least_jobs=least(USER_JOBS_CAP, DEFAULT_CAP),
            least_cores=least(USER_CORES_CAP, DEFAULT_CAP),
        )
        for row in rows:
            vo, user_name, working_group, *counts = row
            account = Account(user_name, working_group)
            decision = hold_back(AnalysisUse(*counts), self._caps(account, vo))
            n_found, n_moved_here = await self._move(work, account, vo, decision, left)
            left, n_moved = left - n_found, n_moved + n_moved_here
            if left <= 0:
                return n_moved > 0
        return False

    def _caps(self, account: Account, vo: str | None) -> RunningCaps:
        is_group = bool(account.working_group)
        jobs, cores = (GROUP_JOBS_CAP, GROUP_CORES_CAP) if is_group else (USER_JOBS_CAP, USER_CORES_CAP)
        return RunningCaps.of(self._parameters.read(jobs, vo=vo), self._parameters.read(cores, vo=vo))

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
        jobs, _ = await self._lifecycle.store.lock_free_jobs(work.connection, [row["job_id"] for row in rows])
        wanted = [job_id for job_id, job in jobs.items() if job.row.status == source]
        moved = await self._lifecycle.to(work, jobs, wanted, target, reason=f"{account}: {decision.reason}")
        log.info("%s: %d jobs %s: %s", account, len(moved), target, decision.reason)
        return len(rows), len(moved)
