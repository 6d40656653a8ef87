"""Build jobs: a task's sources are compiled once for each site, and its other jobs wait for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from services.job_generation.kinds.build import store as store_builds
from services.job_generation.kinds.build.job import BUILD
from services.job_generation.kinds.build.policy import Libraries, decide, refused_for_failures
from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import JobInput, PlacedJob, Unit
from services.job_generation.specification.job_source import JobSource
from services.job_generation.specification.kind_of_job import NORMAL, SCOUT
from services.job_generation.splitting.placement import Placement
from services.job_generation.steps.doors import BrokeredChunk, CountJobs, MakeJobs
from services.job_generation.store import counters as store_counters
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask, PickedFiles
from services.job_generation.supplying.instantiating import at_sites
from services.job_generation.supplying.matching import take_matches
from services.job_generation.throttle.waking import note_no_fit
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import SOURCES_STREAM
from shared.states.job import FINAL

#: kinds whose input waits for the library
WAITING = frozenset({NORMAL.name, SCOUT.name})


class BuildJobs(BuiltKind):
    """Everything about build jobs of a task whose row is locked."""

    job = BUILD

    def __init__(self, steps: Steps) -> None:
        self._parameters, self._making = steps.parameters, steps.making
        self._requesting = steps.requesting

    async def inputs(self, work: UnitOfWork, at: BrokeredChunk, rest: MakeJobs) -> int:
        """Let jobs be made where the library is; without one make a build job, and the input waits."""
        if not at.task.rules.uses_build or at.chunk.is_for_waiting:
            return await rest(at)
        libraries = Libraries(await store_builds.builds(work, at.task.task_id))
        if at.chunk.kind not in WAITING:
            return await rest(replace(at, fit=libraries.give))
        limits = generation_parameters(self._parameters, at.task.gshare, at.task.vo)
        decision = decide(at.queues, libraries.builds, longest_s=limits.unsplittable_retry_s)
        retry_at = work.now + timedelta(seconds=limits.unsplittable_retry_s)
        if not decision.usable:
            await self._refuse(work, at, decision.reason, retry_at)
            return 0
        n_placed = await rest(replace(at, queues=decision.usable, fit=libraries.hold))
        if libraries.awaited:
            await self._wait(work, at, libraries, retry_at)
        return n_placed

    async def _refuse(self, work: UnitOfWork, at: BrokeredChunk, reason: str, retry_at: datetime) -> None:
        """The build failed too often everywhere: nothing is waited for, and the task may be pending."""
        await self._making.give_back(work, at.task, at.chunk, reason[:1000])
        await store.record_decision(work, at.task.task_id, "unsplittable", reason[:4000], retry_at=retry_at)
        await self._making.hold(work, at.task, at.chunk, reason, retry_at)

    async def _wait(self, work: UnitOfWork, at: BrokeredChunk, libraries: Libraries, retry_at: datetime) -> None:
        """Begin the builds that input waits for, where there is none yet, one at each site that takes it.

        The input waits until the next build has ended, which takes the time away, or a site that did not take one has
        advertised itself again, or the time has come.
        """
        task = at.task
        sources = JobInput((), await _sources(work, at.source))
        place = Placement([PlacedJob(queue, sources) for queue in libraries.to_begin])
        again = await take_matches(work, task, place, BUILD)
        for one in place.jobs:
            await self._build(work, at.source, [one])
        retry_at = min(retry_at, again or retry_at)
        reason = "; ".join([*place.reasons, libraries.waits])
        await store.record_decision(work, task.task_id, "unsplittable", reason[:4000], retry_at=retry_at)
        await store.set_retry_at(work, task.task_id, retry_at)
        if again is not None:
            await note_no_fit(work, task.task_id, at.chunk.chunk_id, retry_at, self._making.versions)

    async def _build(self, work: UnitOfWork, source: JobSource, placed: Sequence[PlacedJob]) -> None:
        """One build job at the queue, in a chunk of its own without input."""
        task, queue, changes = source.task, placed[0].queue, CounterChanges()
        source = await at_sites(work, source, source.templates_for(BUILD), placed)
        [chunk_id] = await work.next_ids("chunk_ids", 1)
        await store.insert_chunk(
            work, chunk_id, task.task_id, BUILD.name, PickedFiles([], 0, 0), dataset_id=None, queue=queue.queue
        )
        chunk = await store.end_chunk(work, chunk_id, task.task_id, "used", None)
        assert chunk is not None
        [job] = self._requesting.built(await self._requesting.request(work, source, BUILD, placed))
        await self._requesting.insert(work, source, chunk, BUILD, [job], changes)
        await store_counters.apply(work, changes)
        await store_builds.begin(work, task.task_id, queue.site, job.job_id)

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Keep the libraries of build jobs that ended, or try the build again.

        The task is looked at now. While it scouts, the third failure breaks it.
        """
        await rest(jobs)
        of_builds = [job for job in jobs if job.job_type == BUILD.name and job.status in FINAL]
        if not of_builds:
            return
        await store_builds.end(work, held.task.task_id, of_builds)
        await store.set_retry_at(work, held.task.task_id, None)
        builds = await store_builds.builds(work, held.task.task_id)
        reason = refused_for_failures(held.task.status, builds)
        if reason is not None:
            await store.record_decision(work, held.task.task_id, "broken", reason)
            await store.move_task(work, held.task, "tobroken", reason=reason, keep=True)


async def _sources(work: UnitOfWork, source: JobSource) -> dict[int, tuple[Unit, ...]]:
    """The archive of sources that build jobs read from a dataset, by its id; nothing without one."""
    wanted = [one for one in source.datasets.values() if one.stream_name == SOURCES_STREAM]
    return {one.dataset_id: tuple(await store_units.ready_units(work, one.dataset_id, one.n_files)) for one in wanted}
