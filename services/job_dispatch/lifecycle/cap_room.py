"""How many more jobs of a user or working group may be given to pilots.

Asked where jobs would be activated at once: a task that is resumed, and new jobs. Without it an owner who pauses and
resumes a task would get what the caps hold back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import asyncpg

from services.job_dispatch.policy.user_caps import DEFAULT_CAP, Account, AnalysisUse, RunningCaps, room_of
from services.job_dispatch.store.user_caps import SQL
from shared.brokerage.limits import GROUP_CORES_CAP, GROUP_JOBS_CAP, USER_CORES_CAP, USER_JOBS_CAP
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork


@dataclass
class AccountRoom:
    """What is left of it in this transaction; shared by the tasks of one account."""

    n_jobs: int

    def takes_one(self) -> bool:
        """Count another job, if it may be activated; whether it may."""
        self.n_jobs -= 1
        return self.n_jobs >= 0


class CapRoom:
    """Who asks for an account holds it until the commit: two that ask together share its room."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    async def of_task(self, work: UnitOfWork, task_id: int) -> int | None:
        """Read how many throttled jobs of a task may go on; None where no cap holds, as it is no analysis."""
        found = await self._rooms(work, await SQL.rows(work.connection, "accounts_of_tasks", task_ids=[task_id]))
        return found[task_id].n_jobs if task_id in found else None

    async def of_new_jobs(self, work: UnitOfWork, task_ids: Collection[int]) -> dict[int, AccountRoom]:
        """Read which of those of these tasks belong to an account that is held back now."""
        least = self._parameters.least
        rows = await SQL.rows(
            work.connection,
            "held_accounts_of_tasks",
            task_ids=sorted(task_ids),
            least_jobs=least(USER_JOBS_CAP, DEFAULT_CAP),
            least_cores=least(USER_CORES_CAP, DEFAULT_CAP),
        )
        return await self._rooms(work, rows, held_alone=True)

    async def _rooms(
        self, work: UnitOfWork, rows: Collection[asyncpg.Record], *, held_alone: bool = False
    ) -> dict[int, AccountRoom]:
        tasks: dict[tuple[str, str, str], list[int]] = {}
        for row in rows:
            tasks.setdefault((row["vo"], row["user_name"], row["working_group"]), []).append(row["task_id"])
        found: dict[int, AccountRoom] = {}
        for vo, user_name, working_group in sorted(tasks):
            about: dict[str, Any] = {"vo": vo, "user_name": user_name, "working_group": working_group}
            await SQL.value(work.connection, "hold_account", **about)
            *counts, cap_jobs, cap_cores = await SQL.one(work.connection, "use_of_account", **about)
            usual = caps_of(self._parameters, Account(user_name, working_group), vo)
            caps, use = RunningCaps(cap_jobs or usual.jobs, cap_cores or usual.cores), AnalysisUse(*counts)
            is_above = use.running_jobs > caps.jobs or use.running_cores > caps.cores
            if not held_alone or use.throttled_jobs or is_above:
                found |= dict.fromkeys(tasks[vo, user_name, working_group], AccountRoom(room_of(use, caps)))
        return found


def caps_of(parameters: Parameters, account: Account, vo: str | None) -> RunningCaps:
    """What holds for an account of which nothing else is said."""
    is_group = bool(account.working_group)
    jobs, cores = (GROUP_JOBS_CAP, GROUP_CORES_CAP) if is_group else (USER_JOBS_CAP, USER_CORES_CAP)
    return RunningCaps.of(parameters.read(jobs, vo=vo), parameters.read(cores, vo=vo))
