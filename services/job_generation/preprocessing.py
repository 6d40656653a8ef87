"""Makes the pre-processing job of a task, and sends the task back with what the job returned.

Source: JEDI, Task status (topreprocess, preprocessing). The task is preprocessing with the job, registered again when
it succeeded, and prepared when its attempts are used up. It has one such job at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from services.job_generation.generating import Generating
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.kinds import PREPROCESS, PREPROCESSING
from services.job_generation.policy.values import JobInput, Task
from services.job_generation.specification.building import BuildRequest
from services.job_generation.specification.job_source import JobSource
from services.job_generation.splitting.matching import take_matches
from services.job_generation.splitting.placing import PlacedJob, Placement
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import preprocessing as store_preprocessing
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.preprocessing import PreprocessUnit
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import Chunk, LockedTask, PickedFiles
from services.job_generation.throttle.waking import note_no_fit
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkOffered, QueueChoice, TaskPrepared
from shared.model.priorities import job_priority

RUNNING, DONE = 2, 3


class Preprocessing:
    """Everything about the pre-processing job of a task whose row is locked."""

    def __init__(self, parameters: Parameters, generating: Generating) -> None:
        self._parameters, self._generating = parameters, generating

    async def look(self, work: UnitOfWork, held: LockedTask, *, force: bool = False) -> bool:
        """Offer the job where it has to be made, or go on with the task once it ended; whether the task moved."""
        task = held.task
        unit = await store_preprocessing.unit_of_task(work, task.task_id) if task.status in PREPROCESSING else None
        if unit is None:
            return False
        if unit.status in ("finished", "failed"):
            return await self._go_on(work, task, unit)
        is_waiting = held.retry_at is not None and held.retry_at > work.now and not force
        if unit.status == "ready" and not is_waiting:
            await self._offer(work, task, unit)
        return False

    async def _go_on(self, work: UnitOfWork, task: Task, unit: PreprocessUnit) -> bool:
        """Back to the definition, or to the end."""
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
        await store.apply_counters(work, changes)
        await store.set_retry_at(work, task.task_id, None)
        work.emit(ChunkOffered(chunk_id=chunk_id, task_id=task.task_id))

    async def generate(
        self, work: UnitOfWork, held: LockedTask, chunk: Chunk, candidates: Sequence[QueueChoice]
    ) -> int:
        """The job at the best queue whose site takes it; without one the task waits and says why."""
        definition = await self._generating.definition(work, held.task)
        task, changes = definition.task, CounterChanges()
        queues = await self._generating.queues(work, task, candidates)
        units = await store_units.units_of_chunk(work, chunk.chunk_id, task)
        placement = Placement([PlacedJob(queues[0], JobInput(tuple(units)))] if queues else [])
        if not queues:
            placement.reasons.append("none of the ranked queues exists any more")
        retry_at = await take_matches(work, task, placement, PREPROCESS.name)
        if not placement.jobs:
            limits = generation_parameters(self._parameters, task.gshare, task.vo)
            retry_at = retry_at or work.now + timedelta(seconds=limits.unsplittable_retry_s)
            reason = f"its pre-processing job waits: {'; '.join(placement.reasons)}"
            await self.release(work, task, chunk.chunk_id, changes, reason[:1000])
            await store.apply_counters(work, changes)
            await store.record_decision(work, task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)
            await store.set_retry_at(work, task.task_id, retry_at)
            await note_no_fit(work, task.task_id, chunk.chunk_id, retry_at, self._generating.versions)
            return 0
        request = await self._request(work, definition, chunk, placement.jobs)
        jobs = self._generating.built(self._generating.plugin_of(task), request)
        await self._generating.insert(
            work, definition, chunk, [definition.for_pilot(PREPROCESS, one) for one in jobs], changes
        )
        await store.apply_counters(work, changes)
        await store_preprocessing.note_state(work, task.task_id, RUNNING)
        if task.status == "topreprocess":
            await store.move_task(work, task, "preprocessing", reason=f"pre-processing job {jobs[0].job_id} made")
        return len(jobs)

    async def _request(
        self, work: UnitOfWork, definition: JobSource, chunk: Chunk, placed: Sequence[PlacedJob]
    ) -> BuildRequest:
        return BuildRequest(
            task=definition.task,
            kind=PREPROCESS.name,
            master=definition.datasets[placed[0].job.master[0].dataset_id],
            datasets=definition.datasets,
            templates=definition.templates_for(PREPROCESS),
            parameters=definition.text_for(PREPROCESS),
            placed=placed,
            job_ids=await work.next_ids("job_ids", len(placed)),
            serials={},
            guid_seed=chunk.chunk_id,
            trans_path=definition.trans_path_for(PREPROCESS),
            owner=await store_jobs.standing_of_owner(work, definition.task),
        )

    async def release(self, work: UnitOfWork, task: Task, chunk_id: int, changes: CounterChanges, reason: str) -> None:
        """The unit of a chunk is ready again."""
        await store.give_back(work, task.task_id, chunk_id, changes, reason)

    async def ended(self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob]) -> None:
        """What a job that finished returned is kept, whatever its task is told meanwhile."""
        finished = [job.job_id for job in jobs if job.job_type == PREPROCESS.name and job.status == "finished"]
        reports = await store_results.reports(work, finished) if finished else {}
        for job_id in finished:
            report = reports.get(job_id)
            returned = {} if report is None else report.meta_data
            await store_preprocessing.keep_result(work, held.task.task_id, job_id, returned)
