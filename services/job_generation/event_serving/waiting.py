"""Job sets that wait for real co-jumbo jobs (JEDI: Jumbo jobs and co-jumbo jobs).

Where only queues for jumbo jobs take the input of a task, its job sets are made all the same, each with one job that
waits without a queue: jumbo jobs process their events meanwhile. Queues for real co-jumbo jobs are asked for again and
again, in rounds over all sets; once there are some, these jobs take the place of those that waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from services.job_generation.applying import Applying
from services.job_generation.event_serving.making import MakingJobSets
from services.job_generation.generating import Generating
from services.job_generation.parameters import generation_parameters
from services.job_generation.policy.event_service.placing import left_to_jumbo
from services.job_generation.policy.kinds import MERGEABLE, kind_of
from services.job_generation.policy.picking import GENERATING
from services.job_generation.policy.values import Task
from services.job_generation.store import job_sets as store_sets
from services.job_generation.store import jumbo as store_jumbo
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store import waiting_sets as store_waiting
from services.job_generation.store.tasks import Chunk, LockedTask
from services.job_generation.throttle.waking import note_no_fit
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkOffered, QueueChoice


class WaitingJobSets:
    """Looks after the waiting job sets of a task whose row is locked."""

    def __init__(
        self, parameters: Parameters, generating: Generating, making: MakingJobSets, applying: Applying
    ) -> None:
        self._parameters, self._generating = parameters, generating
        self._making, self._applying = making, applying

    async def due(self, work: UnitOfWork, at_most: int) -> list[int]:
        """Tasks for whose sets queues are to be asked for again."""
        return await store_waiting.due_tasks(work, MERGEABLE, at_most)

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

    async def place(self, work: UnitOfWork, held: LockedTask, chunk: Chunk, candidates: Sequence[QueueChoice]) -> int:
        """Real co-jumbo jobs for sets that wait; for how many.

        They go to queues that are not for jumbo jobs; where jumbo jobs are off, to any. Sets that no queue takes wait
        for the next round; those behind them are asked for at once. Raises Undefinable.
        """
        task = held.task
        ranked = await self._generating.queues(work, task, candidates)
        queues = [one for one in ranked if not (task.uses_jumbo and one.runs_jumbo_jobs)]
        asked = await store_waiting.waiting_sets(work, task.task_id)
        if not queues:
            await store_waiting.note_asked(work, task.task_id, asked)
            await self._wait_on(work, task, chunk, left_to_jumbo(ranked))
            await store.return_chunk(work, chunk.chunk_id, left_to_jumbo(ranked)[:1000])
            return 0
        ids = await self._lock_waiting(work, task, asked.ids)
        if not ids:
            await store.return_chunk(work, chunk.chunk_id, "no job set waits any more")
            return 0
        sets = await store_sets.lock(work, ids)
        placed, why = await self._making.replace_waiting(work, held, sets, queues, ranked)
        await store_waiting.note_asked(work, task.task_id, asked)
        await store_waiting.ask_at(work, task.task_id, None)
        if placed:
            await self._applying.give_way(work, held, placed)
            await store.count_chunk_jobs(work, chunk.chunk_id, len(placed))
        left = [] if asked.more_follow else (await store_waiting.waiting_sets(work, task.task_id)).ids
        if left:
            why = why or "no queue took them in this round"
            await self._wait_on(work, task, chunk, f"{len(left)} or more job sets wait on: {why}")
        return len(placed)

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
        await note_no_fit(work, task.task_id, chunk.chunk_id, retry_at, self._generating.versions)

    async def places_of_jumbo(
        self, work: UnitOfWork, held: LockedTask, chunk_id: int, passed: Sequence[QueueChoice]
    ) -> list[QueueChoice]:
        """Queues whose jumbo jobs can process a chunk that no queue takes; none: it goes back.

        Those with jumbo jobs of the task; where there are none, those that `passed` the filters and may get some.
        """
        chunks = {one.chunk_id: one for one in await store.open_chunks(work, held.task.task_id)}
        chunk = chunks.get(chunk_id)
        if chunk is None or chunk.is_for_waiting or not kind_of(chunk.kind).may_wait_for_jumbo:
            return []
        if not held.task.uses_jumbo or held.task.status not in GENERATING:
            return []
        found = await store_waiting.queues_of_live_jumbo(work, held.task.task_id)
        return [QueueChoice(queue=name, resource_type=kind, weight=1.0) for name, kind in found] or list(passed)
