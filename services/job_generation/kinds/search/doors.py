"""Searches of hyper-parameters at the doors of the steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from services.job_generation.kinds.event_service.beside import ServesSets
from services.job_generation.kinds.event_service.leaving import LeavingJobs
from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.kinds.search import store as store_searches
from services.job_generation.kinds.search.ending import EndingEvaluations
from services.job_generation.kinds.search.serving import ServingSearches
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import PlacedJob, Task
from services.job_generation.steps.doors import NOTHING, BrokeredChunk, CountJobs, Followed, Prompt, RequestJobs
from services.job_generation.store import tasks as store
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskEvent, TaskPointsOpened


class SearchJobs(BuiltKind, ServesSets):
    """Jobs of sets of which each evaluates points; they are served before other job sets."""

    def __init__(self, steps: Steps) -> None:
        self._settling, self._serving = steps.settling, ServingSearches(steps)
        self._ending = EndingEvaluations(steps.counting, LeavingJobs(steps))

    async def offers(self, work: UnitOfWork, task: Task) -> bool:
        """Wait for the first point of an optimiser."""
        rules = task.rules
        if not rules.evaluates_points or rules.points_per_generation is not None:
            return True
        if await store_searches.has_points(work, task.task_id):
            return True
        await store.record_decision(work, task.task_id, "pass", "waits for the first points of its optimiser")
        return False

    async def request(
        self,
        work: UnitOfWork,
        at: BrokeredChunk,
        placed: Sequence[PlacedJob],
        changes: CounterChanges,
        rest: RequestJobs,
    ) -> Sequence[int]:
        """Begin searches, with the first jobs that evaluate their points."""
        if not at.task.rules.evaluates_points:
            return await rest(placed)
        return await self._serving.begin(work, at, placed, changes)

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Count jobs of searches one by one."""
        if held.task.rules.evaluates_points:
            jobs = await self._ending.ended(work, held, jobs, changes)
        await rest(jobs)

    async def follows(self, work: UnitOfWork, held: LockedTask, prompt: Prompt) -> Followed:
        """Make the jobs that searches want, or end what is over."""
        return Followed(await self._serving.serve(work, held)) if held.task.rules.evaluates_points else NOTHING

    def hears(self) -> Sequence[tuple[type[Any], Callable[[Any, UnitOfWork], Awaitable[None]]]]:
        """New points."""
        return ((TaskPointsOpened, self.on_task_points_opened),)

    async def on_task_points_opened(self, event: TaskEvent, work: UnitOfWork) -> None:
        """A search has points that nobody evaluates: more jobs may be made."""
        await self._settling.settle_again(work, event.task_id, Prompt(force=True))
