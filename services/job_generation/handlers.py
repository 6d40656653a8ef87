"""Events in, decisions, events out.

Every handler locks the task first; everything it does is a compare-and-set.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from services.job_generation.applying import Applying
from services.job_generation.compiling import Compiling
from services.job_generation.event_serving.deciding import DecidingCopies
from services.job_generation.event_serving.waiting import WaitingJobSets
from services.job_generation.merging import Merging
from services.job_generation.ordering import Rekeying
from services.job_generation.parameters import kept_for
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.kinds import (
    BUILD,
    CHUNKS_WANTED_WHILE,
    MERGE,
    MERGEABLE,
    NORMAL,
    PREPROCESS,
    SCOUT,
    kind_of,
)
from services.job_generation.policy.picking import GENERATING
from services.job_generation.policy.values import Task
from services.job_generation.preprocessing import Preprocessing
from services.job_generation.releasing import Releasing
from services.job_generation.settling import Settling
from services.job_generation.specification.job_source import Undefinable
from services.job_generation.store import held as store_held
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import jumbo as store_jumbo
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.event_ranges import discard_if_wanted
from services.job_generation.store.tasks import Chunk, LockedTask
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import (
    ChunkBrokered,
    ChunkUnplaceable,
    JobsEvent,
    QueueChoice,
    TaskCommanded,
    TaskEvent,
    TaskReady,
)
from shared.states import TASK
from shared.states.job import FINAL

SPECS_AT_ONCE = 50_000
BREAKABLE = frozenset(TASK.sources("tobroken", store.OWNER))


class MakingJobs(Protocol):
    """What makes the jobs of chunks of a kind."""

    async def generate(
        self, work: UnitOfWork, held: LockedTask, chunk: Chunk, candidates: Sequence[QueueChoice]
    ) -> int:
        """Jobs of a brokered chunk; what is not used is given back. How many. Raises Undefinable."""
        ...

    async def release(self, work: UnitOfWork, task: Task, chunk_id: int, changes: CounterChanges, reason: str) -> None:
        """Give back what the chunk took."""
        ...


class Handlers:
    """One method for each event and each periodic piece of work."""

    def __init__(
        self,
        parameters: Parameters,
        compiling: Compiling,
        merges: Merging,
        preprocessing: Preprocessing,
        applying: Applying,
        settling: Settling,
        rekeying: Rekeying,
        waiting_sets: WaitingJobSets,
    ) -> None:
        self._parameters, self._applying, self._settling, self._rekeying = parameters, applying, settling, rekeying
        self._makers: dict[str, MakingJobs] = {
            SCOUT.name: compiling,
            NORMAL.name: compiling,
            BUILD.name: compiling,
            MERGE.name: merges,
            PREPROCESS.name: preprocessing,
        }
        self.releasing = Releasing(settling, waiting_sets)
        self._waiting_sets, self.copies = waiting_sets, DecidingCopies(applying, settling)
        self._co_jumbo_after = store_jumbo.FIRST_SLICE

    async def on_task_ready(self, event: TaskReady, work: UnitOfWork) -> None:
        """A nucleus is known, or none is needed."""
        await self._look_at(event, work)

    async def on_task_jumbo_switched(self, event: TaskEvent, work: UnitOfWork) -> None:
        """Jumbo jobs were switched: the task's input may be used in another way from now on."""
        await self._look_at(event, work)

    async def on_task_points_opened(self, event: TaskEvent, work: UnitOfWork) -> None:
        """A search has points that nobody evaluates: more jobs may be made."""
        await self._look_at(event, work)

    async def _look_at(self, event: TaskEvent, work: UnitOfWork) -> None:
        held = await store.lock_task(work, event.task_id)
        if held is not None:
            await self._settling.settle(work, held, force=True)

    async def on_chunk_brokered(self, event: ChunkBrokered, work: UnitOfWork) -> None:
        """Queues are known: make jobs. A chunk that was withdrawn or used before changes nothing."""
        held = await store.lock_task(work, event.task_id)
        if held is None:
            return
        await _note_jumbo_queues(work, held.task, event.jumbo_queues)
        wanted = held.task.status in CHUNKS_WANTED_WHILE
        chunk = await store.end_chunk(work, event.chunk_id, event.task_id, "used", None) if wanted else None
        if chunk is None:
            if not await self._withdraw(work, held.task, only=event.chunk_id):
                return
        elif held.task.status in kind_of(chunk.kind).chunks_wanted_while:
            await self._make_jobs(work, held, chunk, event.candidates)
        else:
            await self._give_back(work, held.task, chunk, f"the task is {held.task.status}")
            await store.return_chunk(work, chunk.chunk_id, f"the task is {held.task.status}")
        await self._settle_again(work, event.task_id)

    async def _make_jobs(
        self, work: UnitOfWork, held: LockedTask, chunk: Chunk, candidates: Sequence[QueueChoice]
    ) -> None:
        """Jobs of a chunk; a task whose jobs cannot be defined is broken."""
        make = self._waiting_sets.place if chunk.is_for_waiting else self._makers[chunk.kind].generate
        try:
            if await make(work, held, chunk, candidates) == 0:
                await store.return_chunk(work, chunk.chunk_id, "no job was made of it")
        except Undefinable as error:
            reason = f"jobs cannot be defined: {error}"
            await self._give_back(work, held.task, chunk, reason[:1000])
            await store.return_chunk(work, chunk.chunk_id, reason[:1000])
            await store.record_decision(work, held.task.task_id, "broken", reason[:4000])
            if held.task.status in BREAKABLE:
                await store.move_task(work, held.task, "tobroken", reason=reason, keep=True)

    async def on_chunk_unplaceable(self, event: ChunkUnplaceable, work: UnitOfWork) -> None:
        """No queue passed: files go back; a task without anything else under way waits in pending."""
        held = await store.lock_task(work, event.task_id)
        if held is not None:
            await _note_jumbo_queues(work, held.task, event.jumbo_queues)
            places = await self._waiting_sets.places_of_jumbo(work, held, event.chunk_id, event.jumbo_queues or ())
            if places:
                await self._wait_for_jumbo(work, held, event, places)
                return
        chunk = await store.end_chunk(work, event.chunk_id, event.task_id, "returned", event.reason) if held else None
        if held is None or chunk is None:
            return
        await self._give_back(work, held.task, chunk, f"no queue for the chunk: {event.reason}"[:1000])
        task, kind = held.task, kind_of(chunk.kind)
        await store.record_decision(
            work,
            task.task_id,
            "unplaceable",
            event.reason[:4000],
            numbers={"decision_id": event.decision_id, "chunk_id": event.chunk_id},
            retry_at=event.retry_at,
        )
        only_memory_waits = chunk.ram_mb is not None and not kind.reads_outputs and task.status in GENERATING
        if only_memory_waits:
            await store_units.hold_chunk(work, chunk.chunk_id, event.retry_at)
            await self._settle_again(work, task.task_id)  # units that need less go on
        if task.status in kind.task_is_held_from and not await store.something_runs(work, task.task_id):
            retry_at = await self._earliest(work, task, event.retry_at) if only_memory_waits else event.retry_at
            await store.move_task(work, task, "pending", reason=event.reason, retry_at=retry_at, keep=True)
        elif only_memory_waits:
            return
        elif chunk.is_for_waiting:
            await self._waiting_sets.unplaceable(work, task, event.retry_at)
        elif kind.reads_outputs:
            await store_units.hold_chunk(work, chunk.chunk_id, event.retry_at)
        elif task.status in kind.chunks_wanted_while:
            await store.set_retry_at(work, task.task_id, event.retry_at)
        if task.status not in GENERATING or (task.rules.merge_output and not kind.reads_outputs):
            await self._settle_again(work, task.task_id)  # what was merged with its outputs waits for them no longer

    async def _wait_for_jumbo(
        self, work: UnitOfWork, held: LockedTask, event: ChunkUnplaceable, places: Sequence[QueueChoice]
    ) -> None:
        """No queue takes co-jumbo jobs, but jumbo jobs run, or may: the job sets wait for these."""
        chunk = await store.end_chunk(work, event.chunk_id, event.task_id, "used", None)
        assert chunk is not None
        await self._make_jobs(work, held, chunk, places)
        await store_held.wait_as_job_sets(work, event.task_id, event.chunk_id)
        await store.record_decision(
            work, event.task_id, "unplaceable", f"its events are left to jumbo jobs: {event.reason}"[:4000],
            numbers={"decision_id": event.decision_id, "chunk_id": event.chunk_id}, retry_at=event.retry_at,
        )  # fmt: skip
        await self._settle_again(work, event.task_id)

    async def _earliest(self, work: UnitOfWork, task: Task, retry_at: datetime) -> datetime:
        """This time, or that of the task's other units where these wait for a shorter one: for their share."""
        held = await store.lock_task(work, task.task_id)
        others = held.retry_at if held is not None else None
        return min(retry_at, others) if others is not None and others > work.now else retry_at

    async def on_jobs_ended(self, event: JobsEvent, work: UnitOfWork) -> None:
        """Jobs finished, failed, expired or wait to be merged: count them, whatever the event says they did."""
        await self._apply(work, event.job_ids)

    async def _apply(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        tasks = await store.lock_tasks(work, await store_results.tasks_of_jobs(work, job_ids))
        have_others = any(held.task.rules.jobs_end_others for held in tasks)
        lock_jobs = store_results.lock_jobs_with_producers if have_others else store_results.lock_jobs
        jobs = await lock_jobs(work, job_ids) if tasks else []
        changed = []
        for held in tasks:
            of_task = [job for job in jobs if job.task_id == held.task.task_id]
            ended = [job for job in of_task if job.status in FINAL or job.status == "merging"]
            if ended:
                await self._applying.apply(work, held, ended)
                changed.append(held.task.task_id)
        await self._settling.settle_all(work, changed)

    async def on_task_commanded(self, event: TaskCommanded, work: UnitOfWork) -> None:
        """A command took effect: withdraw what is not wanted any more, or go on.

        What counts is the task's state now.
        """
        held = await store.lock_task(work, event.task_id)
        if held is None:
            return
        if held.task.status not in GENERATING:
            await self._withdraw(work, held.task)
            await store_units.release_memory(work, event.task_id)
            await store_held.release_merges(work, event.task_id)
        if event.command == "retry":
            await discard_if_wanted(work, event.task_id)
        if event.command == "change_share":
            await self._rekeying.share_changed(work, event.task_id, held.task.vo)
        go = event.command == "avalanche"
        await self._settle_again(work, event.task_id, force=True, go=go)

    async def finish_co_jumbo_jobs(self, work: UnitOfWork) -> bool:
        """Periodic: co-jumbo jobs end for which no range is left; whether there are more of them.

        A range is left while a job has it, or while one may take it.
        """
        by_task, after = await store_jumbo.processed_sets(work, MERGEABLE, self._co_jumbo_after)
        changed = [
            held.task.task_id
            for held in await store.lock_tasks(work, sorted(by_task))
            if await self._applying.finish_co_jumbo(work, held, by_task[held.task.task_id])
        ]
        await self._settling.settle_all(work, changed)
        self._co_jumbo_after = after
        return after != store_jumbo.FIRST_SLICE

    async def archive(self, work: UnitOfWork) -> None:
        """Periodic: counted jobs leave the hot table."""
        limits = kept_for(self._parameters)
        before = work.now - timedelta(seconds=limits.archive_after_s)
        await store_jobs.archive(work, before, limits.archive_batch)

    async def forget_specs(self, work: UnitOfWork) -> None:
        """Periodic: texts of jobs that ended long ago are deleted."""
        limits = kept_for(self._parameters)
        before = work.now - timedelta(days=limits.keep_specs_days)
        await store_jobs.forget_specs(work, before, SPECS_AT_ONCE)

    async def _settle_again(self, work: UnitOfWork, task_id: int, *, force: bool = False, go: bool = False) -> None:
        """Read the task again: this transaction changed it."""
        held: LockedTask | None = await store.lock_task(work, task_id)
        if held is not None:
            await self._settling.settle(work, held, force=force, go=go)

    async def _withdraw(self, work: UnitOfWork, task: Task, *, only: int | None = None) -> int:
        """Take back offered chunks (or one), but no merges of a task that lets its jobs end; how many."""
        n_withdrawn = 0
        for chunk in await store.open_chunks(work, task.task_id):
            keeps = task.status in kind_of(chunk.kind).chunks_wanted_while
            if keeps or (only is not None and chunk.chunk_id != only):
                continue
            if await store.end_chunk(work, chunk.chunk_id, task.task_id, "returned", f"the task is {task.status}"):
                await self._give_back(work, task, chunk, f"the task is {task.status}")
                n_withdrawn += 1
        return n_withdrawn

    async def _give_back(self, work: UnitOfWork, task: Task, chunk: Chunk, reason: str) -> None:
        changes = CounterChanges()
        await self._makers[chunk.kind].release(work, task, chunk.chunk_id, changes, reason)
        await store.apply_counters(work, changes)


async def _note_jumbo_queues(work: UnitOfWork, task: Task, queues: Sequence[QueueChoice] | None) -> None:
    """Where jumbo jobs of the task may be, as the newest brokerage says it; None: no brokerage decided about them."""
    if task.uses_jumbo and queues is not None:
        await store_jumbo.note_queues(work, task.task_id, [(one.queue, one.resource_type) for one in queues])
