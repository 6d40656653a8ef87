"""Changes priority and share of jobs while they wait, with news for every dispatcher.

A claim takes a job only by the share and priority that it was picked by, so an entry of before cannot win. Jobs of one
task follow their task in slices; a row in `job_order_changes` remembers what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from services.job_dispatch.policy.reordering import (
    WAITING,
    NewOrder,
    OrderChange,
    WaitingJob,
    lane_jobs_of,
    new_order,
    share_moves_of,
)
from services.job_dispatch.store.reordering import SQL
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsReordered
from shared.model.batches import batches
from shared.model.job_types import FOLLOWING_PRIORITY
from shared.model.priorities import changed_priority
from shared.timeouts.added import rules_in_force
from shared.timeouts.rule import priority_limits

#: commands on tasks that change the order of their waiting jobs: whether the priority, whether the share
COMMANDS: Mapping[str, tuple[bool, bool]] = {"change_priority": (True, False), "change_share": (False, True)}
#: jobs in one transaction
SLICE = 1000
POLL_S = 1.0


class Reordering:
    """`begin` is called by the handler of a command; `work_off` runs beside it and does what is left."""

    def __init__(self, *, size: int = SLICE) -> None:
        self._size = size

    async def begin(self, work: UnitOfWork, task_id: int, command: str) -> None:
        """Remember the change and take the first jobs. What the task's row says now counts, not the message."""
        of_priority, of_share = COMMANDS[command]
        found = await SQL.row(
            work.connection, "begin_change", task_id=task_id, of_priority=of_priority, of_share=of_share
        )
        if found is not None:
            await self._advance(work, OrderChange(**dict(found)))

    async def slice(self, work: UnitOfWork) -> int | None:
        """Work off one slice of the oldest change: how many jobs it changed; None if there is none."""
        found = await SQL.row(work.connection, "next_change")
        return None if found is None else await self._advance(work, OrderChange(**dict(found)))

    async def work_off(self, database: Database) -> None:
        """Work off changes slice by slice, each in its own transaction, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            async with database.begin(reason="priority or share of waiting jobs, slice by slice") as work:
                n_changed = await self.slice(work)
            await asyncio.sleep(loop.time() - began if n_changed else POLL_S)

    async def run_slice(self, work: UnitOfWork) -> None:
        """Work off one slice, for simulations, where nothing runs by itself."""
        await self.slice(work)

    async def set_priorities(self, work: UnitOfWork, priorities: Mapping[int, int]) -> list[int]:
        """Give single jobs, by id, these priorities; those that still waited, in order."""
        rows = await SQL.rows(work.connection, "lock_waiting_jobs", job_ids=sorted(priorities), statuses=list(WAITING))
        jobs = [WaitingJob(**dict(row)) for row in rows]
        return await self._reorder(
            work, jobs, {job.job_id: NewOrder(job.gshare, priorities[job.job_id]) for job in jobs}
        )

    async def raise_jobs(self, work: UnitOfWork, priorities: Mapping[int, int], by: int) -> list[int]:
        """Give jobs so much more that still wait with the priorities that they had; their ids, in order."""
        rows = await SQL.rows(work.connection, "lock_waiting_jobs", job_ids=sorted(priorities), statuses=list(WAITING))
        jobs = [job for job in (WaitingJob(**dict(row)) for row in rows) if job.priority == priorities[job.job_id]]
        return await self._reorder(work, jobs, {job.job_id: NewOrder(job.gshare, job.priority + by) for job in jobs})

    async def _advance(self, work: UnitOfWork, change: OrderChange) -> int:
        """Change the next slice of a task's jobs; the change ends when none is left."""
        wanted = _wanted(change)
        await SQL.value(work.connection, "plan_by_index")
        rows = await SQL.rows(work.connection, "take_jobs_to_reorder", size=self._size, **wanted)
        jobs = [WaitingJob(**dict(row)) for row in rows]
        await self._reorder(work, jobs, {job.job_id: new_order(job, change) for job in jobs})
        if len(jobs) < self._size and not await SQL.value(work.connection, "has_jobs_to_reorder", **wanted):
            await SQL.run(work.connection, "end_change", task_id=change.task_id)
        else:
            await SQL.run(work.connection, "note_change", task_id=change.task_id, n_jobs=len(jobs))
        return len(jobs)

    async def _reorder(self, work: UnitOfWork, jobs: Sequence[WaitingJob], orders: Mapping[int, NewOrder]) -> list[int]:
        """Change what differs and tell; the ids that changed. The rows are locked by this transaction."""
        changed = [job for job in jobs if orders[job.job_id] != NewOrder(job.gshare, job.priority)]
        ids = set(await _write(work.connection, changed, orders))
        for some in batches(sorted((job for job in changed if job.job_id in ids), key=_by_id), IDS_OF_EVENT):
            work.emit(
                JobsReordered(
                    job_ids=tuple(job.job_id for job in some),
                    lane_jobs=lane_jobs_of(some, orders),
                    share_moves=share_moves_of(some, orders),
                )
            )
        return sorted(ids)


def _by_id(job: WaitingJob) -> int:
    return job.job_id


async def _write(
    connection: asyncpg.Connection, jobs: Sequence[WaitingJob], orders: Mapping[int, NewOrder]
) -> list[int]:
    if not jobs:
        return []
    ids = sorted(job.job_id for job in jobs)
    rows = await SQL.rows(
        connection,
        "reorder_jobs",
        job_ids=ids,
        priorities=[orders[job_id].priority for job_id in ids],
        gshares=[orders[job_id].gshare for job_id in ids],
        statuses=list(WAITING),
        limits=priority_limits(await rules_in_force(connection)),
    )
    return [row["job_id"] for row in rows]


def _wanted(change: OrderChange) -> dict[str, Any]:
    following = () if change.priority is None else FOLLOWING_PRIORITY
    return {
        "task_id": change.task_id,
        "statuses": list(WAITING),
        "gshare": change.gshare,
        "job_types": list(following),
        "priorities": [changed_priority(kind, 0, change.priority or 0) for kind in following],
    }
