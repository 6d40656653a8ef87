"""Which of several copies of a job goes on (useJobCloning)."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.applying import Applying
from services.job_generation.event_serving.cloning import tasks_of_copies
from services.job_generation.settling import Settling
from services.job_generation.store import tasks as store
from shared.db.unit_of_work import UnitOfWork
from shared.events import JobsEvent


class DecidingCopies:
    """One look-up for all jobs of an event; tasks without copies are not locked."""

    def __init__(self, applying: Applying, settling: Settling) -> None:
        self._applying, self._settling = applying, settling

    async def on_jobs_started(self, event: JobsEvent, work: UnitOfWork) -> None:
        """Pilots began to work: with runonce the other copies are not needed any more."""
        await self._decide(work, event.job_ids, has_stored=False)

    async def on_jobs_transferring(self, event: JobsEvent, work: UnitOfWork) -> None:
        """Outputs are registered: the other copies are not needed any more."""
        await self._decide(work, event.job_ids, has_stored=True)

    async def _decide(self, work: UnitOfWork, job_ids: Sequence[int], *, has_stored: bool) -> None:
        copies = await tasks_of_copies(work, job_ids)
        changed = [
            held.task.task_id
            for held in (await store.lock_tasks(work, sorted(copies)) if copies else [])
            if await self._applying.copies_go_on(work, held, copies[held.task.task_id], has_stored=has_stored)
        ]
        await self._settling.settle_all(work, changed)
