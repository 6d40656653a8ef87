"""A brokered chunk becomes jobs, in one transaction."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from services.job_generation.event_serving.cloning import note_copies
from services.job_generation.ordering import order_keys_of_jobs
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy.build_jobs import Libraries
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.event_service.elsewhere import Elsewhere
from services.job_generation.policy.event_service.placing import without_jumbo
from services.job_generation.policy.kinds import SCOUT, kind_of
from services.job_generation.policy.picking import GENERATING, needs_key
from services.job_generation.policy.plugin import JobGeneration, SplitRequest
from services.job_generation.policy.queue_facts import facts_of_candidates, queues_naming
from services.job_generation.policy.values import Dataset, QueueFacts, Task
from services.job_generation.specification.building import BuildRequest, NewJob
from services.job_generation.specification.instantiating import at_sites
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.specification.numbering import seeds_for, seeds_told, sequence_told
from services.job_generation.splitting.lacking import RAN_OUT, is_given_up
from services.job_generation.splitting.matching import take_matches, take_more
from services.job_generation.splitting.placing import PlacedJob, Placement
from services.job_generation.splitting.pooling import pools_of_secondaries
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import statistics as store_statistics
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.jobs import Batch, Seeds, ShapeIds
from services.job_generation.store.tasks import Chunk, LockedTask
from services.job_generation.throttle.waking import note_no_fit
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsGenerated, QueueChoice, moves_of
from shared.model import command_line
from shared.model.batches import batches
from shared.model.dataset_types import OUTPUT_TYPES
from shared.model.whole_numbers import SEED_BITS
from shared.snapshot import KnownGrid
from shared.states.task import TaskStatus

FindPlugin = Callable[[str, str], JobGeneration]
BeginSets = Callable[
    [UnitOfWork, JobSource, Chunk, Sequence[PlacedJob], Sequence[QueueFacts], CounterChanges], Awaitable[int]
]


class Generating:
    """Makes jobs of a chunk whose task's row is locked and that was just marked used."""

    def __init__(
        self, parameters: Parameters, grid: KnownGrid, shapes: ShapeIds, rng: random.Random, find_plugin: FindPlugin
    ) -> None:
        self._parameters, self._grid, self._shapes = parameters, grid, shapes
        self._random, self._find_plugin = rng, find_plugin

    def plugin_of(self, task: Task) -> JobGeneration:
        """What the VO of a task, or its label, replaces in job generation."""
        return self._find_plugin(task.vo or "", task.prod_source_label)

    async def definition(self, work: UnitOfWork, task: Task) -> JobSource:
        """Read what jobs are made from."""
        parameters, lines = await store.texts(work, task.task_id)
        datasets = {one.dataset_id: one for one in await store.datasets(work, task.task_id)}
        templates = await store.templates(work, task.task_id)
        url = lines.get("source_url") or task.rules.source_url
        known = replace(task, parameters=parameters, rules=task.rules.changed(source_url=url))
        return JobSource(known, datasets, templates, lines)

    async def queues(self, work: UnitOfWork, task: Task, candidates: Sequence[QueueChoice]) -> list[QueueFacts]:
        """The candidates with what is known about them now."""
        grid = await self._grid.grid(work.connection)
        queued = await store_statistics.queued_at_queues(work, [one.queue for one in candidates])
        return facts_of_candidates(grid, task, candidates, queued)

    async def queues_of_store(self, work: UnitOfWork, task: Task, store_id: int) -> list[QueueFacts]:
        """Online queues for the task's kind of work that name an object store."""
        grid = await self._grid.grid(work.connection)
        names = queues_naming(grid, task, store_id)
        choices = [QueueChoice(queue=one, resource_type=task.resource_type, weight=1.0) for one in names]
        return await self.queues(work, task, choices)

    async def generate(
        self,
        work: UnitOfWork,
        held: LockedTask,
        chunk: Chunk,
        candidates: Sequence[QueueChoice],
        libraries: Libraries | None = None,
        *,
        begin_sets: BeginSets,
    ) -> int:
        """Split, build and insert; what was not used goes back to ready. How many inputs of jobs were placed.

        `libraries`: what the jobs at each site read besides, or wait for. `begin_sets`: makes the jobs of tasks with
        event service.
        """
        definition = await self.definition(work, held.task)
        task = definition.task
        plugin = self.plugin_of(task)
        units = await store_units.units_of_chunk(work, chunk.chunk_id, task)
        queues = await self.queues(work, task, candidates)
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        seed = self._random.getrandbits(SEED_BITS)
        await store.note_seed(work, chunk.chunk_id, seed)
        request = SplitRequest(
            task,
            units,
            await pools_of_secondaries(work, definition, units, seed),
            without_jumbo(queues) if task.uses_jumbo else queues,
            chunk.kind == SCOUT.name,
            max(1, min(limits.jobs_of_chunk, chunk.max_jobs or limits.jobs_of_chunk) // task.rules.jobs_for_input),
            await self._more_follows(work, task, definition.datasets.get(chunk.dataset_id or 0), chunk),
        )
        placement = plugin.split(request, seed)
        if libraries is not None:
            libraries.hold(placement)
        advertises_again_at = await take_matches(work, task, placement)
        changes = CounterChanges()
        if placement.jobs and task.rules.uses_event_service:
            await begin_sets(work, definition, chunk, placement.jobs, queues, changes)
        elif placement.jobs:
            placed = placement.jobs
            if task.rules.cloning is not None:
                elsewhere = Elsewhere(task, queues, placed, scout=request.is_scout)
                copies = await take_more(work, task, [elsewhere.spread(one) for one in placed])
                placed = [copy for of_input in copies for copy in of_input]
            job_ids = await self._insert(work, definition, chunk, placed, plugin, changes)
            if task.rules.cloning is not None:
                await note_copies(work, definition, chunk, placed, job_ids)
        await self._return_leftover(work, task, chunk, placement, changes, len(units), queues)
        await store.apply_counters(work, changes)
        is_current = chunk.needs_key in (None, needs_key(task.needs))  # else its input is offered again at once
        if libraries is not None and libraries.awaited:
            return len(placement.jobs)
        if not placement.jobs and is_current and not await is_given_up(work, definition, placement):
            retry_at = work.now + timedelta(seconds=limits.unsplittable_retry_s)
            await self._no_jobs(work, task, chunk, placement, queues, min(retry_at, advertises_again_at or retry_at))
        return len(placement.jobs)

    async def _more_follows(self, work: UnitOfWork, task: Task, master: Dataset | None, chunk: Chunk) -> bool:
        """Whether more input of the chunk's kind is to be used after it: ready already, or waited for."""
        if chunk.kind == SCOUT.name or master is None:
            return False
        if await store_units.has_more(work, master.dataset_id, chunk.ram_mb, task.needs.ram_mb):
            return True
        return not task.rules.takes_input_at_once and bool(
            await store_units.awaited_datasets(work, [master.dataset_id])
        )

    async def _insert(
        self,
        work: UnitOfWork,
        definition: JobSource,
        chunk: Chunk,
        placed: Sequence[PlacedJob],
        plugin: JobGeneration,
        changes: CounterChanges,
    ) -> Sequence[int]:
        """The jobs of these inputs; their ids."""
        task = definition.task
        kind = kind_of(chunk.kind)
        text, templates = definition.text_for(kind), definition.templates_for(kind)
        definition = await at_sites(work, definition, templates, placed)
        n_jobs = len(placed)
        seeds = await seeds_for(work, definition, text, n_jobs)
        request = BuildRequest(
            task=task,
            kind=chunk.kind,
            master=definition.datasets[chunk.dataset_id or 0],
            datasets=definition.datasets,
            templates=templates,
            parameters=text,
            placed=placed,
            job_ids=await work.next_ids("job_ids", n_jobs),
            serials=await store_jobs.take_serials(work, [one.template_id for one in templates], n_jobs),
            guid_seed=self._random.getrandbits(SEED_BITS),
            seeds=seeds_told(task, seeds),
            sequence=sequence_told(seeds),
            owner=await store_jobs.standing_of_owner(work, task),
            at_site=definition.at_site,
        )
        await self.insert(work, definition, chunk, self.built(plugin, request), changes, seeds)
        await self.start_task(work, task, chunk)
        return request.job_ids

    def built(self, plugin: JobGeneration, request: BuildRequest) -> list[NewJob]:
        """The plugin's jobs. A placeholder without a value is the task's mistake, not ours."""
        try:
            return plugin.build(request)
        except command_line.UnresolvedPlaceholder as error:
            raise Undefinable(str(error)) from error

    async def insert(
        self,
        work: UnitOfWork,
        definition: JobSource,
        chunk: Chunk,
        jobs: Sequence[NewJob],
        changes: CounterChanges,
        seeds: Seeds | None = None,
        *,
        takes_input: bool = True,
        waits: bool = False,
    ) -> None:
        """Insert jobs and announce them; without `takes_input` their input is in the hands of their job set.

        Those that `waits` have no queue: no other service does anything with them.
        """
        task = definition.task
        shapes = await self._shapes.intern(work, [job.requirement for job in jobs])
        keys = await order_keys_of_jobs(work, self._parameters, task, chunk.kind, jobs)
        batch = Batch(
            task, chunk.chunk_id, chunk.kind, jobs, definition.datasets, seeds, changes, keys, takes_input, waits
        )
        await store_jobs.insert(work, batch, shapes)
        await store.count_chunk_jobs(work, chunk.chunk_id, len(jobs))
        for part in batches([] if waits else jobs, IDS_OF_EVENT):
            work.emit(
                JobsGenerated(
                    task_id=task.task_id,
                    chunk_id=chunk.chunk_id,
                    job_ids=tuple(job.job_id for job in part),
                    moves=moves_of(
                        (
                            (
                                task.task_id,
                                job.queue,
                                job.resource_type,
                                task.gshare,
                                task.user_name,
                                None,
                                job.core_count,
                            )
                            for job in part
                        ),
                        "defined",
                    ),
                )
            )

    async def start_task(self, work: UnitOfWork, task: Task, chunk: Chunk) -> None:
        """The first jobs: ready -> scouting or running; output datasets are filled from now on."""
        if task.status != "ready":
            return
        status: TaskStatus = "scouting" if chunk.kind == SCOUT.name else "running"
        await store.move_datasets(work, task.task_id, OUTPUT_TYPES, "running", "first jobs generated")
        await store.move_task(work, task, status, reason=f"first jobs generated from chunk {chunk.chunk_id}")

    async def _return_leftover(
        self,
        work: UnitOfWork,
        task: Task,
        chunk: Chunk,
        placement: Placement,
        changes: CounterChanges,
        n_units: int,
        queues: Sequence[QueueFacts],
    ) -> None:
        if placement.left_out:
            ids = [unit.file_id for unit in placement.left_out]
            reason = "; ".join(placement.reasons)[:1000]
            await store.give_back(work, task.task_id, chunk.chunk_id, changes, reason, ids)
            await store_units.leave_out(work, task.task_id, changes, ids, reason)
        if not placement.leftover:
            return
        why = "; ".join(placement.reasons) or f"{len(queues)} queues took {n_units - len(placement.leftover)} units"
        ids = [unit.file_id for unit in placement.leftover]
        await store.give_back(work, task.task_id, chunk.chunk_id, changes, f"not used by the chunk: {why}"[:1000], ids)

    async def _no_jobs(
        self,
        work: UnitOfWork,
        task: Task,
        chunk: Chunk,
        placement: Placement,
        queues: Sequence[QueueFacts],
        retry_at: datetime,
    ) -> None:
        """No job fits anywhere although queues were ranked: wait until something may bring another, and say why."""
        why = "; ".join(placement.reasons) or "none of the ranked queues exists any more"
        reason = f"no job could be made for {len(queues)} ranked queues: {why}"
        numbers = {RAN_OUT: placement.ran_out} if placement.ran_out else None
        await store.record_decision(
            work, task.task_id, "unsplittable", reason[:4000], numbers=numbers, retry_at=retry_at
        )
        await self.hold(work, task, chunk, reason, retry_at)

    @property
    def versions(self) -> tuple[int, int]:
        """Of the grid and of the runtime parameters by which jobs are made."""
        return self._grid.version, self._parameters.version

    async def hold(self, work: UnitOfWork, task: Task, chunk: Chunk, reason: str, retry_at: datetime) -> None:
        """Input of which no job can be made is tried later, or when something may bring another queue.

        A task of which nothing runs is pending until then, which may last for its time-out and no longer.
        """
        await note_no_fit(work, task.task_id, chunk.chunk_id, retry_at, self.versions)
        if chunk.ram_mb is not None:
            await store_units.hold_chunk(work, chunk.chunk_id, retry_at)
        elif task.status in GENERATING and not await store.something_runs(work, task.task_id):
            await store.move_task(work, task, "pending", reason=reason, retry_at=retry_at, keep=True)
        else:
            await store.set_retry_at(work, task.task_id, retry_at)
