"""Makes merge jobs: unmerged outputs wait by queue, are offered in groups, and end their producers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from services.job_generation.generating import Generating
from services.job_generation.parameters import generation_parameters, most_walltime_s
from services.job_generation.policy import merging as policy
from services.job_generation.policy.build_jobs import library_streams, with_libraries
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.kinds import MERGE, MERGEABLE
from services.job_generation.policy.merging import MERGE_ATTEMPTS
from services.job_generation.policy.picking import GENERATING, has_open_input
from services.job_generation.policy.plugin import JobGeneration, MergeRequest
from services.job_generation.policy.values import JobInput, Task, Template, Unit
from services.job_generation.specification.building import BuildRequest
from services.job_generation.specification.instantiating import at_sites
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.splitting.matching import take_matches
from services.job_generation.splitting.middle_names import middle_name_in_outputs
from services.job_generation.splitting.placing import PlacedJob, Placement
from services.job_generation.store import builds as store_builds
from services.job_generation.store import held as store_held
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.results import EndedJob, JobFile, OutputEnd
from services.job_generation.store.tasks import Chunk, LockedTask, PickedFiles
from services.job_generation.throttle.waking import note_no_fit
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, ChunkOffered, JobsFailed, JobsFinished, QueueChoice, moves_of
from shared.model import command_line
from shared.model.batches import batches
from shared.model.priorities import FIXED_PRIORITIES
from shared.states.file import FileStatus
from shared.states.job import LIVE, JobStatus

BEFORE_MERGING = tuple(status for status in LIVE if status != "merging")


class Merging:
    """Everything about merge jobs of a task whose row is locked."""

    def __init__(self, parameters: Parameters, generating: Generating) -> None:
        self._parameters, self._generating = parameters, generating

    async def hold(
        self, work: UnitOfWork, task: Task, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> list[EndedJob]:
        """Jobs came to state merging: their unmerged outputs wait (running -> ready), bound to their producer.

        Jobs that wrote nothing to merge, which was allowed, are finished and returned: their results are applied.
        No merge job is made for a log alone unless merging reads logs.
        """
        producers = [job.job_id for job in jobs]
        if not producers:
            return []
        reports = await store_results.reports(work, producers)
        files = [
            file
            for file in await store_results.files_of_jobs(work, producers)
            if file.out_job_id == file.job_id
            and file.status in ("running", "defined")
            and file.owner_id is None  # else running as the input of a merge job: the event was said again
        ]
        for_nobody = await self._with_nothing_to_merge(work, task, files)
        ends = []
        for file in files:
            reported = policy.reported_file(reports.get(file.job_id), file.lfn)
            waits: FileStatus = "finished" if file.job_id in for_nobody else "ready"
            if not file.is_registered:
                waits = "nooutput"
            ends.append(
                OutputEnd(
                    file.file_id,
                    file.status,
                    waits if file.status == "running" else "cancelled",
                    boundary_id=file.job_id,
                    max_attempt=MERGE_ATTEMPTS,
                    **reported,
                )
            )
        await store_results.end_outputs(work, task.task_id, ends, changes, "produced; waits to be merged")
        outputs = await store_results.unmerged_outputs(work, task.task_id, producers)
        empty = [job for job in producers if policy.all_merged(outputs.get(job, ()))]
        ended = await store_results.end_merging_jobs(work, empty, "finished", "it wrote nothing to be merged")
        _announce(work, JobsFinished, ended, "finished")
        return ended

    async def _with_nothing_to_merge(self, work: UnitOfWork, task: Task, files: Sequence[JobFile]) -> set[int]:
        """The jobs that wrote no stream that the command line of merge jobs reads.

        A command line that reads none is a mistake, which the merge job tells.
        """
        doubtful = {file.job_id for file in files if not file.is_registered}
        if not doubtful:
            return set()
        _, lines = await store.texts(work, task.task_id)
        text = str(lines.get("merge") or "")
        datasets = await store.datasets(work, task.task_id)
        merged = {one.dataset_id for one in datasets if command_line.reads(text, policy.merge_stream(one))}
        written = {file.job_id for file in files if file.is_registered and file.dataset_id in merged}
        return doubtful - written if merged else set()

    async def offer(self, work: UnitOfWork, held: LockedTask) -> int:
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
        plugin, n_offered = self._generating.plugin_of(task), 0
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
        await store.apply_counters(work, changes)
        work.emit(ChunkOffered(chunk_id=chunk_id, task_id=task.task_id))

    async def generate(
        self, work: UnitOfWork, held: LockedTask, chunk: Chunk, candidates: Sequence[QueueChoice]
    ) -> int:
        """Merge jobs of a brokered chunk at its best queue; without a queue the files wait again.

        A merge job is a match of its site like any other. What the site does not take waits, too, until the site
        advertises again or its advertisement ends (at most five minutes).
        """
        definition = await self._generating.definition(work, held.task)
        task, changes = definition.task, CounterChanges()
        queues = await self._generating.queues(work, task, candidates)
        producers = policy.producers_of(await store_units.units_of_chunk(work, chunk.chunk_id, task))
        waiting = await self._still_waiting(work, producers)
        gone = [unit.file_id for one in producers if one.job_id not in waiting for unit in one.files]
        if gone:
            await self.release(work, task, chunk.chunk_id, changes, "its job was killed", gone)
            await store.apply_counters(work, changes)  # they are given back even if no job can be defined below
        plugin = self._generating.plugin_of(task)
        left = [one for one in producers if one.job_id in waiting]
        groups = _groups(plugin, MergeRequest(task, left, is_complete=True), definition.templates)
        if not queues or not groups:
            await self.release(work, task, chunk.chunk_id, changes, "no queue can run the merge jobs")
            await store.apply_counters(work, changes)
            if not queues:
                limits = generation_parameters(self._parameters, task.gshare, task.vo)
                await self._hold_back(work, task, chunk, work.now + timedelta(seconds=limits.unsplittable_retry_s))
            return 0
        inputs = (JobInput(tuple(unit for producer in group for unit in producer.files)) for group in groups)
        placement = Placement([PlacedJob(queues[0], one) for one in inputs])
        if task.rules.uses_build:
            placement.jobs = with_libraries(placement.jobs, await store_builds.builds(work, task.task_id))
        _must_merge_something(definition, placement.jobs)  # before anything is counted
        await self._fit(work, task, chunk, placement)
        if not placement.jobs:
            return 0
        definition = await at_sites(work, definition, definition.templates_for(MERGE), placement.jobs)
        request = await self._request(work, definition, chunk, placement.jobs)
        jobs = self._generating.built(plugin, request)
        await self._generating.insert(work, definition, chunk, jobs, changes)
        await store.apply_counters(work, changes)
        return len(jobs)

    async def _fit(self, work: UnitOfWork, task: Task, chunk: Chunk, placement: Placement) -> None:
        """Count the merge jobs that their site takes; the files of the others wait, and the task says why."""
        retry_at = await take_matches(work, task, placement, MERGE.name)
        if retry_at is None:
            return
        reason, changes = f"merge jobs wait: {'; '.join(placement.reasons)}", CounterChanges()
        ids = [unit.file_id for unit in placement.leftover]
        await self.release(work, task, chunk.chunk_id, changes, reason[:1000], ids)
        await store.apply_counters(work, changes)  # they are given back even if no job can be defined after this
        await store.record_decision(work, task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)
        await self._hold_back(work, task, chunk, retry_at)

    async def _hold_back(self, work: UnitOfWork, task: Task, chunk: Chunk, retry_at: datetime) -> None:
        """Merges of the chunk wait by themselves, until what brings a queue that takes them wakes them."""
        await store_units.hold_chunk(work, chunk.chunk_id, retry_at)
        await note_no_fit(work, task.task_id, chunk.chunk_id, retry_at, self._generating.versions)

    async def _still_waiting(self, work: UnitOfWork, producers: Sequence[policy.Producer]) -> set[int]:
        """Producers that are in state merging; their rows stay locked, so that none is killed unnoticed."""
        rows = await store_results.lock_jobs(work, [one.job_id for one in producers])
        return {row.job_id for row in rows if row.status == "merging"}

    async def release(
        self,
        work: UnitOfWork,
        task: Task,
        chunk_id: int,
        changes: CounterChanges,
        reason: str,
        ids: Sequence[int] | None = None,
    ) -> None:
        """Files of a merge chunk wait again; those of jobs that were killed meanwhile are not wanted any more."""
        released = await store.give_back(work, task.task_id, chunk_id, changes, reason, ids)
        orphans = await store_results.orphans(work, released)
        ends = [OutputEnd(file_id, "ready", "cancelled") for file_id in orphans]
        await store_results.end_outputs(work, task.task_id, ends, changes, "its job was killed")

    async def _request(
        self, work: UnitOfWork, definition: JobSource, chunk: Chunk, placed: Sequence[PlacedJob]
    ) -> BuildRequest:
        templates = definition.templates_for(MERGE)
        return BuildRequest(
            task=definition.task,
            kind=MERGE.name,
            master=definition.datasets[placed[0].job.master[0].dataset_id],
            datasets=definition.datasets,
            templates=templates,
            parameters=definition.text_for(MERGE),
            placed=placed,
            job_ids=await work.next_ids("job_ids", len(placed)),
            serials=await store_jobs.take_serials(work, [one.template_id for one in templates], len(placed)),
            guid_seed=chunk.chunk_id,
            trans_path=definition.trans_path_for(MERGE),
            most_walltime_s=most_walltime_s(self._parameters, definition.task, MERGE),
            streams=[_streams_of(definition, one.job) for one in placed],
            at_site=definition.at_site,
        )

    async def producers_ended(
        self, work: UnitOfWork, task: Task, merge_files: Mapping[int, Sequence[JobFile]], changes: CounterChanges
    ) -> list[EndedJob]:
        """After merge jobs ended and their inputs were moved: end the jobs that made these inputs.

        All their unmerged outputs merged: finished. One of them given up: cancelled, and what is left of their outputs
        is cancelled too. Otherwise they wait on. The rows that come back must still have their results applied.
        """
        touched = sorted({file.out_job_id for files in merge_files.values() for file in files if file.out_job_id})
        outputs = await store_results.unmerged_outputs(work, task.task_id, touched)
        merged = [job for job in touched if policy.all_merged(outputs.get(job, ()))]
        given_up = [job for job in touched if any(row["status"] == "failed" for row in outputs.get(job, ()))]
        ended = await store_results.end_merging_jobs(work, merged, "finished", "its outputs were merged")
        why = f"its outputs could not be merged in {MERGE_ATTEMPTS} attempts"
        cancelled = await store_results.end_merging_jobs(work, given_up, "cancelled", why, error=why)
        left = [
            OutputEnd(row["file_id"], "ready", "cancelled")
            for job in cancelled
            for row in outputs[job.job_id]
            if row["status"] == "ready"
        ]
        await store_results.end_outputs(work, task.task_id, left, changes, why)
        _announce(work, JobsFinished, ended, "finished")
        _announce(work, JobsFailed, cancelled, "cancelled")
        return [*ended, *cancelled]


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


def _must_merge_something(definition: JobSource, placed: Sequence[PlacedJob]) -> None:
    """Raises Undefinable if no final output is made of any of these files."""
    final = {f"TRN_{template.stream_name}" for template in definition.templates_for(MERGE)}
    if not any(final & set(_streams_of(definition, one.job)) for one in placed):
        raise Undefinable("no unmerged output belongs to a final one")


def _streams_of(definition: JobSource, job: JobInput) -> dict[str, list[Unit]]:
    """Unmerged inputs by the stream name of their dataset (TRN_OUTPUT0, TRN_LOG0, ...), and the library."""
    found = library_streams(job, definition.datasets)
    for unit in job.master:
        found.setdefault(policy.merge_stream(definition.datasets[unit.dataset_id]), []).append(unit)
    return found


def _announce(
    work: UnitOfWork, event: type[JobsFinished | JobsFailed], jobs: Sequence[EndedJob], status: JobStatus
) -> None:
    for part in batches(jobs, IDS_OF_EVENT):
        moves = moves_of(
            (
                (job.task_id, job.queue, job.resource_type, job.gshare, job.user_name, "merging", job.core_count)
                for job in part
            ),
            status,
        )
        work.emit(event(job_ids=tuple(job.job_id for job in part), moves=moves))
