"""Makes the jobs of job sets: those that process events first, those that go on, and those that merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from services.job_generation.event_serving.requesting import request_for
from services.job_generation.generating import Generating
from services.job_generation.merging import MERGEABLE
from services.job_generation.parameters import generation_parameters, most_walltime_s
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.event_service.building import SetPlace, build
from services.job_generation.policy.event_service.placing import consumer_queues, next_queue, without_jumbo
from services.job_generation.policy.event_service.ranges import cut
from services.job_generation.policy.job_source import JobSource, Undefinable
from services.job_generation.policy.placing import PlacedJob
from services.job_generation.policy.values import QueueFacts, Unit
from services.job_generation.store import job_sets as store_sets
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import tasks as store
from services.job_generation.store.job_sets import JobSet, NewSet
from services.job_generation.store.tasks import Chunk, LockedTask
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import QueueChoice
from shared.model import command_line

#: where event-service merge jobs run (JEDI: event service)
EXPRESS_SHARE = "Express"


@dataclass(frozen=True)
class _Wanted:
    """A job to make: at which queue, for which set."""

    placed: PlacedJob
    place: SetPlace


class MakingJobSets:
    """Makes jobs for job sets of a task whose row is locked."""

    def __init__(self, parameters: Parameters, generating: Generating) -> None:
        self._parameters, self._generating = parameters, generating

    async def begin(
        self,
        work: UnitOfWork,
        definition: JobSource,
        chunk: Chunk,
        placed: Sequence[PlacedJob],
        queues: Sequence[QueueFacts],
        changes: CounterChanges,
    ) -> int:
        """A job set for each placed input, with its ranges and first jobs; how many jobs."""
        task, rules = definition.task, definition.task.rules
        assert rules.events_per_range is not None
        cuts = [cut(one.job.master, rules.events_per_range, within_files=rules.numbers_within_files) for one in placed]
        outputs = [one.template_id for one in definition.templates_for(chunk.kind) if not one.is_log]
        first = await store_jobs.take_serials(work, outputs, len(placed))
        ids = await work.next_ids("job_set_ids", len(placed))
        sets, wanted = [], list[_Wanted]()
        for number, (one, job_set_id) in enumerate(zip(placed, ids, strict=True)):
            serials = {key: serial + number for key, serial in first.items()}
            units = [*one.job.master, *_owned_secondaries(definition, one)]
            sets.append(NewSet(job_set_id, units, cuts[number], serials))
            for queue in consumer_queues(one.queue, queues, rules.n_sites_per_job):
                place = SetPlace(job_set_id, serials)
                wanted += [_Wanted(PlacedJob(queue, one.job), place)] * rules.n_consumers
        ranked = [(one.queue, one.resource_type) for one in queues]
        await store_sets.insert(
            work, task.task_id, chunk.chunk_id, sets, kind=chunk.kind, n_consumers=rules.n_consumers, queues=ranked,
            attempts=rules.range_attempts, keeps_processed=rules.keeps_processed_events,
        )  # fmt: skip
        await self._make(work, definition, chunk, wanted, changes, attempts={}, merges=False)
        await self._generating.start_task(work, task, chunk)
        return len(wanted)

    async def serve(self, work: UnitOfWork, held: LockedTask) -> int:
        """Make the jobs that sets of the task want; how many."""
        if not held.task.rules.uses_event_service or held.task.status not in MERGEABLE:
            return 0
        ids = await store_sets.wanting(work, held.task.task_id)
        if not ids:
            return 0
        definition = await self._generating.definition(work, held.task)
        sets = [one for one in await store_sets.lock(work, ids) if one.wants is not None]
        n_made = 0
        for one in sets:
            n_made += await self._serve_one(work, held, definition, one)
        return n_made

    async def _serve_one(self, work: UnitOfWork, held: LockedTask, definition: JobSource, one: JobSet) -> int:
        merges = one.wants == "merge"
        queue = await self._queue(work, definition, one, merges=merges)
        if queue is None:
            await self._wait(work, held, one)
            return 0
        job = await store_sets.input_of_set(work, one.job_set_id)
        n_live = len([m for m in (await store_sets.members_of_sets(work, [one.job_set_id])).get(one.job_set_id, ())
                      if m.role == "consumer" and m.status != "merging"])  # fmt: skip
        n_jobs = 1
        if not merges and definition.task.rules.resurrects_consumers:
            n_jobs = max(1, one.n_consumers - n_live)
        if merges:
            definition = await self._express(work, definition)
        kind = "merge" if merges else one.kind
        chunk = Chunk(one.chunk_id, kind, job.master[0].dataset_id, None, len(job.master))
        files = await store_sets.written_files(work, one.job_set_id) if merges else []
        serials = await self._serials(work, definition, one, merges=merges)
        place = SetPlace(one.job_set_id, serials, tuple(file["lfn"] for file in files))
        wanted = [_Wanted(PlacedJob(queue, job), place)] * n_jobs
        changes = CounterChanges()
        attempts = {one.job_set_id: one.n_attempts}
        made = await self._make(work, definition, chunk, wanted, changes, attempts=attempts, merges=merges)
        await store_sets.own_input(work, one.job_set_id, made[0])
        await store_sets.link_to_earlier(work, one.job_set_id, made, merges=merges)
        await store.apply_counters(work, changes)
        await store_sets.change(work, one.job_set_id, one.stage, f"{n_jobs} {kind} jobs made at {queue.key}")
        return n_jobs

    async def _serials(
        self, work: UnitOfWork, definition: JobSource, one: JobSet, *, merges: bool
    ) -> Mapping[int, int]:
        """Numbers of the output: those of the set, new ones for a merge job after another that did not write it."""
        if not merges or not await store_sets.has_merged(work, one.job_set_id):
            return one.serials
        outputs = [template.template_id for template in definition.templates_for("merge") if not template.is_log]
        return await store_jobs.take_serials(work, outputs, 1)

    async def _queue(self, work: UnitOfWork, definition: JobSource, one: JobSet, *, merges: bool) -> QueueFacts | None:
        """The best of the ranked queues where most events were processed; for another attempt the one after it."""
        ranked = list(one.queues)
        best = await store_sets.best_queue(work, one.job_set_id)
        if merges and best is not None:
            ranked = [best, *(other for other in ranked if other != best)]
        choices = [QueueChoice(queue=name, resource_type=kind, weight=1.0) for name, kind in ranked]
        queues = await self._generating.queues(work, definition.task, choices)
        return next_queue(without_jumbo(queues), 0 if merges else one.n_attempts - 1)

    async def _express(self, work: UnitOfWork, definition: JobSource) -> JobSource:
        """Merge jobs of the event service run in the share Express where there is one."""
        if not await store_sets.share_exists(work, EXPRESS_SHARE):
            return definition
        return replace(definition, task=replace(definition.task, gshare=EXPRESS_SHARE))

    async def _wait(self, work: UnitOfWork, held: LockedTask, one: JobSet) -> None:
        """No queue of the set is there any more: the task says so, and is looked at again."""
        limits = generation_parameters(self._parameters, held.task.gshare, held.task.vo)
        retry_at = work.now + timedelta(seconds=limits.unsplittable_retry_s)
        names = ", ".join(f"{queue}/{kind}" for queue, kind in one.queues) or "none"
        reason = f"job set {one.job_set_id} wants a {one.wants} job; of its queues ({names}) none is there any more"
        await store.record_decision(work, held.task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)
        await store.set_retry_at(work, held.task.task_id, retry_at)

    async def _make(
        self,
        work: UnitOfWork,
        definition: JobSource,
        chunk: Chunk,
        wanted: Sequence[_Wanted],
        changes: CounterChanges,
        *,
        attempts: Mapping[int, int],
        merges: bool,
    ) -> Sequence[int]:
        """Build and insert; the ids. Raises Undefinable."""
        task, placed = definition.task, [one.placed for one in wanted]
        text, templates = _text(definition, chunk.kind, merges=merges), definition.templates_for(chunk.kind)
        seeds = None if merges else await self._generating.seeds(work, definition, text, len(wanted))
        request = await request_for(
            work,
            definition,
            chunk.kind,
            text,
            templates,
            placed,
            seeds,
            trans_path=_trans_path(definition) if merges else None,
            most_walltime_s=most_walltime_s(self._parameters, task, "merge") if merges else None,
        )
        try:
            jobs = build(request, [one.place for one in wanted], merges=merges)
        except command_line.UnresolvedPlaceholder as error:
            raise Undefinable(str(error)) from error
        takes_input = not attempts
        await self._generating.insert(work, definition, chunk, jobs, changes, seeds, takes_input=takes_input)
        members = [(job.job_id, one.place.job_set_id) for job, one in zip(jobs, wanted, strict=True)]
        role = "merge" if merges else "consumer"
        await store_sets.add_members(work, task.task_id, role, members, attempts)
        return request.job_ids


def _owned_secondaries(definition: JobSource, placed: PlacedJob) -> list[Unit]:
    return [
        unit
        for dataset_id, units in placed.job.secondary.items()
        if not definition.datasets[dataset_id].is_shared
        for unit in units
    ]


def _text(definition: JobSource, kind: str, *, merges: bool) -> str:
    """The command line: esmergeSpec's for merge jobs where there is one, else that of the task's jobs."""
    stated = definition.command_lines.get("es_merge") if merges else None
    return str(stated) if stated else definition.text_for("normal" if merges else kind)


def _trans_path(definition: JobSource) -> str | None:
    return definition.command_lines.get("es_merge_trans_path")
