"""Merge jobs: unmerged outputs wait by queue, are offered in groups, and end the jobs that wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from services.job_generation.generating.plugin import JobGeneration, MergeRequest
from services.job_generation.kinds.merge.ending import EndingMerges
from services.job_generation.kinds.merge.job import MERGE, MERGEABLE, streams_of
from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy import merging as policy
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.picking import GENERATING, has_open_input
from services.job_generation.policy.values import JobInput, PlacedJob, Task, Template, Unit
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.splitting.middle_names import middle_name_in_outputs
from services.job_generation.splitting.placement import Placement
from services.job_generation.steps.doors import BrokeredChunk, CountJobs, Followed, MakeJobs, Prompt
from services.job_generation.store import counters as store_counters
from services.job_generation.store import held as store_held
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.results import EndedJob, OutputEnd
from services.job_generation.store.tasks import Chunk, LockedTask, PickedFiles
from services.job_generation.supplying.instantiating import at_sites
from services.job_generation.supplying.matching import take_matches
from services.job_generation.throttle.waking import note_no_fit
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkOffered
from shared.model.priorities import FIXED_PRIORITIES
from shared.runtime.service import Periodic
from shared.states.job import LIVE

BEFORE_MERGING = tuple(status for status in LIVE if status != "merging")
LOOK_EVERY_S = 5.0
TASKS_AT_ONCE = 20


class MergeJobs(BuiltKind):
    """Everything about merge jobs of a task whose row is locked."""

    job = MERGE

    def __init__(self, steps: Steps) -> None:
        self._parameters, self._making, self._settling = steps.parameters, steps.making, steps.settling
        self._requesting = steps.requesting
        self._ending = EndingMerges(steps.counting)

    async def inputs(self, work: UnitOfWork, at: BrokeredChunk, rest: MakeJobs) -> int:
        """Make merge jobs at the best queue of the chunk; without a queue the files wait again.

        A merge job is a match of its site like any other. What the site does not take waits, too, until the site
        advertises again or its advertisement ends (at most five minutes).
        """
        if at.chunk.kind != MERGE.name:
            return await rest(at)
        task, source, changes = at.task, at.source, CounterChanges()
        producers = policy.producers_of(await store_units.units_of_chunk(work, at.chunk.chunk_id, task))
        waiting = await self._still_waiting(work, producers)
        gone = [unit.file_id for one in producers if one.job_id not in waiting for unit in one.files]
        if gone:
            await self._making.give_back(work, task, at.chunk, "its job was killed", gone)
        left = [one for one in producers if one.job_id in waiting]
        plugin = self._requesting.plugin_of(task)
        groups = _groups(plugin, MergeRequest(task, left, is_complete=True), source.templates)
        if not at.queues or not groups:
            await self._making.give_back(work, task, at.chunk, "no queue can run the merge jobs")
            if not at.queues:
                limits = generation_parameters(self._parameters, task.gshare, task.vo)
                await self._hold_back(work, task, at.chunk, work.now + timedelta(seconds=limits.unsplittable_retry_s))
            return 0
        inputs = (JobInput(tuple(unit for producer in group for unit in producer.files)) for group in groups)
        placement = Placement([PlacedJob(at.queues[0], one) for one in inputs])
        if at.fit is not None:
            at.fit(placement)
        _must_merge_something(source, placement.jobs)  # before anything is counted
        await self._fit(work, task, at.chunk, placement)
        if not placement.jobs:
            return 0
        source = await at_sites(work, source, source.templates_for(MERGE), placement.jobs)
        jobs = self._requesting.built(await self._requesting.request(work, source, MERGE, placement.jobs))
        await self._requesting.insert(work, source, at.chunk, MERGE, jobs, changes)
        await store_counters.apply(work, changes)
        return len(jobs)

    async def _fit(self, work: UnitOfWork, task: Task, chunk: Chunk, placement: Placement) -> None:
        """Count the merge jobs that their site takes; the files of the others wait, and the task says why."""
        retry_at = await take_matches(work, task, placement, MERGE)
        if retry_at is None:
            return
        reason = f"merge jobs wait: {'; '.join(placement.reasons)}"
        await self._making.give_back(work, task, chunk, reason[:1000], [unit.file_id for unit in placement.leftover])
        await store.record_decision(work, task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)
        await self._hold_back(work, task, chunk, retry_at)

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges, rest: CountJobs
    ) -> None:
        """Count merge jobs, and the jobs whose outputs they merged or that wait for one."""
        await self._ending.ended(work, held, jobs, changes, rest)

    async def given_back(self, work: UnitOfWork, task: Task, file_ids: Sequence[int], changes: CounterChanges) -> None:
        """Files of a merge chunk wait again; those of jobs that were killed meanwhile are not wanted any more."""
        orphans = await store_results.orphans(work, file_ids)
        ends = [OutputEnd(file_id, "ready", "cancelled") for file_id in orphans]
        await store_results.end_outputs(work, task.task_id, ends, changes, "its job was killed")

    async def prompted(self, work: UnitOfWork, task: Task, prompt: Prompt) -> None:
        """Offer merges again that wait by themselves: all, or those whose reason to wait is gone."""
        if prompt.released and prompt.woken:
            await store_held.release_woken_merges(work, task.task_id)
        elif prompt.released or task.status not in GENERATING:
            await store_held.release_merges(work, task.task_id)

    async def follows(self, work: UnitOfWork, held: LockedTask, prompt: Prompt) -> Followed:
        """Offer a chunk of merge jobs for each queue where there is enough to merge."""
        return Followed(await self._offer(work, held))

    async def _offer(self, work: UnitOfWork, held: LockedTask) -> int:
        """Offer a chunk of merge jobs for each queue that has a full group, or to which no more outputs come.

        Merges that no queue took wait at their queue, whatever the task waits for.
        """
        task = held.task
        if not task.rules.merge_output or task.status not in MERGEABLE:
            return 0
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        at_most = policy.most_producers(task.rules, limits.merge_jobs_of_chunk)
        waiting = await store_results.on_hold(work, task.task_id, at_most)
        if not waiting:
            return 0
        busy = await store_results.queues_with_unmerged_work(work, task.task_id, sorted(waiting), BEFORE_MERGING)
        on_hold = await store_held.held_merges(work, task.task_id)
        more_comes = busy.issuperset(waiting) or await self._more_comes(work, task)
        plugin, n_offered = self._requesting.plugin_of(task), 0
        templates = await store.templates(work, task.task_id) if task.rules.name_fields else ()
        for queue in sorted(waiting):
            producers = policy.producers_of(waiting[queue])
            is_complete = queue not in busy and not more_comes and len(producers) != at_most
            groups = _groups(plugin, MergeRequest(task, producers, is_complete), templates)
            if not groups and len(producers) == at_most:  # too many middle names for a full group of one
                groups = _groups(plugin, MergeRequest(task, producers, is_complete=True), templates)
            for ram_mb, units in policy.by_memory(groups[: limits.merge_jobs_of_chunk]).items():
                if (queue, ram_mb) not in on_hold:
                    await self._offer_chunk(work, task, queue, units, ram_mb)
                    n_offered += 1
        return n_offered

    async def _more_comes(self, work: UnitOfWork, task: Task) -> bool:
        """Whether input is on its way to jobs, whose outputs may fill the last group of any queue."""
        if task.status not in GENERATING:
            return False
        opened = [one.dataset_id for one in await store.datasets(work, task.task_id) if has_open_input(one)]
        return await store_held.more_output_comes(work, task.task_id, opened, BEFORE_MERGING)

    async def _offer_chunk(
        self, work: UnitOfWork, task: Task, queue: str, units: Sequence[Unit], ram_mb: int | None
    ) -> None:
        [chunk_id] = await work.next_ids("chunk_ids", 1)
        await store_held.release_merges(work, task.task_id, queue)
        changes = CounterChanges()
        reason = f"taken into merge chunk {chunk_id}"
        ids = await store.pick_named(work, task.task_id, chunk_id, [unit.file_id for unit in units], changes, reason)
        picked = PickedFiles(ids, sum(unit.events or 0 for unit in units), sum(unit.size_bytes for unit in units))
        await store.insert_chunk(
            work,
            chunk_id,
            task.task_id,
            MERGE.name,
            picked,
            dataset_id=units[0].dataset_id,
            queue=queue,
            priority=FIXED_PRIORITIES[MERGE.name],
            ram_mb=ram_mb,
        )
        await store_counters.apply(work, changes)
        work.emit(ChunkOffered(chunk_id=chunk_id, task_id=task.task_id))

    async def _hold_back(self, work: UnitOfWork, task: Task, chunk: Chunk, retry_at: datetime) -> None:
        """Merges of the chunk wait by themselves, until what brings a queue that takes them wakes them."""
        await store_units.hold_chunk(work, chunk.chunk_id, retry_at)
        await note_no_fit(work, task.task_id, chunk.chunk_id, retry_at, self._making.versions)

    async def _still_waiting(self, work: UnitOfWork, producers: Sequence[policy.Producer]) -> set[int]:
        """Producers that are in state merging; their rows stay locked, so that none is killed unnoticed."""
        rows = await store_results.lock_jobs(work, [one.job_id for one in producers])
        return {row.job_id for row in rows if row.status == "merging"}

    def periodic(self) -> Sequence[Periodic]:
        """Merges are looked at when they waited as long as they may."""
        return (Periodic("look-at-merges", LOOK_EVERY_S, self._look),)

    async def _look(self, work: UnitOfWork) -> None:
        due = await store_held.due_merges(work, MERGEABLE, TASKS_AT_ONCE)
        for held in await store.lock_tasks(work, due):
            await store_held.release_due_merges(work, held.task.task_id)
        await self._settling.settle_all(work, due, tell=False)


def _groups(
    plugin: JobGeneration, request: MergeRequest, templates: Sequence[Template]
) -> list[tuple[policy.Producer, ...]]:
    """The merge jobs: outputs with different middle names are merged apart, so that a merged name is true of all."""
    if not request.task.rules.name_fields:
        return list(plugin.merge_groups(request))
    middle_name, named = middle_name_in_outputs(templates), dict[str, list[policy.Producer]]()
    for one in request.producers:
        named.setdefault(middle_name(one.files), []).append(one)
    return [group for part in named.values() for group in plugin.merge_groups(replace(request, producers=part))]


def _must_merge_something(source: JobSource, placed: Sequence[PlacedJob]) -> None:
    """Raises Undefinable if no final output is made of any of these files."""
    final = {f"TRN_{template.stream_name}" for template in source.templates_for(MERGE)}
    if not any(final & set(streams_of(source.datasets, one.job)) for one in placed):
        raise Undefinable("no unmerged output belongs to a final one")
