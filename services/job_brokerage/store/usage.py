"""Reads from the database who uses how much.

What all analysis decisions share is kept by queue; a task's own is read for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

import asyncpg

from shared.brokerage.usage import WAITS_KEPT, OwnUsage, Usage, level_1_of_shares, percent_of_shares
from shared.db.queries import Queries
from shared.model.world_file import GroupUsage, JobsCounted, Outcomes, UserUsage
from shared.snapshot.use_of_queues import use_of_queues

PAST_READ_AGAIN = timedelta(hours=1)
READ_ALL_EVERY = timedelta(minutes=10)

SQL = Queries.beside(__file__)


class UsageSnapshot:
    """Usage that is read when the first analysis decision needs it.

    From then on only the queues that changed are read, and of their past the last hours: older ones change only when
    events come very late, and are read again after a while.
    """

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._read_all_at: datetime | None = None
        self._changed: set[str] = set()
        self._all_changed = False
        self._reading = asyncio.Lock()

    def mark(self, queues: Iterable[str] | None) -> None:
        """Note that the statistics of these queues changed; None: read everything again."""
        if queues is None:
            self._all_changed = True
        else:
            self._changed.update(queues)

    async def current(self, connection: asyncpg.Connection) -> Usage:
        """Give the use as an immutable value: a decision takes it once and keeps it."""
        async with self._reading:
            shares = [(row["name"], row["value"], row["parent"]) for row in await SQL.rows(connection, "shares")]
            # Taken before the read: what is marked while it lasts is read by the next decision.
            changed, all_changed = sorted(self._changed), self._all_changed
            self._changed.clear()
            self._all_changed = False
            try:
                usage = await self._read(connection, None if all_changed else changed)
            except BaseException:
                self._changed.update(changed)
                self._all_changed |= all_changed
                raise
            percent, level_1 = percent_of_shares(shares), level_1_of_shares(shares)
            if usage is not self._usage or (percent, level_1) != (usage.share_percent, usage.level_1):
                self._usage = usage = Usage(usage.queues, percent, level_1)
            return usage

    async def _read(self, connection: asyncpg.Connection, changed: list[str] | None) -> Usage:
        known, now = self._usage, await SQL.value(connection, "now")
        if known is None or changed is None or self._read_all_at is None or now - self._read_all_at >= READ_ALL_EVERY:
            everything = await use_of_queues(connection, None, now - WAITS_KEPT)
            self._read_all_at = now
            return Usage(everything)
        if not changed:
            return known
        since = now.replace(minute=0, second=0, microsecond=0) - PAST_READ_AGAIN
        return known.updated(changed, await use_of_queues(connection, changed, since), since, now)


async def read_own(
    connection: asyncpg.Connection, *, task_id: int, user_name: str, vo: str, working_group: str
) -> OwnUsage:
    """Read one task's own, in its VO; rows of the database need no validation."""
    disk = await SQL.row(connection, "disk_of_user", user_name=user_name, vo=vo)
    group = await SQL.row(connection, "usage_of_group", working_group=working_group, vo=vo) if working_group else None
    return OwnUsage(
        [
            JobsCounted.model_construct(**row)
            for row in await SQL.rows(connection, "counts_of_user", user_name=user_name, vo=vo)
        ],
        [Outcomes.model_construct(**row) for row in await SQL.rows(connection, "outcomes_of_task", task_id=task_id)],
        UserUsage.model_construct(**disk) if disk is not None else UserUsage(),
        GroupUsage.model_construct(**group) if group is not None else GroupUsage(),
    )
