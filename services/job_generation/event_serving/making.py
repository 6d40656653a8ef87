"""Makes jobs of job sets: the first ones of new sets, and those that replace jobs that waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from services.job_generation.event_serving.requesting import request_for
from services.job_generation.generating import Generating
from services.job_generation.parameters import generation_parameters, most_walltime_s
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.event_service.building import SetPlace, build
from services.job_generation.policy.event_service.elsewhere import Elsewhere
from services.job_generation.policy.event_service.placing import (
    left_to_jumbo,
    waits_for_jumbo,
)
from services.job_generation.policy.event_service.ranges import KeptRange, cut
from services.job_generation.policy.event_service.searching import next_step
from services.job_generation.policy.kinds import SCOUT
from services.job_generation.policy.kinds.event_service import EVALUATION, OfJobSet, consumer
from services.job_generation.policy.values import QueueFacts, Task, Unit
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.specification.numbering import seeds_for
from services.job_generation.splitting.matching import take_matches, take_more
from services.job_generation.splitting.placing import PlacedJob, Placement
from services.job_generation.store import job_sets as store_sets
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import searches as store_searches
from services.job_generation.store import tasks as store
from services.job_generation.store import waiting_sets as store_waiting
from services.job_generation.store.job_sets import JobSet, NewSet
from services.job_generation.store.tasks import Chunk, LockedTask
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.model import command_line


@dataclass(frozen=True)
class WantedJob:
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
        if rules.evaluates_points:
            return await self._begin_searches(work, definition, chunk, placed, queues, changes)
        assert rules.events_per_range is not None
        kept = await _kept(work, task, placed)
        cuts = [
            cut(one.job.master, rules.events_per_range, within_files=rules.numbers_within_files, kept=kept)
            for one in placed
        ]
        outputs = [one.template_id for one in definition.templates_for(consumer(chunk.kind)) if not one.is_log]
        first = await store_jobs.take_serials(work, outputs, len(placed))
        ids = await work.next_ids("job_set_ids", len(placed))
        sets, wanted = [], list[WantedJob]()
        waits = waits_for_jumbo(task, consumer(chunk.kind), queues)
        jobs = [[one] for one in placed]
        if not waits:
            elsewhere = Elsewhere(task, queues, placed, scout=chunk.kind == SCOUT.name)
            jobs = await take_more(work, task, [elsewhere.spread(one) for one in placed])
        for number, (of_input, job_set_id) in enumerate(zip(jobs, ids, strict=True)):
            one = of_input[0]
            serials = {key: serial + number for key, serial in first.items()}
            units = [*one.job.master, *_owned_secondaries(definition, one)]
            n_kept = sum(len(kept.get(unit.file_id, ())) for unit in one.job.master)
            sets.append(NewSet(job_set_id, units, cuts[number], serials, n_kept))
            wanted += [WantedJob(one, SetPlace(job_set_id, serials)) for one in of_input]
        await _insert(work, task, chunk, sets, queues)
        await self.make(work, definition, chunk, consumer(chunk.kind), wanted, changes, attempts={}, waits=waits)
        await self._generating.start_task(work, task, chunk)
        if waits:
            await store_waiting.note_waiting(work, ids)
            await self.ask_later(work, task, left_to_jumbo(queues))
        return len(wanted)

    async def _begin_searches(
        self,
        work: UnitOfWork,
        definition: JobSource,
        chunk: Chunk,
        placed: Sequence[PlacedJob],
        queues: Sequence[QueueFacts],
        changes: CounterChanges,
    ) -> int:
        """A set that searches for each placed input, with the first jobs that evaluate its points; how many jobs."""
        task, rules = definition.task, definition.task.rules
        ids = await work.next_ids("job_set_ids", len(placed))
        sets = [
            NewSet(job_set_id, [*one.job.master, *_owned_secondaries(definition, one)], [], {})
            for one, job_set_id in zip(placed, ids, strict=True)
        ]
        await _insert(work, task, chunk, sets, queues)
        elsewhere, wanted = Elsewhere(task, queues, placed), list[WantedJob]()
        for one, job_set_id in zip(placed, ids, strict=True):
            search = await store_searches.begin(work, task.task_id, job_set_id, one.job.master[0], rules)
            [row] = await store_sets.lock(work, [job_set_id])
            assert rules.most_jobs is not None
            step = next_step(search, row.state, most_jobs=rules.most_jobs, n_at_once=rules.n_consumers, makes_jobs=True)
            [jobs] = await take_more(work, task, [elsewhere.spread(one)[: max(1, step.n_jobs)]])
            wanted += [WantedJob(job, SetPlace(job_set_id, {})) for job in jobs]
            await store_searches.note_jobs(work, job_set_id, len(jobs))
        await self.make(work, definition, chunk, EVALUATION, wanted, changes, attempts={})
        await self._generating.start_task(work, task, chunk)
        return len(wanted)

    async def ask_later(self, work: UnitOfWork, task: Task, reason: str) -> None:
        """Other queues are asked for later; why, the task says. Its other input goes on."""
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        retry_at = work.now + timedelta(seconds=limits.unsplittable_retry_s)
        await store_waiting.ask_by(work, task.task_id, retry_at)
        await store.record_decision(work, task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)

    async def replace_waiting(
        self,
        work: UnitOfWork,
        held: LockedTask,
        sets: Sequence[JobSet],
        queues: Sequence[QueueFacts],
        ranked: Sequence[QueueFacts],
    ) -> tuple[list[int], str]:
        """Real co-jumbo jobs at these of the ranked queues for sets that waited for some; the sets are locked.

        The others are kept for the jumbo jobs of the task. Returns which sets have some, and why others have none.
        """
        definition = await self._generating.definition(work, held.task)
        jobs, why = await self._placed(work, held.task, sets, queues)
        chunks: dict[tuple[int, str], list[JobSet]] = {}
        for one in sets:
            if one.job_set_id in jobs:
                chunks.setdefault((one.chunk_id, one.kind), []).append(one)
        names = [(one.queue, one.resource_type) for one in ranked]
        await store_waiting.place_sets(work, sorted(jobs), names)
        changes = CounterChanges()
        for (chunk_id, kind), of_chunk in sorted(chunks.items()):
            wanted = [
                WantedJob(job, SetPlace(one.job_set_id, one.serials))
                for one in of_chunk
                for job in jobs[one.job_set_id]
            ]
            master = wanted[0].placed.job.master
            chunk = Chunk(chunk_id, kind, master[0].dataset_id, None, len(master))
            attempts = {one.job_set_id: one.n_attempts for one in of_chunk}
            await self.make(work, definition, chunk, consumer(kind), wanted, changes, attempts=attempts)
        await store.apply_counters(work, changes)
        return sorted(jobs), why

    async def _placed(
        self, work: UnitOfWork, task: Task, sets: Sequence[JobSet], queues: Sequence[QueueFacts]
    ) -> tuple[dict[int, list[PlacedJob]], str]:
        """The jobs of each set that a queue takes, and why others have none."""
        elsewhere, of_sets = Elsewhere(task, queues), dict[int, PlacedJob]()
        first = Placement()
        for number, one in enumerate(sets):
            drawn = elsewhere.draw(await store_sets.input_of_set(work, one.job_set_id), number)
            if isinstance(drawn, str):
                first.note(drawn)
            else:
                of_sets[one.job_set_id] = drawn
        first.jobs = list(of_sets.values())
        await take_matches(work, task, first)
        taken = {id(one) for one in first.jobs}
        ids = [job_set_id for job_set_id, one in of_sets.items() if id(one) in taken]
        jobs = await take_more(work, task, [elsewhere.spread(of_sets[job_set_id]) for job_set_id in ids])
        return dict(zip(ids, jobs, strict=True)), "; ".join(first.reasons)

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
        text, templates = definition.text_for(kind), definition.templates_for(kind)
        seeds = None if kind.reads_outputs else await seeds_for(work, definition, text, len(wanted))
        longest_s = most_walltime_s(self._parameters, task, kind)
        request = await request_for(work, definition, kind, text, templates, placed, seeds, most_walltime_s=longest_s)
        try:
            jobs = build(request, [one.place for one in wanted], kind)
        except command_line.UnresolvedPlaceholder as error:
            raise Undefinable(str(error)) from error
        takes_input = not attempts
        await self._generating.insert(
            work, definition, chunk, jobs, changes, seeds, takes_input=takes_input, waits=waits
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


async def _insert(
    work: UnitOfWork, task: Task, chunk: Chunk, sets: Sequence[NewSet], queues: Sequence[QueueFacts]
) -> None:
    """Store sets with the queues that were ranked for them."""
    await store_sets.insert(
        work, task.task_id, chunk.chunk_id, sets, kind=chunk.kind, n_consumers=task.rules.n_consumers,
        queues=[(one.queue, one.resource_type) for one in queues], attempts=task.rules.range_attempts,
        keeps_processed=task.rules.keeps_processed_events,
    )  # fmt: skip


def _owned_secondaries(definition: JobSource, placed: PlacedJob) -> list[Unit]:
    return [
        unit
        for dataset_id, units in placed.job.secondary.items()
        if not definition.datasets[dataset_id].is_shared
        for unit in units
    ]
