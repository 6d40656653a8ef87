"""Raises the waiting analysis jobs of users who ran less than others, every six minutes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from services.job_dispatch.lifecycle.reordering import Reordering
from services.job_dispatch.policy.priority_balance import QueueUse, Raise, balanced
from services.job_dispatch.policy.user_caps import Account
from services.job_dispatch.store.user_caps import SQL
from shared.db.database import is_retryable
from shared.db.unit_of_work import UnitOfWork
from shared.model.batches import batches
from shared.snapshot.live_queues import QueueWalk

log = logging.getLogger(__name__)

#: jobs that ended within this count beside those that run
ENDED_WITHIN_H = 24
#: jobs raised by one look: no further account is begun beyond that; whoever is left is looked at again
MOST_JOBS = 20_000
#: jobs raised in one transaction
SLICE = 500


@dataclass(frozen=True)
class _Raised:
    """Waiting jobs of an account at a queue that get so much more, by id with the priority that they had."""

    reason: str
    by: int
    priorities: Mapping[int, int]


class Balancing:
    """One replica at a time looks at all accounts, queue by queue."""

    def __init__(self, reordering: Reordering, *, most: int = MOST_JOBS, size: int = SLICE) -> None:
        self._reordering = reordering
        self._most, self._size = most, size
        self._walk = QueueWalk()
        self._uses: Sequence[QueueUse] = ()
        self._left: deque[_Raised] = deque()

    async def look(self, work: UnitOfWork) -> bool:
        """Raise whom the policy names, account by account and queue by queue, each as a whole, in slices.

        Whether the next slice follows at once. What the accounts use is counted in slices before. The most urgent jobs
        come first, so that their order stays in between.
        """
        if not self._left:
            return await self._count(work)
        slice_ = self._left[0]
        try:
            await work.because(slice_.reason)
            await self._reordering.raise_jobs(work, slice_.priorities, slice_.by)
        except Exception as error:
            if not is_retryable(error):  # it would fail each time, and nobody behind it would have a turn
                self._left.popleft()
            raise
        work.after_commit(self._raised)
        return len(self._left) > 1

    def _raised(self) -> None:
        self._left.popleft()

    async def _count(self, work: UnitOfWork) -> bool:
        """Count what accounts use at the next queues; after the last, choose whom to raise."""
        next_ = await self._walk.next(work)
        rows = await SQL.rows(
            work.connection, "use_of_queues", timeout_s=60, ended_within_h=ENDED_WITHIN_H, queues=next_.queues,
            after=next_.after, upto=next_.upto,
        )  # fmt: skip
        uses = [*(self._uses if next_.after else ()), *(_use(*row) for row in rows)]
        chosen = [] if next_.more else await self._chosen(work, uses)
        work.after_commit(partial(self._keep, uses if next_.more else (), chosen))
        return next_.more or bool(chosen)

    def _keep(self, uses: Sequence[QueueUse], chosen: Sequence[_Raised]) -> None:
        self._uses = uses
        self._left.extend(chosen)

    async def _chosen(self, work: UnitOfWork, uses: Sequence[QueueUse]) -> list[_Raised]:
        """Slices of all that are raised by one look."""
        left, found = self._most, list[_Raised]()
        for one in balanced(uses):
            if one.use.n_waiting > left and left < self._most:
                continue
            left -= one.use.n_waiting
            waiting = await self._waiting(work, one)
            log.info("%s (%d jobs)", one.reason, len(waiting))
            found += [_Raised(one.reason, one.by, dict(some)) for some in batches(waiting, self._size)]
        return found

    async def _waiting(self, work: UnitOfWork, one: Raise) -> list[tuple[int, int]]:
        """The waiting jobs of an account at a queue with their priorities, the most urgent first."""
        account = one.use.account
        rows = await SQL.rows(
            work.connection,
            "waiting_at_queue",
            vo=one.use.vo,
            user_name=account.user_name,
            working_group=account.working_group,
            queue=one.use.queue,
        )
        return [(row["job_id"], row["current_priority"]) for row in rows]


def _use(
    vo: str | None, user_name: str, working_group: str, queue: str, n_used: int, n_waiting: int, best: int, quota: float
) -> QueueUse:
    return QueueUse(vo, Account(user_name, working_group), queue, n_used, n_waiting, best, quota)
