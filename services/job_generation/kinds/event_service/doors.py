"""Event service at the doors of the steps."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.kinds.event_service.beside import ServesSets
from services.job_generation.kinds.event_service.ending import EndingJobSets
from services.job_generation.kinds.event_service.making import MakingJobSets
from services.job_generation.kinds.event_service.serving import ServingJobSets
from services.job_generation.kinds.event_service.store.event_ranges import discard_if_wanted
from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import PlacedJob, Task
from services.job_generation.steps.doors import NOTHING, BrokeredChunk, CountJobs, Followed, Prompt, RequestJobs
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork


class JobsOfSets(BuiltKind, ServesSets):
    """They are jobs of the kind of their chunk, with a job set for the input of each."""

    def __init__(self, steps: Steps) -> None:
        self._making, self._ending, self._serving = MakingJobSets(steps), EndingJobSets(steps), ServingJobSets(steps)

    async def request(
        self,
        work: UnitOfWork,
        at: BrokeredChunk,
        placed: Sequence[PlacedJob],
        changes: CounterChanges,
        rest: RequestJobs,
    ) -> Sequence[int]:
        """Make job sets with their ranges and first jobs."""
        if not _has_sets(at.task):
            return await rest(placed)
        return await self._making.begin(work, at, placed, changes)

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Count jobs of sets, and what their ends mean for the other jobs of these."""
        if _has_sets(held.task):
            jobs = await self._ending.ended(work, held, jobs, changes)
        await rest(jobs)

    async def prompted(self, work: UnitOfWork, task: Task, prompt: Prompt) -> None:
        """Discard what was processed if a retry says so."""
        if prompt.command == "retry":
            await discard_if_wanted(work, task.task_id)

    async def follows(self, work: UnitOfWork, held: LockedTask, prompt: Prompt) -> Followed:
        """Make the jobs that sets want, to go on or to merge."""
        return Followed(await self._serving.serve(work, held)) if _has_sets(held.task) else NOTHING


def _has_sets(task: Task) -> bool:
    """Whether its jobs take ranges of events; those that evaluate points are another kind."""
    return task.rules.uses_event_service and not task.rules.evaluates_points
