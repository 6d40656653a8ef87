"""Jumbo jobs, and job sets that wait for others while these run, at the doors of the steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from services.job_generation.kinds.event_service.beside import BesideSets, ServesSets, StandIns
from services.job_generation.kinds.event_service.job import OfJobSet
from services.job_generation.kinds.event_service.open_sets import TAKEN_BACK
from services.job_generation.kinds.event_service.store import waiting_sets as store_waiting
from services.job_generation.kinds.event_service.store.job_set_ranges import HeldRange
from services.job_generation.kinds.event_service.store.job_sets import JobSet, Member
from services.job_generation.kinds.jumbo.ending import EndingJumboJobs
from services.job_generation.kinds.jumbo.job import JUMBO
from services.job_generation.kinds.jumbo.making import MakingJumboJobs
from services.job_generation.kinds.jumbo.placing import left_to_jumbo, waits_for_jumbo
from services.job_generation.kinds.jumbo.store import jumbo as store_jumbo
from services.job_generation.kinds.jumbo.waiting import WaitingJobSets
from services.job_generation.kinds.merge.job import MERGEABLE
from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.queue_facts import for_other_jobs
from services.job_generation.policy.values import QueueFacts, Task
from services.job_generation.steps.doors import NEWS, NOTHING, BrokeredChunk, CountJobs, Followed, MakeJobs, Prompt
from services.job_generation.store import held as store_held
from services.job_generation.store import tasks as store
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkBrokered, ChunkUnplaceable, QueueChoice, TaskJumboSwitched
from shared.runtime.service import Periodic

FINISH_CO_JUMBO_EVERY_S = 3600.0
LOOK_EVERY_S = 5.0
TASKS_AT_ONCE = 20


class JumboJobs(BuiltKind, BesideSets, ServesSets):
    """They have no chunks: they are made of the open ranges of a task."""

    job = JUMBO

    def __init__(self, steps: Steps) -> None:
        self._making, self._settling, self._kinds = steps.making, steps.settling, steps.kinds
        self._jumbo_jobs, self._waiting, self._ending = (
            MakingJumboJobs(steps), WaitingJobSets(steps), EndingJumboJobs(steps)
        )  # fmt: skip
        self._finished_until = store_jumbo.FIRST_SLICE

    # -- the five doors

    async def inputs(self, work: UnitOfWork, at: BrokeredChunk, rest: MakeJobs) -> int:
        """Give job sets that waited real jobs; leave queues for jumbo jobs to these."""
        if at.chunk.is_for_waiting:
            return await self._waiting.place(work, at)
        return await rest(replace(at, cut_for=for_other_jobs(at.queues)) if at.task.uses_jumbo else at)

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Release the ranges of jumbo jobs; they own no input, and are counted as they ended."""
        jumbo = [job for job in jobs if job.job_type == JUMBO.name]
        if jumbo:
            await self._ending.ended(work, held, jumbo, changes)
        await rest(jobs)

    async def follows(self, work: UnitOfWork, held: LockedTask, prompt: Prompt) -> Followed:
        """Make the jumbo jobs that the task lacks, and ask for queues for job sets that wait."""
        if not held.task.rules.uses_event_service or held.task.use_jumbo is None:
            return NOTHING
        return Followed(await self._jumbo_jobs.serve(work, held) + await self._waiting.offer(work, held))

    # -- chunks and waits

    async def told(self, work: UnitOfWork, task: Task, event: ChunkBrokered | ChunkUnplaceable) -> None:
        """Keep where jumbo jobs of the task may be, if the brokerage decided about that."""
        if task.uses_jumbo and event.jumbo_queues is not None:
            queues = [(one.queue, one.resource_type) for one in event.jumbo_queues]
            await store_jumbo.note_queues(work, task.task_id, queues)

    async def unplaced(self, work: UnitOfWork, held: LockedTask, event: ChunkUnplaceable) -> bool:
        """No queue takes co-jumbo jobs, but jumbo jobs run, or may: the job sets wait for these."""
        places = await self._waiting.places_of_jumbo(work, held, event.chunk_id, event.jumbo_queues or ())
        if not places:
            return False
        chunk = await store.end_chunk(work, event.chunk_id, event.task_id, "used", None)
        assert chunk is not None
        await self._making.make(work, held, chunk, places)
        await store_held.wait_as_job_sets(work, event.task_id, event.chunk_id)
        await store.record_decision(
            work, event.task_id, "unplaceable", f"its events are left to jumbo jobs: {event.reason}"[:4000],
            numbers={"decision_id": event.decision_id, "chunk_id": event.chunk_id}, retry_at=event.retry_at,
        )  # fmt: skip
        return True

    async def sets_wait(self, work: UnitOfWork, task: Task, retry_at: datetime) -> None:
        """Keep when other queues are asked for, beginning with the sets behind these."""
        await self._waiting.unplaceable(work, task, retry_at)

    async def prompted(self, work: UnitOfWork, task: Task, prompt: Prompt) -> None:
        """Ask at once for queues for job sets that wait, if what they wait for may be there."""
        if prompt.released and (not prompt.woken or store_held.JOB_SETS in prompt.woken):
            await store_waiting.release_sets(work, task.task_id)

    # -- beside job sets

    def why_it_waits(self, task: Task, kind: OfJobSet, queues: Sequence[QueueFacts]) -> str | None:
        """Only queues for jumbo jobs were ranked."""
        return left_to_jumbo(queues) if waits_for_jumbo(task, kind, queues) else None

    async def stand_ins(
        self, work: UnitOfWork, task: Task, one: JobSet, live: Sequence[Member], reason: str
    ) -> StandIns | None:
        """Where the jumbo jobs of the task are.

        A set with other jobs that go on needs none to wait for them, one that is merged has no events for them.
        """
        if task.use_jumbo is None or one.stage != "open" or any(job.status in TAKEN_BACK for job in live):
            return None
        found = await store_waiting.queues_of_live_jumbo(work, task.task_id)
        choices = [QueueChoice(queue=name, resource_type=kind, weight=1.0) for name, kind in found]
        queues = await self._making.queues(work, task, choices)
        return StandIns(queues, f"{reason}; the events of the task are left to jumbo jobs") if queues else None

    async def wait(self, work: UnitOfWork, task: Task, set_ids: Sequence[int], reason: str) -> None:
        """Ask later for queues for real co-jumbo jobs."""
        await store_waiting.note_waiting(work, set_ids)
        await self._waiting.ask_later(work, task, reason)

    async def sets_of(self, work: UnitOfWork, task: Task, jobs: Sequence[EndedJob]) -> Sequence[int]:
        """Sets of which these jumbo jobs have ranges."""
        jumbo = [job.job_id for job in jobs if job.job_type == JUMBO.name]
        return await store_jumbo.sets_of_jumbo(work, task.task_id, jumbo)

    async def processed(self, work: UnitOfWork, task: Task, set_id: int) -> Sequence[HeldRange]:
        """What jumbo jobs processed of a set."""
        return () if task.use_jumbo is None else await store_jumbo.finished_by_jumbo(work, task.task_id, set_id)

    async def changed(self, work: UnitOfWork, task: Task, set_ids: Sequence[int]) -> None:
        """Note which of these sets wait without a queue."""
        if task.use_jumbo is not None:
            await store_waiting.note_waiting(work, set_ids)

    # -- events and periodic work

    def hears(self) -> Sequence[tuple[type[Any], Callable[[Any, UnitOfWork], Awaitable[None]]]]:
        """Jumbo jobs are switched on or off."""
        return ((TaskJumboSwitched, self.on_task_jumbo_switched),)

    async def on_task_jumbo_switched(self, event: TaskJumboSwitched, work: UnitOfWork) -> None:
        """Jumbo jobs were switched: the task's input may be used in another way from now on."""
        if event.asks_again:
            await store_waiting.ask_anew(work, event.task_id)
        await self._settling.settle_again(work, event.task_id, Prompt(force=True))

    def periodic(self) -> Sequence[Periodic]:
        """Sets that wait, and those for which nothing is left to do."""
        return (
            Periodic("look-at-waiting-job-sets", LOOK_EVERY_S, self._look),
            Periodic("finish-co-jumbo-jobs", FINISH_CO_JUMBO_EVERY_S, self._finish),
        )

    async def _look(self, work: UnitOfWork) -> None:
        """Serve the sets of tasks whose time to wait is over, and their jumbo jobs."""
        due = await store_waiting.due_tasks(work, MERGEABLE, TASKS_AT_ONCE)
        for one in await store.lock_tasks(work, due):
            await store_waiting.release_sets(work, one.task.task_id)
        for held in await store.lock_tasks(work, due):
            for kind in self._kinds:
                if isinstance(kind, ServesSets):
                    await kind.follows(work, held, NEWS)

    async def _finish(self, work: UnitOfWork) -> bool:
        """End co-jumbo jobs for which no range is left; whether there are more of them.

        A range is left while a job has it, or while one may take it.
        """
        by_task, after = await store_jumbo.processed_sets(work, MERGEABLE, self._finished_until)
        changed = [
            held.task.task_id
            for held in await store.lock_tasks(work, sorted(by_task))
            if await self._ending.finish_co_jumbo(work, held, by_task[held.task.task_id])
        ]
        await self._settling.settle_all(work, changed)
        self._finished_until = after
        return after != store_jumbo.FIRST_SLICE
