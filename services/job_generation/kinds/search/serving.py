"""Searches of hyper-parameters: their job sets begin, jobs evaluate points, and the search ends.

There is one set for the pseudo file of a task. Its jobs end one by one, and after each change of the task it is looked
at again. The points are numbered by the task itself, in generations, where hpoRequestData says how many there are in
one; otherwise an optimiser adds them by its own numbers. What a point is, the payload asks the optimiser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.job_generation.kinds.event_service.failing import FailingJobSets
from services.job_generation.kinds.event_service.making import (
    MakingJobSets,
    WantedJob,
    insert_sets,
    owned_secondaries,
)
from services.job_generation.kinds.event_service.policy.building import SetPlace
from services.job_generation.kinds.event_service.policy.placing import has_high_priority, queues_of_set
from services.job_generation.kinds.event_service.refused import take_or_wait
from services.job_generation.kinds.event_service.store import job_set_ranges as store_ranges
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store.job_sets import JobSet, NewSet
from services.job_generation.kinds.merge.job import MERGEABLE
from services.job_generation.kinds.room import Steps
from services.job_generation.kinds.search import store as store_searches
from services.job_generation.kinds.search.job import EVALUATION
from services.job_generation.kinds.search.policy import SearchStep, next_step
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.outcomes import PAYLOAD, Ended
from services.job_generation.policy.values import PlacedJob, QueueFacts, Task
from services.job_generation.splitting.elsewhere import Elsewhere
from services.job_generation.splitting.placement import Placement
from services.job_generation.steps.doors import BrokeredChunk
from services.job_generation.store import counters as store_counters
from services.job_generation.store import tasks as store
from services.job_generation.store.tasks import Chunk, LockedTask
from services.job_generation.supplying.matching import take_more
from shared.db.unit_of_work import UnitOfWork
from shared.events import QueueChoice


class ServingSearches:
    """Takes the searches of a task whose row is locked as far as they can go."""

    def __init__(self, steps: Steps) -> None:
        self._making, self._job_sets, self._failing = steps.making, MakingJobSets(steps), FailingJobSets(steps)
        self._requesting = steps.requesting

    async def begin(
        self, work: UnitOfWork, at: BrokeredChunk, placed: Sequence[PlacedJob], changes: CounterChanges
    ) -> Sequence[int]:
        """Make a set that searches for each placed input, with its first jobs; the ids of these."""
        task, rules = at.task, at.task.rules
        ids = await work.next_ids("job_set_ids", len(placed))
        sets = [
            NewSet(job_set_id, [*one.job.master, *owned_secondaries(at.source, one.job)], [], {})
            for one, job_set_id in zip(placed, ids, strict=True)
        ]
        await insert_sets(work, task, at.chunk, sets, at.queues)
        elsewhere, wanted = Elsewhere(task, at.queues, placed), list[WantedJob]()
        for one, job_set_id in zip(placed, ids, strict=True):
            search = await store_searches.begin(work, task.task_id, job_set_id, one.job.master[0], rules)
            [row] = await store_sets.lock(work, [job_set_id])
            assert rules.most_jobs is not None
            step = next_step(search, row.state, most_jobs=rules.most_jobs, n_at_once=rules.n_consumers, makes_jobs=True)
            [jobs] = await take_more(work, task, [elsewhere.spread(one)[: max(1, step.n_jobs)]])
            wanted += [WantedJob(job, SetPlace(job_set_id, {})) for job in jobs]
            await store_searches.note_jobs(work, job_set_id, len(jobs))
        made = await self._job_sets.make(work, at.source, at.chunk, EVALUATION, wanted, changes, attempts={})
        await self._requesting.start_task(work, task, at.chunk)
        return made

    async def serve(self, work: UnitOfWork, held: LockedTask) -> int:
        """Make the jobs that are wanted, or end what is over; how many jobs."""
        ids = await store_searches.open_searches(work, held.task.task_id)
        await store_sets.lock_jobs_of_sets(work, ids)
        n_made = 0
        for one in await store_sets.lock(work, ids):
            n_made += await self._serve_one(work, held, one)
        return n_made

    async def _serve_one(self, work: UnitOfWork, held: LockedTask, one: JobSet) -> int:
        task, rules, set_id = held.task, held.task.rules, one.job_set_id
        members = (await store_sets.members_of_sets(work, [set_id])).get(set_id, [])
        assert rules.most_jobs is not None
        step = next_step(
            await store_searches.search_of(work, set_id),
            replace(one.state, n_live=len(members)),
            most_jobs=rules.most_jobs,
            n_at_once=rules.n_consumers,
            makes_jobs=task.status in MERGEABLE and task.status != "finishing",
        )
        if step.then == "make" and one.retry_at is not None and one.retry_at > work.now:
            return 0
        if step.then == "make":
            return await self._make(work, held, one, step)
        if step.then == "wait":
            if not members:
                await store_sets.change(work, set_id, "open", step.reason)
                await store.record_decision(work, task.task_id, "pass", step.reason)
            return 0
        await self._end(work, held, one, step)
        return 0

    async def _make(self, work: UnitOfWork, held: LockedTask, one: JobSet, step: SearchStep) -> int:
        """Jobs at the next of the ranked queues; where none is left, the input is brokered again."""
        definition = await self._making.source(work, held.task)
        queues, why = await self._queues(work, definition.task, one)
        if not queues:
            reason = f"job set {one.job_set_id} wants {step.n_jobs} jobs: {why}"
            if await self._failing.give_up(work, held, one.job_set_id, reason):
                await store.record_decision(work, held.task.task_id, "retry", reason[:4000])
            return 0
        job = await store_sets.input_of_set(work, one.job_set_id)
        queue = Elsewhere(held.task, queues).next_for(job, one.n_attempts - 1)
        assert queue is not None
        placement = Placement([PlacedJob(queue, job) for _ in range(step.n_jobs)])
        task = definition.task
        if not await take_or_wait(work, self._making, task, placement, EVALUATION, one.job_set_id):
            return 0
        wanted = [WantedJob(placed, SetPlace(one.job_set_id, {})) for placed in placement.jobs]
        chunk = Chunk(one.chunk_id, EVALUATION.name, job.master[0].dataset_id, None, len(job.master))
        changes = CounterChanges()
        attempts = {one.job_set_id: one.n_attempts}
        made = await self._job_sets.make(work, definition, chunk, EVALUATION, wanted, changes, attempts=attempts)
        await store_sets.own_input(work, one.job_set_id, made[0])
        await store_searches.note_jobs(work, one.job_set_id, len(wanted))
        await store_counters.apply(work, changes)
        why = f"{len(wanted)} jobs made at {queue.key}: {step.reason}"
        await store_sets.change(work, one.job_set_id, "open", why, attempts=1)
        return len(wanted)

    async def _queues(self, work: UnitOfWork, task: Task, one: JobSet) -> tuple[Sequence[QueueFacts], str]:
        unused = await store_sets.unused_at(work, one.job_set_id, EVALUATION.role)
        choices = [
            QueueChoice(queue=name, resource_type=resource_type, weight=1.0) for name, resource_type in one.queues
        ]
        found = queues_of_set(
            one.queues,
            await self._making.queues(work, task, choices),
            is_high=has_high_priority(task, is_scout=False),
            waited_in_vain=[queue for queue, timed_out in unused.items() if timed_out],
            is_search=True,
        )
        return found.usable, found.reason

    async def _end(self, work: UnitOfWork, held: LockedTask, one: JobSet, step: SearchStep) -> None:
        """The input is processed if any point was evaluated, else it failed; there is no other attempt."""
        task_id, set_id = held.task.task_id, one.job_set_id
        left = await store_ranges.ranges_of_set(work, task_id, set_id, ("ready",))
        unused = [point for point in left if point.attempt_nr > 0]
        await store_ranges.move_ranges(work, task_id, unused, "cancelled", step.reason)
        used_up = [point for point in left if point.attempt_nr == 0]
        await store_ranges.move_ranges(work, task_id, used_up, "fatal", "has no attempt left")
        has_result = step.then == "finish"
        await store_sets.change(work, set_id, "finished" if has_result else "failed", step.reason)
        await store_searches.end(work, set_id)
        ended = Ended("finished") if has_result else Ended("failed", PAYLOAD, is_last=True)
        changes = CounterChanges()
        await self._failing.end_input(work, held, set_id, ended, changes)
        await store_counters.apply(work, changes)
        await store.record_decision(work, task_id, "pass", step.reason)
