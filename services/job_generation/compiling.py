"""Makes build jobs: a task's sources are compiled once for each site, its other jobs wait for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.job_generation.event_serving.making import MakingJobSets
from services.job_generation.generating import Generating
from services.job_generation.parameters import generation_parameters, most_walltime_s
from services.job_generation.policy.build_jobs import Libraries, decide, refused_for_failures
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.kinds import BUILD
from services.job_generation.policy.values import JobInput, QueueFacts, Task
from services.job_generation.specification.building import BuildRequest
from services.job_generation.specification.instantiating import at_sites
from services.job_generation.specification.job_source import JobSource
from services.job_generation.splitting.matching import take_matches
from services.job_generation.splitting.placing import PlacedJob, Placement
from services.job_generation.store import builds as store_builds
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import tasks as store
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import Chunk, LockedTask, PickedFiles
from services.job_generation.throttle.waking import note_no_fit
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import QueueChoice
from shared.model.dataset_types import LIBRARY_STREAM


@dataclass(frozen=True)
class _Place:
    """Where the library is built, and what is known of its task."""

    definition: JobSource
    queue: QueueFacts


class Compiling:
    """Everything about build jobs of a task whose row is locked."""

    def __init__(self, parameters: Parameters, generating: Generating, job_sets: MakingJobSets) -> None:
        self._parameters, self._generating, self._job_sets = parameters, generating, job_sets

    async def generate(
        self, work: UnitOfWork, held: LockedTask, chunk: Chunk, candidates: Sequence[QueueChoice]
    ) -> int:
        """Jobs of a chunk where the library is; without one a build job, and the input goes back."""
        if not held.task.rules.uses_build:
            return await self._generating.generate(work, held, chunk, candidates, begin_sets=self._job_sets.begin)
        definition = await self._generating.definition(work, held.task)
        libraries = Libraries(await store_builds.builds(work, held.task.task_id))
        queues = await self._generating.queues(work, definition.task, candidates)
        limits = generation_parameters(self._parameters, held.task.gshare, held.task.vo)
        decision = decide(queues, libraries.builds, longest_s=limits.unsplittable_retry_s)
        retry_at = work.now + timedelta(seconds=limits.unsplittable_retry_s)
        if not decision.usable:
            await self._refuse(work, held.task, chunk, decision.reason, retry_at)
            return 0
        names = {one.key for one in decision.usable}
        chosen = [one for one in candidates if f"{one.queue}/{one.resource_type}" in names]
        begin = self._job_sets.begin
        n_placed = await self._generating.generate(work, held, chunk, chosen, libraries, begin_sets=begin)
        if libraries.awaited:
            await self._wait(work, definition, chunk, libraries, retry_at)
        return n_placed

    async def _refuse(self, work: UnitOfWork, task: Task, chunk: Chunk, reason: str, retry_at: datetime) -> None:
        """The build failed too often everywhere: nothing is waited for, and the task may be pending."""
        changes = CounterChanges()
        await store.give_back(work, task.task_id, chunk.chunk_id, changes, reason[:1000])
        await store.apply_counters(work, changes)
        await store.record_decision(work, task.task_id, "unsplittable", reason[:4000], retry_at=retry_at)
        await self._generating.hold(work, task, chunk, reason, retry_at)

    async def release(self, work: UnitOfWork, task: Task, chunk_id: int, changes: CounterChanges, reason: str) -> None:
        """The input of a chunk is ready again."""
        await store.give_back(work, task.task_id, chunk_id, changes, reason)

    async def _wait(
        self, work: UnitOfWork, definition: JobSource, chunk: Chunk, libraries: Libraries, retry_at: datetime
    ) -> None:
        """Begin the builds that input waits for, where there is none yet, one at each site that takes it.

        The input waits until the next build has ended, which takes the time away, or a site that did not take one has
        advertised itself again, or the time has come.
        """
        task = definition.task
        place = Placement([PlacedJob(queue, JobInput(())) for queue in libraries.to_begin])
        again = await take_matches(work, task, place, BUILD.name)
        for one in place.jobs:
            await self._build(work, _Place(definition, one.queue))
        retry_at = min(retry_at, again or retry_at)
        reason = "; ".join([*place.reasons, libraries.waits])
        await store.record_decision(work, task.task_id, "unsplittable", reason[:4000], retry_at=retry_at)
        await store.set_retry_at(work, task.task_id, retry_at)
        if again is not None:
            await note_no_fit(work, task.task_id, chunk.chunk_id, retry_at, self._generating.versions)

    async def _build(self, work: UnitOfWork, place: _Place) -> None:
        """One build job at the queue, in a chunk of its own without input."""
        task, changes = place.definition.task, CounterChanges()
        templates = place.definition.templates_for(BUILD)
        source = await at_sites(work, place.definition, templates, [PlacedJob(place.queue, JobInput(()))])
        place = replace(place, definition=source)
        [chunk_id] = await work.next_ids("chunk_ids", 1)
        await store.insert_chunk(
            work, chunk_id, task.task_id, BUILD.name, PickedFiles([], 0, 0), dataset_id=None, queue=place.queue.queue
        )
        chunk = await store.end_chunk(work, chunk_id, task.task_id, "used", None)
        assert chunk is not None
        [job] = self._generating.built(self._generating.plugin_of(task), await self._request(work, place))
        await self._generating.insert(work, place.definition, chunk, [place.definition.for_pilot(BUILD, job)], changes)
        await store.apply_counters(work, changes)
        await store_builds.begin(work, task.task_id, place.queue.site, job.job_id)

    async def _request(self, work: UnitOfWork, place: _Place) -> BuildRequest:
        definition = place.definition
        templates = definition.templates_for(BUILD)
        library = next(one for one in definition.datasets.values() if one.stream_name == LIBRARY_STREAM)
        return BuildRequest(
            task=definition.task,
            kind=BUILD.name,
            master=library,
            datasets=definition.datasets,
            templates=templates,
            parameters=definition.text_for(BUILD),
            placed=[PlacedJob(place.queue, JobInput(()))],
            at_site=definition.at_site,
            job_ids=await work.next_ids("job_ids", 1),
            serials=await store_jobs.take_serials(work, [one.template_id for one in templates], 1),
            guid_seed=definition.task.task_id,
            trans_path=definition.trans_path_for(BUILD),
            most_walltime_s=most_walltime_s(self._parameters, definition.task, BUILD),
        )

    async def ended(self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob]) -> None:
        """Build jobs that were counted ended: their libraries may be used, or the build is tried again.

        The task is looked at now. While it scouts, the third failure breaks it.
        """
        of_builds = [job for job in jobs if job.job_type == BUILD.name]
        if not of_builds:
            return
        await store_builds.end(work, held.task.task_id, of_builds)
        await store.set_retry_at(work, held.task.task_id, None)
        builds = await store_builds.builds(work, held.task.task_id)
        reason = refused_for_failures(held.task.status, builds)
        if reason is not None:
            await store.record_decision(work, held.task.task_id, "broken", reason)
            await store.move_task(work, held.task, "tobroken", reason=reason, keep=True)
