"""Job sets that wait for real co-jumbo jobs (JEDI: Jumbo jobs and co-jumbo jobs).

Where only queues for jumbo jobs take the input of a task, its job sets are made all the same, each with one job that
waits without a queue: jumbo jobs process their events meanwhile. Queues for real co-jumbo jobs are asked for again and
again, in rounds over all sets; once there are some, these jobs take the place of those that waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from services.job_generation.kinds.event_service.job import consumer
from services.job_generation.kinds.event_service.making import MakingJobSets, WantedJob
from services.job_generation.kinds.event_service.policy.building import SetPlace
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store import waiting_sets as store_waiting
from services.job_generation.kinds.event_service.store.job_sets import JobSet
from services.job_generation.kinds.jumbo.ending import EndingJumboJobs
from services.job_generation.kinds.jumbo.placing import left_to_jumbo
from services.job_generation.kinds.jumbo.store import jumbo as store_jumbo
from services.job_generation.kinds.room import Steps
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.picking import GENERATING
from services.job_generation.policy.values import PlacedJob, QueueFacts, Task
from services.job_generation.specification.kind_of_job import NORMAL
from services.job_generation.splitting.elsewhere import Elsewhere
from services.job_generation.splitting.placement import Placement
from services.job_generation.steps.doors import BrokeredChunk
from services.job_generation.store import counters as store_counters
from services.job_generation.store import held as store_held
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store.tasks import Chunk, LockedTask
from services.job_generation.supplying.matching import take_matches, take_more
from services.job_generation.throttle.waking import note_no_fit
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkOffered, QueueChoice


class WaitingJobSets:
    """Looks after the waiting job sets of a task whose row is locked."""

    def __init__(self, steps: Steps) -> None:
        self._parameters, self._making = steps.parameters, steps.making
        self._job_sets, self._ending = MakingJobSets(steps), EndingJumboJobs(steps)

    async def unplaceable(self, work: UnitOfWork, task: Task, retry_at: datetime) -> None:
        """No queue takes the sets: when others are asked for, beginning with the sets behind these."""
        await store_waiting.note_asked(work, task.task_id, await store_waiting.waiting_sets(work, task.task_id))
        await store_waiting.ask_at(work, task.task_id, retry_at)

    async def offer(self, work: UnitOfWork, held: LockedTask) -> int:
        """Ask for queues for sets that wait, at most one chunk of them at a time; how many sets.

        Not before the task's `co_jumbo_retry_at`. Their input passed the gate of its share before.
        """
        task = held.task
        if not task.rules.uses_event_service or task.use_jumbo is None or task.status not in GENERATING:
            return 0
        if held.co_jumbo_retry_at is not None:
            if held.co_jumbo_retry_at > work.now:
                return 0
            await store_waiting.forget_due(work, task.task_id)
        if any(chunk.is_for_waiting for chunk in await store.open_chunks(work, task.task_id)):
            return 0
        sets = (await store_waiting.waiting_sets(work, task.task_id)).ids
        if not sets:
            return 0
        [chunk_id] = await work.next_ids("chunk_ids", 1)
        if not await store_waiting.offer_for_sets(work, chunk_id, task.task_id, sets, priority=task.priority):
            return 0
        work.emit(ChunkOffered(chunk_id=chunk_id, task_id=task.task_id))
        return len(sets)

    async def place(self, work: UnitOfWork, at: BrokeredChunk) -> int:
        """Make real co-jumbo jobs for sets that wait; for how many.

        They go to queues that are not for jumbo jobs; where jumbo jobs are off, to any. Sets that no queue takes wait
        for the next round; those behind them are asked for at once. Raises Undefinable.
        """
        task, chunk = at.task, at.chunk
        queues = [one for one in at.queues if not (task.uses_jumbo and one.runs_jumbo_jobs)]
        asked = await store_waiting.waiting_sets(work, task.task_id)
        if not queues:
            await store_waiting.note_asked(work, task.task_id, asked)
            await self._wait_on(work, task, chunk, left_to_jumbo(at.queues))
            await store.return_chunk(work, chunk.chunk_id, left_to_jumbo(at.queues)[:1000])
            return 0
        ids = await self._lock_waiting(work, task, asked.ids)
        if not ids:
            await store.return_chunk(work, chunk.chunk_id, "no job set waits any more")
            return 0
        sets = await store_sets.lock(work, ids)
        placed, why = await self._replace(work, at, sets, queues)
        await store_waiting.note_asked(work, task.task_id, asked)
        await store_waiting.ask_at(work, task.task_id, None)
        if placed:
            await self._ending.give_way(work, at.held, placed)
            await store.count_chunk_jobs(work, chunk.chunk_id, len(placed))
        left = [] if asked.more_follow else (await store_waiting.waiting_sets(work, task.task_id)).ids
        if left:
            why = why or "no queue took them in this round"
            await self._wait_on(work, task, chunk, f"{len(left)} or more job sets wait on: {why}")
        return len(placed)

    async def _replace(
        self, work: UnitOfWork, at: BrokeredChunk, sets: Sequence[JobSet], queues: Sequence[QueueFacts]
    ) -> tuple[list[int], str]:
        """Real co-jumbo jobs at these of the ranked queues for sets that waited for some; the sets are locked.

        The others are kept for the jumbo jobs of the task. Returns which sets have some, and why others have none.
        """
        jobs, why = await self._placed(work, at.task, sets, queues)
        chunks: dict[tuple[int, str], list[JobSet]] = {}
        for one in sets:
            if one.job_set_id in jobs:
                chunks.setdefault((one.chunk_id, one.kind), []).append(one)
        names = [(one.queue, one.resource_type) for one in at.queues]
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
            await self._job_sets.make(work, at.source, chunk, consumer(kind), wanted, changes, attempts=attempts)
        await store_counters.apply(work, changes)
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

    async def ask_later(self, work: UnitOfWork, task: Task, reason: str) -> None:
        """Other queues are asked for later; why, the task says. Its other input goes on."""
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        retry_at = work.now + timedelta(seconds=limits.unsplittable_retry_s)
        await store_waiting.ask_by(work, task.task_id, retry_at)
        await store.record_decision(work, task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)
        await note_no_fit(work, task.task_id, None, retry_at, self._making.versions, part=(store_held.JOB_SETS, ""))

    async def _lock_waiting(self, work: UnitOfWork, task: Task, ids: list[int]) -> list[int]:
        """Those that wait; their jobs are locked, so that none of these ends before real jobs take its place."""
        if not ids:
            return []
        await store_results.lock_jobs(work, await store_jumbo.jobs_of_sets(work, ids))
        still = set((await store_waiting.waiting_sets(work, task.task_id)).ids)
        return [one for one in ids if one in still]

    async def _wait_on(self, work: UnitOfWork, task: Task, chunk: Chunk, reason: str) -> None:
        """The sets wait on: why, for what, and until when at most."""
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        retry_at = work.now + timedelta(seconds=limits.unsplittable_retry_s)
        await store.record_decision(work, task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)
        await store_waiting.ask_at(work, task.task_id, retry_at)
        await note_no_fit(work, task.task_id, chunk.chunk_id, retry_at, self._making.versions)

    async def places_of_jumbo(
        self, work: UnitOfWork, held: LockedTask, chunk_id: int, passed: Sequence[QueueChoice]
    ) -> list[QueueChoice]:
        """Queues whose jumbo jobs can process a chunk that no queue takes; none: it goes back.

        Those with jumbo jobs of the task; where there are none, those that `passed` the filters and may get some.
        """
        chunks = {one.chunk_id: one for one in await store.open_chunks(work, held.task.task_id)}
        chunk = chunks.get(chunk_id)
        if chunk is None or chunk.is_for_waiting or chunk.kind != NORMAL.name:
            return []
        if not held.task.uses_jumbo or held.task.status not in GENERATING:
            return []
        found = await store_waiting.queues_of_live_jumbo(work, held.task.task_id)
        return [QueueChoice(queue=name, resource_type=kind, weight=1.0) for name, kind in found] or list(passed)
