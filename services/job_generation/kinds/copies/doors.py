"""Copies of one job (useJobCloning): several have the same input, and all but one are taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from services.job_generation.kinds.copies.ending import EndingCopies, note_copies, tasks_of_copies
from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import PlacedJob
from services.job_generation.specification.kind_of_job import SCOUT
from services.job_generation.splitting.elsewhere import Elsewhere
from services.job_generation.steps.doors import BrokeredChunk, CountJobs, RequestJobs
from services.job_generation.store import counters as store_counters
from services.job_generation.store import tasks as store
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from services.job_generation.supplying.matching import take_more
from shared.db.unit_of_work import UnitOfWork
from shared.events import JobsEvent, JobsStarted, JobsTransferring


class CopiesOfJobs(BuiltKind):
    """Jobs of the kind of their chunk; what differs is how many there are, and which counts."""

    def __init__(self, steps: Steps) -> None:
        self._settling, self._ending = steps.settling, EndingCopies(steps.counting)

    async def request(
        self,
        work: UnitOfWork,
        at: BrokeredChunk,
        placed: Sequence[PlacedJob],
        changes: CounterChanges,
        rest: RequestJobs,
    ) -> Sequence[int]:
        """Make each job at several sites, with a job set for its copies."""
        if at.task.rules.cloning is None:
            return await rest(placed)
        elsewhere = Elsewhere(at.task, at.queues, placed, scout=at.chunk.kind == SCOUT.name)
        copies = await take_more(work, at.task, [elsewhere.spread(one) for one in placed])
        spread = [copy for of_input in copies for copy in of_input]
        job_ids = await rest(spread)
        await note_copies(work, at.source, at.chunk, spread, job_ids)
        return job_ids

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Count copies that others replace; the ones that stand for their input are counted as what they are."""
        if held.task.rules.cloning is not None:
            jobs = await self._ending.ended(work, held, jobs, changes)
        await rest(jobs)

    def hears(self) -> Sequence[tuple[type[Any], Callable[[Any, UnitOfWork], Awaitable[None]]]]:
        """Copies that go on."""
        return ((JobsStarted, self.on_jobs_started), (JobsTransferring, self.on_jobs_transferring))

    async def on_jobs_started(self, event: JobsEvent, work: UnitOfWork) -> None:
        """Pilots began to work: with runonce the other copies are not needed any more."""
        await self._decide(work, event.job_ids, has_stored=False)

    async def on_jobs_transferring(self, event: JobsEvent, work: UnitOfWork) -> None:
        """Outputs are registered: the other copies are not needed any more."""
        await self._decide(work, event.job_ids, has_stored=True)

    async def _decide(self, work: UnitOfWork, job_ids: Sequence[int], *, has_stored: bool) -> None:
        """One look-up for all jobs of an event; tasks without copies are not locked."""
        copies = await tasks_of_copies(work, job_ids)
        changed = []
        for held in await store.lock_tasks(work, sorted(copies)) if copies else []:
            if not has_stored and held.task.rules.cloning != "runonce":
                continue
            changes, task_id = CounterChanges(), held.task.task_id
            if await self._ending.goes_on(work, held, copies[task_id], changes):
                changed.append(task_id)
            await store_counters.apply(work, changes)
        await self._settling.settle_all(work, changed)
