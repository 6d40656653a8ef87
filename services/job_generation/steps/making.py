"""Make the jobs of a brokered chunk, in one transaction; what does not fit goes back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from services.job_generation.generating.plugin import SplitRequest
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.picking import GENERATING, needs_key
from services.job_generation.policy.queue_facts import facts_of_candidates, queues_naming
from services.job_generation.policy.values import Dataset, PlacedJob, QueueFacts, Task
from services.job_generation.requesting import Requesting
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.specification.kind_of_job import SCOUT
from services.job_generation.splitting.placement import Placement
from services.job_generation.steps.doors import BrokeredChunk, Kinds
from services.job_generation.store import counters as store_counters
from services.job_generation.store import queued as store_queued
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.tasks import Chunk, LockedTask
from services.job_generation.supplying.instantiating import at_sites
from services.job_generation.supplying.lacking import RAN_OUT, is_given_up
from services.job_generation.supplying.matching import take_matches
from services.job_generation.supplying.numbering import seeds_for
from services.job_generation.supplying.pooling import pools_of_secondaries
from services.job_generation.throttle.waking import note_no_fit
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import QueueChoice
from shared.model.whole_numbers import SEED_BITS
from shared.snapshot import KnownGrid
from shared.states import TASK

BREAKABLE = frozenset(TASK.sources("tobroken", store.OWNER))


class Making:
    """Makes jobs of a chunk whose task's row is locked and that was just marked used."""

    def __init__(
        self,
        parameters: Parameters,
        grid: KnownGrid,
        rng: random.Random,
        requesting: Requesting,
        kinds: Kinds,
    ) -> None:
        self._parameters, self._grid = parameters, grid
        self._random, self._requesting, self._kinds = rng, requesting, kinds

    # -- what jobs are made from

    async def source(self, work: UnitOfWork, task: Task) -> JobSource:
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
        queued = await store_queued.queued_at_queues(work, [one.queue for one in candidates], task.vo or "")
        return facts_of_candidates(grid, task, candidates, queued)

    async def queues_of_store(self, work: UnitOfWork, task: Task, store_id: int) -> list[QueueFacts]:
        """Online queues for the task's kind of work that name an object store."""
        grid = await self._grid.grid(work.connection)
        names = queues_naming(grid, task, store_id)
        choices = [QueueChoice(queue=one, resource_type=task.resource_type, weight=1.0) for one in names]
        return await self.queues(work, task, choices)

    # -- a chunk

    async def make(self, work: UnitOfWork, held: LockedTask, chunk: Chunk, candidates: Sequence[QueueChoice]) -> None:
        """Make the jobs of a chunk, as the kinds of its task have it; what is not used is given back.

        A task whose jobs cannot be defined is broken.
        """
        try:
            source = await self.source(work, held.task)
            queues = await self.queues(work, source.task, candidates)
            make = self._kinds.inputs(work, partial(self._from_input, work))
            if await make(BrokeredChunk(held, source, chunk, queues)) == 0:
                await store.return_chunk(work, chunk.chunk_id, "no job was made of it")
        except Undefinable as error:
            reason = f"jobs cannot be defined: {error}"
            await self.give_back(work, held.task, chunk, reason[:1000])
            await store.return_chunk(work, chunk.chunk_id, reason[:1000])
            await store.record_decision(work, held.task.task_id, "broken", reason[:4000])
            if held.task.status in BREAKABLE:
                await store.move_task(work, held.task, "tobroken", reason=reason, keep=True)

    async def give_back(
        self, work: UnitOfWork, task: Task, chunk: Chunk, reason: str, file_ids: Sequence[int] | None = None
    ) -> None:
        """Make files of a chunk ready again, all or these, unless their kind wants them no more."""
        changes = CounterChanges()
        ready = await store.give_back(work, task.task_id, chunk.chunk_id, changes, reason, file_ids)
        await self._kinds.of(chunk).given_back(work, task, ready, changes)
        await store_counters.apply(work, changes)

    async def take_back(self, work: UnitOfWork, task: Task, *, only: int | None = None) -> int:
        """Take back offered chunks (or one), but none that the state of the task still wants; how many."""
        n_taken = 0
        for chunk in await store.open_chunks(work, task.task_id):
            keeps = task.status in self._kinds.job(chunk.kind).chunks_wanted_while
            if keeps or (only is not None and chunk.chunk_id != only):
                continue
            if await store.end_chunk(work, chunk.chunk_id, task.task_id, "returned", f"the task is {task.status}"):
                await self.give_back(work, task, chunk, f"the task is {task.status}")
                n_taken += 1
        return n_taken

    async def _from_input(self, work: UnitOfWork, at: BrokeredChunk) -> int:
        """The plain way: cut the input, and make a job of each part."""
        task, chunk = at.task, at.chunk
        units = await store_units.units_of_chunk(work, chunk.chunk_id, task)
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        seed = self._random.getrandbits(SEED_BITS)
        await store.note_seed(work, chunk.chunk_id, seed)
        request = SplitRequest(
            task,
            units,
            await pools_of_secondaries(work, at.source, units, seed),
            at.queues if at.cut_for is None else at.cut_for,
            chunk.kind == SCOUT.name,
            max(1, min(limits.jobs_of_chunk, chunk.max_jobs or limits.jobs_of_chunk) // task.rules.jobs_for_input),
            await self._more_follows(work, task, at.source.datasets.get(chunk.dataset_id or 0), chunk),
        )
        placement = self._requesting.plugin_of(task).split(request, seed)
        some_wait = at.fit is not None and at.fit(placement)
        advertises_again_at = await take_matches(work, task, placement)
        changes = CounterChanges()
        if placement.jobs:
            plain = partial(self._from_places, work, at, changes=changes)
            await self._kinds.request(work, at, changes, plain)(placement.jobs)
        await self._return_leftover(work, task, chunk, placement, changes, len(units), at.queues)
        await store_counters.apply(work, changes)
        is_current = chunk.needs_key in (None, needs_key(task.needs))  # else its input is offered again at once
        if some_wait:
            return len(placement.jobs)
        if not placement.jobs and is_current and not await is_given_up(work, at.source, placement):
            retry_at = work.now + timedelta(seconds=limits.unsplittable_retry_s)
            await self._no_jobs(work, task, chunk, placement, at.queues, min(retry_at, advertises_again_at or retry_at))
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

    async def _from_places(
        self, work: UnitOfWork, at: BrokeredChunk, placed: Sequence[PlacedJob], changes: CounterChanges
    ) -> Sequence[int]:
        """One job at each place; their ids."""
        kind = self._kinds.job(at.chunk.kind)
        text = at.source.text_for(kind)  # before anything is written
        source = await at_sites(work, at.source, at.source.templates_for(kind), placed)
        seeds = await seeds_for(work, source, text, len(placed))
        request = await self._requesting.request(
            work, source, kind, placed, seeds, guid_seed=self._random.getrandbits(SEED_BITS)
        )
        await self._requesting.insert(work, source, at.chunk, kind, self._requesting.built(request), changes, seeds)
        await self._requesting.start_task(work, at.task, at.chunk)
        return request.job_ids

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
