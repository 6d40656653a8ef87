"""Raises the waiting analysis jobs of users who ran less than others, every six minutes."""

from __future__ import annotations

import logging

from services.job_dispatch.lifecycle.reordering import Reordering
from services.job_dispatch.policy.priority_balance import QueueUse, Raise, balanced
from services.job_dispatch.policy.user_caps import Account
from services.job_dispatch.store.user_caps import SQL
from shared.db.unit_of_work import UnitOfWork

log = logging.getLogger(__name__)

#: jobs that ended within this count beside those that run
ENDED_WITHIN_H = 24
#: jobs raised in one transaction; whoever is left is looked at again
MOST_JOBS = 20_000


class Balancing:
    """One replica at a time looks at all accounts."""

    def __init__(self, reordering: Reordering, *, most: int = MOST_JOBS) -> None:
        self._reordering = reordering
        self._most = most

    async def look(self, work: UnitOfWork) -> None:
        """Raise whom the policy names, account by account and queue by queue, each as a whole."""
        rows = await SQL.rows(work.connection, "use_of_queues", timeout_s=60, ended_within_h=ENDED_WITHIN_H)
        left = self._most
        for one in balanced([_use(*row) for row in rows]):
            if one.use.n_waiting > left and left < self._most:
                continue
            left -= one.use.n_waiting
            n_raised = await self._raise(work, one)
            log.info("%s (%d jobs)", one.reason, n_raised)

    async def _raise(self, work: UnitOfWork, one: Raise) -> int:
        await work.because(one.reason)
        account = one.use.account
        rows = await SQL.rows(
            work.connection,
            "waiting_at_queue",
            vo=one.use.vo,
            user_name=account.user_name,
            working_group=account.working_group,
            queue=one.use.queue,
        )
        priorities = {row["job_id"]: row["current_priority"] + one.by for row in rows}
        return len(await self._reordering.set_priorities(work, priorities))


def _use(
    vo: str | None, user_name: str, working_group: str, queue: str, n_used: int, n_waiting: int, best: int, quota: float
) -> QueueUse:
    return QueueUse(vo, Account(user_name, working_group), queue, n_used, n_waiting, best, quota)
