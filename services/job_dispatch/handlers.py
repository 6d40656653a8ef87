"""What job_dispatch does when something happened.

Each handler runs in one transaction and may be repeated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from services.job_dispatch.acquire.upkeep import Upkeep
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.lifecycle.command_slices import CommandSlices
from services.job_dispatch.lifecycle.inputs import Inputs
from services.job_dispatch.lifecycle.outputs import Outputs
from services.job_dispatch.lifecycle.reordering import COMMANDS, Reordering
from services.job_dispatch.policy.commands import Order
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.jobs import LockedJob
from shared.db.unit_of_work import UnitOfWork
from shared.events import (
    JobsActivated,
    JobsDispatched,
    JobsGenerated,
    JobsReordered,
    JobsThrottled,
    OutputsRegistered,
    TaskCommanded,
    TransfersCompleted,
)
from shared.model.batches import batches
from shared.states.job import JobStatus

NEWS_SLICE = 1000  # taken in at once, in about a millisecond


class Handlers:
    """Work: one replica handles each event, through the inbox."""

    def __init__(self, inputs: Inputs, outputs: Outputs, commands: CommandSlices, reordering: Reordering) -> None:
        self._commands = commands
        self._reordering = reordering
        self._inputs = inputs
        self._outputs = outputs

    async def on_jobs_generated(self, event: JobsGenerated, work: UnitOfWork) -> None:
        await self._inputs.settle(work, event.job_ids)

    async def on_transfers_completed(self, event: TransfersCompleted, work: UnitOfWork) -> None:
        failed = set(event.failed_job_ids)
        jobs = await store.lock_jobs(work.connection, [*event.job_ids, *failed])
        await self._inputs.lost(work, _in_state(jobs, ("assigned", "transferring"), failed))
        waiting = await store.waiting_for_transfers(work.connection, sorted(jobs))
        arrived = set(jobs) - waiting - failed
        if arrived:
            await self._inputs.arrived(work, _in_state(jobs, ("assigned",), arrived))
            await self._outputs.arrived(work, _in_state(jobs, ("transferring",), arrived))

    async def on_outputs_registered(self, event: OutputsRegistered, work: UnitOfWork) -> None:
        await self._outputs.registered(work, event.job_ids)
        if event.without_storage_job_ids:
            await self._outputs.without_storage(work, event.without_storage_job_ids)
        if event.names_taken_job_ids:
            await self._outputs.names_taken(work, event.names_taken_job_ids)
        if event.refused_job_ids:
            await self._outputs.refused(work, event.refused_job_ids)

    async def on_task_commanded(self, event: TaskCommanded, work: UnitOfWork) -> None:
        """A command that its task has left behind meanwhile (retried, resumed, paused again) changes nothing."""
        if event.command in COMMANDS:
            await self._reordering.begin(work, event.task_id, event.command)
            return
        await self._commands.begin(work, event.task_id, Order(event.command, event.soft))


class NewsHandlers:
    """News: every replica receives it."""

    def __init__(self, windows: Windows, upkeep: Upkeep) -> None:
        self._windows = windows
        self._upkeep = upkeep

    async def on_jobs_activated(self, event: JobsActivated) -> None:
        for some in batches(event.lane_jobs, NEWS_SLICE):
            self._windows.arrive(some)
            await asyncio.sleep(0)

    async def on_jobs_reordered(self, event: JobsReordered) -> None:
        for some in batches(event.lane_jobs, NEWS_SLICE):
            self._windows.reorder(some)
            await asyncio.sleep(0)

    async def on_jobs_dispatched(self, event: JobsDispatched) -> None:
        self._windows.taken(event.job_ids)
        self._upkeep.granted(event.moves)

    async def on_jobs_throttled(self, event: JobsThrottled) -> None:
        """A pause leaves the windows as they are, without its own jobs."""
        per_queue: Counter[str] = Counter()
        for move in event.moves:
            per_queue[move.queue] += move.n_jobs
        self._windows.hold_back(event.job_ids, per_queue)


def _in_state(jobs: Mapping[int, LockedJob], statuses: Sequence[JobStatus], wanted: set[int]) -> dict[int, LockedJob]:
    return {job_id: job for job_id, job in sorted(jobs.items()) if job_id in wanted and job.row.status in statuses}
