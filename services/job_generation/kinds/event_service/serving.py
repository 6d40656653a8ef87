"""Makes the jobs that job sets want, to go on or to merge, or gives up sets without a queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from services.job_generation.kinds.event_service.beside import beside
from services.job_generation.kinds.event_service.failing import FailingJobSets
from services.job_generation.kinds.event_service.job import EVENT_SERVICE_MERGE, OfJobSet, consumer
from services.job_generation.kinds.event_service.making import MakingJobSets, WantedJob
from services.job_generation.kinds.event_service.policy.building import NO_EVENTS, SetPlace
from services.job_generation.kinds.event_service.policy.placing import (
    QueuesOfSet,
    best_at_store,
    has_high_priority,
    one_store,
    queues_of_set,
)
from services.job_generation.kinds.event_service.refused import take_or_wait
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store.job_sets import JobSet, Member
from services.job_generation.kinds.merge.job import MERGEABLE
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import PlacedJob, QueueFacts, Task
from services.job_generation.specification.job_source import JobSource
from services.job_generation.specification.kind_of_job import SCOUT
from services.job_generation.splitting.elsewhere import Elsewhere
from services.job_generation.splitting.placement import Placement
from services.job_generation.store import counters as store_counters
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import tasks as store
from services.job_generation.store.tasks import Chunk, LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.events import QueueChoice


class ServingJobSets:
    """Looks after what the job sets of a task whose row is locked want."""

    def __init__(self, steps: Steps) -> None:
        self._making, self._kinds = steps.making, steps.kinds
        self._job_sets, self._failing = MakingJobSets(steps), FailingJobSets(steps)

    async def serve(self, work: UnitOfWork, held: LockedTask) -> int:
        """Make the jobs that sets of the task want; how many. One without a queue is given up."""
        if held.task.status not in MERGEABLE:
            return 0
        ids = await store_sets.wanting(work, held.task.task_id)
        if not ids:
            return 0
        definition = await self._making.source(work, held.task)
        await store_sets.lock_jobs_of_sets(work, ids)
        sets = [one for one in await store_sets.lock(work, ids) if one.wants is not None]
        n_made = 0
        for one in sets:
            n_made += await self._serve_one(work, held, definition, one)
        return n_made

    async def _serve_one(self, work: UnitOfWork, held: LockedTask, definition: JobSource, one: JobSet) -> int:
        kind = EVENT_SERVICE_MERGE if one.wants == EVENT_SERVICE_MERGE.role else consumer(one.kind)
        queues = await self._queues(work, definition, one, kind)
        if queues.usable:
            waits = beside(self._kinds).why_it_waits(definition.task, kind, queues.usable)
            return await self._make(work, held, definition, one, kind, queues.usable, waits=waits)
        reason = f"job set {one.job_set_id} wants a {one.wants} job: {queues.reason}"
        live = await self._live(work, one)
        others = await beside(self._kinds).stand_ins(work, held.task, one, live, reason)
        if others is not None:
            return await self._make(work, held, definition, one, kind, others.queues, waits=others.reason)
        # the set fails, unless other jobs of it go on; the task says why
        if await self._failing.give_up(work, held, one.job_set_id, reason):
            await store.record_decision(work, held.task.task_id, "retry", reason[:4000])
        return 0

    async def _make(
        self,
        work: UnitOfWork,
        held: LockedTask,
        definition: JobSource,
        one: JobSet,
        kind: OfJobSet,
        queues: Sequence[QueueFacts],
        *,
        waits: str | None,
    ) -> int:
        """The job that the set wants, at one of these queues whose site takes it; or as many as it had at first.

        `waits`: why it has no queue, and others process the events of the set at these; None: it has one.
        """
        merges = kind.reads_outputs
        job = await store_sets.input_of_set(work, one.job_set_id)
        queue = queues[0] if merges else Elsewhere(held.task, queues).next_for(job, one.n_attempts - 1)
        assert queue is not None
        n_jobs = 1
        if not merges and waits is None and definition.task.rules.resurrects_consumers:
            n_jobs = max(1, one.n_consumers - len(await self._live(work, one)))
        definition = await self._in_share(work, definition, kind.share)
        placement = Placement([PlacedJob(queue, job) for _ in range(n_jobs)])
        task, set_id = definition.task, one.job_set_id
        if waits is None and not await take_or_wait(work, self._making, task, placement, kind, set_id):
            return 0
        n_jobs = len(placement.jobs)
        chunk = Chunk(one.chunk_id, kind.name, job.master[0].dataset_id, None, len(job.master))
        processed = await store_sets.processed_of(work, held.task.task_id, one.job_set_id) if merges else NO_EVENTS
        serials = await self._serials(work, definition, one, merges=merges)
        place = SetPlace(one.job_set_id, serials, processed, one.serials)
        wanted = [WantedJob(placed, place) for placed in placement.jobs]
        changes = CounterChanges()
        attempts = {one.job_set_id: one.n_attempts}
        made = await self._job_sets.make(
            work, definition, chunk, kind, wanted, changes, attempts=attempts, waits=waits is not None
        )
        await store_sets.own_input(work, one.job_set_id, made[0])
        if waits is not None:
            await beside(self._kinds).wait(work, held.task, [one.job_set_id], waits)
        await store_sets.link_to_earlier(work, one.job_set_id, made, merges=merges)
        await store_counters.apply(work, changes)
        await store_sets.change(work, one.job_set_id, one.stage, f"{n_jobs} {kind.name} jobs made at {queue.key}")
        return n_jobs

    async def _live(self, work: UnitOfWork, one: JobSet) -> list[Member]:
        """Jobs of the set that process events, and do not wait for its merge."""
        members = (await store_sets.members_of_sets(work, [one.job_set_id])).get(one.job_set_id, [])
        return [member for member in members if member.role == "consumer" and member.status != "merging"]

    async def _serials(
        self, work: UnitOfWork, definition: JobSource, job_set: JobSet, *, merges: bool
    ) -> Mapping[int, int]:
        """Numbers of the output: those of the set, new ones for a merge job after another that did not write it."""
        if not merges or not await store_sets.has_merged(work, job_set.job_set_id):
            return job_set.serials
        outputs = [
            template.template_id for template in definition.templates_for(EVENT_SERVICE_MERGE) if not template.is_log
        ]
        return await store_jobs.take_serials(work, outputs, 1)

    async def _queues(self, work: UnitOfWork, definition: JobSource, one: JobSet, kind: OfJobSet) -> QueuesOfSet:
        """The ranked queues of a set that can still run it; for a merge where most events were processed first."""
        task, ranked = definition.task, list(one.queues)
        unused = await store_sets.unused_at(work, one.job_set_id, kind.role)
        if kind.reads_outputs:
            best = await store_sets.best_queue(work, task.task_id, one.job_set_id)
            ranked = ranked if best is None else [best, *(other for other in ranked if other != best)]
            if task.rules.merges_at_store:
                at_store = await self._at_store(work, task, one, ranked, unused)
                if at_store:
                    return QueuesOfSet(at_store)
                ranked.sort(key=lambda place: place[0] in unused)  # those where a merge job waited already come last
        choices = [QueueChoice(queue=name, resource_type=resource_type, weight=1.0) for name, resource_type in ranked]
        known = await self._making.queues(work, task, choices)
        in_vain = [queue for queue, timed_out in unused.items() if timed_out]
        is_high = has_high_priority(task, is_scout=one.kind == SCOUT.name)
        return queues_of_set(ranked, known, is_high=is_high, waited_in_vain=in_vain)

    async def _at_store(
        self,
        work: UnitOfWork,
        task: Task,
        one: JobSet,
        ranked: Sequence[tuple[str, str]],
        unused: Collection[str],
    ) -> list[QueueFacts]:
        """Queues that name the object store of the set's files and take its job, none of them where one was `unused`.

        Where there is none, the task says why, and those of the set count.
        """
        store_id = one_store(await store_sets.stores_of_set(work, task.task_id, one.job_set_id))
        if isinstance(store_id, int):
            known = best_at_store(ranked, await self._making.queues_of_store(work, task, store_id))
            named = [(queue.queue, queue.resource_type) for queue in known]
            is_high = has_high_priority(task, is_scout=one.kind == SCOUT.name)
            found = queues_of_set(named, known, is_high=is_high).usable
            job = await store_sets.input_of_set(work, one.job_set_id)
            refused = Elsewhere(task, found).refusals(job, unused)
            usable = [queue for queue in found if queue.key not in refused]
            if usable:
                return usable
            store_id = "; ".join([f"no online queue for it names object store {store_id}", *refused.values()])
        reason = f"job set {one.job_set_id} is merged at a queue of its own (mergeEsOnOS): {store_id}"
        await store.record_decision(work, task.task_id, "pass", reason)
        return []

    async def _in_share(self, work: UnitOfWork, definition: JobSource, share: str | None) -> JobSource:
        """Jobs with a share of their own run in it where there is one."""
        if share is None or not await store_sets.share_exists(work, share):
            return definition
        return replace(definition, task=replace(definition.task, gshare=share))
