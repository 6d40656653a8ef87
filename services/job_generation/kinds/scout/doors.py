"""Scouts: the first jobs of a task, which measure what the others need (JEDI: Using scout jobs)."""

from __future__ import annotations

from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.scouts.scouting import Scouting
from services.job_generation.specification.kind_of_job import SCOUT
from services.job_generation.steps.doors import NOTHING, Followed, Prompt
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork


class ScoutJobs(BuiltKind):
    """Made, counted and settled like normal jobs; then the task is judged by them."""

    job = SCOUT

    def __init__(self, steps: Steps) -> None:
        self._scouting = Scouting(steps.parameters, steps.grid)

    async def follows(self, work: UnitOfWork, held: LockedTask, prompt: Prompt) -> Followed:
        """Judge the task by its scouts, or whatever they say with the command avalanche; later once more."""
        if await self._scouting.look(work, held, go=prompt.command == "avalanche"):
            return Followed(has_moved=True)
        if held.task.status == "scouted":
            await store_units.open_all_files(work, held.task.task_id)
            await store.move_task(work, held.task, "running", reason="all input opened")
            return Followed(has_moved=True)
        return NOTHING
