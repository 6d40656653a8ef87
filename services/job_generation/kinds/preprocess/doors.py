"""The pre-processing job of a task, and the way back of the task with what the job returned.

Source: JEDI, Task status (topreprocess, preprocessing). The task is preprocessing with the job, registered again when
it succeeded, and prepared when its attempts are used up. It has one such job at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from services.job_generation.kinds.preprocess import store as store_preprocessing
from services.job_generation.kinds.preprocess.job import PREPROCESS, PREPROCESSING
from services.job_generation.kinds.preprocess.store import PreprocessUnit
from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import JobInput, PlacedJob, Task
from services.job_generation.splitting.placement import Placement
from services.job_generation.steps.doors import NOTHING, BrokeredChunk, CountJobs, Followed, MakeJobs, Prompt
from services.job_generation.store import counters as store_counters
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask, PickedFiles
from services.job_generation.supplying.matching import take_matches
from services.job_generation.throttle.waking import note_no_fit
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkOffered, TaskPrepared
from shared.model.priorities import job_priority

RUNNING, DONE = 2, 3


class PreprocessingJobs(BuiltKind):
    """Everything about the pre-processing job of a task whose row is locked."""

    job = PREPROCESS

    def __init__(self, steps: Steps) -> None:
        self._parameters, self._making = steps.parameters, steps.making
        self._requesting = steps.requesting

    async def inputs(self, work: UnitOfWork, at: BrokeredChunk, rest: MakeJobs) -> int:
        """Make the job at the best queue whose site takes it; without one the task waits and says why."""
        if at.chunk.kind != PREPROCESS.name:
            return await rest(at)
        units = await store_units.units_of_chunk(work, at.chunk.chunk_id, at.task)
        placement = Placement([PlacedJob(at.queues[0], JobInput(tuple(units)))] if at.queues else [])
        if not at.queues:
            placement.reasons.append("none of the ranked queues exists any more")
        retry_at = await take_matches(work, at.task, placement, PREPROCESS)
        if not placement.jobs:
            await self._wait(work, at, placement, retry_at)
            return 0
        changes = CounterChanges()
        jobs = self._requesting.built(await self._requesting.request(work, at.source, PREPROCESS, placement.jobs))
        await self._requesting.insert(work, at.source, at.chunk, PREPROCESS, jobs, changes)
        await store_counters.apply(work, changes)
        await store_preprocessing.note_state(work, at.task.task_id, RUNNING)
        if at.task.status == "topreprocess":
            await store.move_task(work, at.task, "preprocessing", reason=f"pre-processing job {jobs[0].job_id} made")
        return len(jobs)

    async def _wait(self, work: UnitOfWork, at: BrokeredChunk, placement: Placement, retry_at: datetime | None) -> None:
        task, chunk_id = at.task, at.chunk.chunk_id
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        retry_at = retry_at or work.now + timedelta(seconds=limits.unsplittable_retry_s)
        reason = f"its pre-processing job waits: {'; '.join(placement.reasons)}"
        await self._making.give_back(work, task, at.chunk, reason[:1000])
        await store.record_decision(work, task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)
        await store.set_retry_at(work, task.task_id, retry_at)
        await note_no_fit(work, task.task_id, chunk_id, retry_at, self._making.versions)

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Keep what a job that finished returned, whatever its task is told meanwhile."""
        await rest(jobs)
        finished = [job.job_id for job in jobs if job.job_type == PREPROCESS.name and job.status == "finished"]
        reports = await store_results.reports(work, finished) if finished else {}
        for job_id in finished:
            report = reports.get(job_id)
            returned = {} if report is None else report.meta_data
            await store_preprocessing.keep_result(work, held.task.task_id, job_id, returned)

    async def follows(self, work: UnitOfWork, held: LockedTask, prompt: Prompt) -> Followed:
        """Offer the job where it has to be made, or go on with the task once it ended."""
        task = held.task
        unit = await store_preprocessing.unit_of_task(work, task.task_id) if task.status in PREPROCESSING else None
        if unit is None:
            return NOTHING
        if unit.status in ("finished", "failed"):
            return Followed(has_moved=await self._go_on(work, task, unit))
        is_waiting = held.retry_at is not None and held.retry_at > work.now and not prompt.force
        if unit.status == "ready" and not is_waiting:
            await self._offer(work, task, unit)
        return NOTHING

    async def _go_on(self, work: UnitOfWork, task: Task, unit: PreprocessUnit) -> bool:
        """Back to the definition, or to the end; whether the task moved."""
        if task.status == "topreprocess":
            await store.move_task(work, task, "preprocessing", reason="its pre-processing job has ended already")
        if unit.status == "finished":
            await store_preprocessing.note_state(work, task.task_id, DONE)
            return await store.move_task(work, task, "registered", reason="its pre-processing is done")
        reason = f"its pre-processing job failed in {unit.n_attempts} attempts"
        await store.record_decision(work, task.task_id, "broken", reason)
        moved = await store.move_task(work, task, "prepared", reason=reason)
        if moved:
            work.emit(TaskPrepared(task_id=task.task_id))
        return moved

    async def _offer(self, work: UnitOfWork, task: Task, unit: PreprocessUnit) -> None:
        if not generation_parameters(self._parameters, task.gshare, task.vo).is_on:
            return
        [chunk_id] = await work.next_ids("chunk_ids", 1)
        changes = CounterChanges()
        reason = f"taken into chunk {chunk_id} for pre-processing"
        ids = await store.pick_named(work, task.task_id, chunk_id, [unit.file_id], changes, reason)
        priority = job_priority(PREPROCESS.name, task.priority, is_analysis=task.is_analysis)
        await store.insert_chunk(
            work, chunk_id, task.task_id, PREPROCESS.name, PickedFiles(ids, 0, 0), dataset_id=unit.dataset_id,
            priority=priority, ram_mb=unit.ram_mb,
        )  # fmt: skip
        await store_counters.apply(work, changes)
        await store.set_retry_at(work, task.task_id, None)
        work.emit(ChunkOffered(chunk_id=chunk_id, task_id=task.task_id))
