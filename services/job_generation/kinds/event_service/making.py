"""Make jobs of job sets: the first ones of new sets, and those that follow them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.job_generation.kinds.event_service.beside import beside
from services.job_generation.kinds.event_service.job import OfJobSet, consumer
from services.job_generation.kinds.event_service.policy.building import SetPlace, build
from services.job_generation.kinds.event_service.policy.ranges import KeptRange, cut
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store.job_sets import NewSet
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import JobInput, PlacedJob, QueueFacts, Task, Unit
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.specification.kind_of_job import SCOUT
from services.job_generation.splitting.elsewhere import Elsewhere
from services.job_generation.steps.doors import BrokeredChunk
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store.tasks import Chunk
from services.job_generation.supplying.matching import take_more
from services.job_generation.supplying.numbering import seeds_for
from shared.db.unit_of_work import UnitOfWork
from shared.model import command_line


@dataclass(frozen=True)
class WantedJob:
    """A job to make: at which queue, for which set."""

    placed: PlacedJob
    place: SetPlace


class MakingJobSets:
    """Makes jobs for job sets of a task whose row is locked."""

    def __init__(self, steps: Steps) -> None:
        self._requesting, self._kinds = steps.requesting, steps.kinds

    async def begin(
        self, work: UnitOfWork, at: BrokeredChunk, placed: Sequence[PlacedJob], changes: CounterChanges
    ) -> Sequence[int]:
        """Make a job set for each placed input, with its ranges and first jobs; the ids of these."""
        task, rules, chunk, kind = at.task, at.task.rules, at.chunk, consumer(at.chunk.kind)
        assert rules.events_per_range is not None
        kept = await _kept(work, task, placed)
        cuts = [
            cut(one.job.master, rules.events_per_range, within_files=rules.numbers_within_files, kept=kept)
            for one in placed
        ]
        outputs = [one.template_id for one in at.source.templates_for(kind) if not one.is_log]
        first = await store_jobs.take_serials(work, outputs, len(placed))
        ids = await work.next_ids("job_set_ids", len(placed))
        sets, wanted = [], list[WantedJob]()
        waits = beside(self._kinds).why_it_waits(task, kind, at.queues)
        jobs = [[one] for one in placed]
        if waits is None:
            elsewhere = Elsewhere(task, at.queues, placed, scout=chunk.kind == SCOUT.name)
            jobs = await take_more(work, task, [elsewhere.spread(one) for one in placed])
        for number, (of_input, job_set_id) in enumerate(zip(jobs, ids, strict=True)):
            one = of_input[0]
            serials = {key: serial + number for key, serial in first.items()}
            units = [*one.job.master, *owned_secondaries(at.source, one.job)]
            n_kept = sum(len(kept.get(unit.file_id, ())) for unit in one.job.master)
            sets.append(NewSet(job_set_id, units, cuts[number], serials, n_kept))
            wanted += [WantedJob(one, SetPlace(job_set_id, serials)) for one in of_input]
        await insert_sets(work, task, chunk, sets, at.queues)
        made = await self.make(work, at.source, chunk, kind, wanted, changes, attempts={}, waits=waits is not None)
        await self._requesting.start_task(work, task, chunk)
        if waits is not None:
            await beside(self._kinds).wait(work, task, ids, waits)
        return made

    async def make(
        self,
        work: UnitOfWork,
        definition: JobSource,
        chunk: Chunk,
        kind: OfJobSet,
        wanted: Sequence[WantedJob],
        changes: CounterChanges,
        *,
        attempts: Mapping[int, int],
        waits: bool = False,
    ) -> Sequence[int]:
        """Build and insert; the ids. Raises Undefinable."""
        task, placed = definition.task, [one.placed for one in wanted]
        text = definition.text_for(kind)
        seeds = None if kind.reads_outputs else await seeds_for(work, definition, text, len(wanted))
        request = await self._requesting.request(work, definition, kind, placed, seeds)
        try:
            jobs = build(request, [one.place for one in wanted])
        except command_line.UnresolvedPlaceholder as error:
            raise Undefinable(str(error)) from error
        takes_input = not attempts
        await self._requesting.insert(
            work, definition, chunk, kind, jobs, changes, seeds, takes_input=takes_input, waits=waits
        )
        members = [(job.job_id, one.place.job_set_id) for job, one in zip(jobs, wanted, strict=True)]
        await store_sets.add_members(work, task.task_id, kind.role, members, attempts)
        return request.job_ids


async def _kept(work: UnitOfWork, task: Task, placed: Sequence[PlacedJob]) -> Mapping[int, Sequence[KeptRange]]:
    """Ranges that stay processed where the task discards none (notDiscardEvents), by file."""
    if not task.rules.keeps_processed_events:
        return {}
    file_ids = [unit.file_id for one in placed for unit in one.job.master]
    return await store_sets.processed_ranges(work, task.task_id, file_ids)


async def insert_sets(
    work: UnitOfWork, task: Task, chunk: Chunk, sets: Sequence[NewSet], queues: Sequence[QueueFacts]
) -> None:
    """Store sets with the queues that were ranked for them."""
    await store_sets.insert(
        work, task.task_id, chunk.chunk_id, sets, kind=chunk.kind, n_consumers=task.rules.n_consumers,
        queues=[(one.queue, one.resource_type) for one in queues], attempts=task.rules.range_attempts,
        keeps_processed=task.rules.keeps_processed_events,
    )  # fmt: skip


def owned_secondaries(definition: JobSource, job: JobInput) -> list[Unit]:
    """Units of secondary datasets that the job alone uses."""
    return [
        unit
        for dataset_id, units in job.secondary.items()
        if not definition.datasets[dataset_id].is_shared
        for unit in units
    ]
