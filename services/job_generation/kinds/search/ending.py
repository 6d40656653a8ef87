"""Jobs that evaluate points of a search of hyper-parameters end."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.kinds.event_service.leaving import LeavingJobs
from services.job_generation.kinds.event_service.policy.endings import outcome_of
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.search import store as store_searches
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.outcomes import Ended
from services.job_generation.steps.counting import Counting
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork


class EndingEvaluations:
    """Counts these jobs, each with the end that it had itself, and releases what they did not evaluate.

    What follows is decided when the search is looked at next. Source: panda-server, release of unprocessed events of
    HPO jobs: a point whose job ended has one attempt less.
    """

    def __init__(self, counting: Counting, leaving: LeavingJobs) -> None:
        self._counting, self._leaving = counting, leaving

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> list[EndedJob]:
        """Apply those of searches; the others come back."""
        members = await store_sets.members_of_jobs(work, [job.job_id for job in jobs])
        for job in jobs:
            if job.job_id in members:
                await self._one(work, held, members[job.job_id].job_set_id, job, changes)
        return [job for job in jobs if job.job_id not in members]

    async def _one(
        self, work: UnitOfWork, held: LockedTask, set_id: int, job: EndedJob, changes: CounterChanges
    ) -> None:
        [row] = await store_sets.lock(work, [set_id])
        n_evaluated, _ = await self._leaving.release(work, held, row, job, takes_back=False)
        outcome = outcome_of(job.status, job.error_source, job.error_code, had_pilot=job.had_pilot)
        is_unused = outcome == "unused"
        await store_sets.end_members(work, [(job.job_id, "es_unused" if is_unused else None, n_evaluated)])
        if is_unused:
            await store_searches.note_jobs(work, set_id, -1)
        found = (await store_sets.members_of_sets(work, [set_id])).get(set_id, [])
        others = [one.job_id for one in found if one.job_id != job.job_id]
        await store_sets.own_input(work, set_id, min(others, default=None))
        await self._counting.write(work, held, [job], {job.job_id: Ended(job.status, job.error_source)}, changes)
