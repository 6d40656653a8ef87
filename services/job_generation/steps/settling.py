"""Settle what follows after a change: what each kind wants, more input, preparation, progress."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from services.job_generation.policy.picking import GENERATING
from services.job_generation.policy.values import Dataset, Task
from services.job_generation.steps.doors import NEWS, Kinds, Prompt
from services.job_generation.steps.offering import Offering
from services.job_generation.store import counters as store_counters
from services.job_generation.store import progress as store_progress
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.tasks import Chunk, LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, ChunkUnplaceable, TaskPrepared, TaskProgressed, TasksCounted
from shared.model.batches import batches
from shared.model.dataset_types import OUTPUT_TYPES
from shared.states.task import TaskStatus

#: tasks that were counted and not settled for so long are told again, so many at once
LEFT_AFTER_S, LEFT_AT_ONCE = 5.0, 100


class Settling:
    """Settles tasks where they were changed, and after ends of jobs were counted for them."""

    def __init__(self, offering: Offering, kinds: Kinds) -> None:
        self._offering, self._kinds = offering, kinds

    async def settle_all(
        self, work: UnitOfWork, task_ids: Sequence[int], *, force: bool = False, tell: bool = True
    ) -> None:
        """Tasks that were changed, in the order of their gates: no two transactions wait for each other.

        Gates of shares come first, in their order, then those of work queues that are throttled by themselves.
        No gate is held before all that changes the tasks is done.
        """
        held = await store.lock_tasks(work, task_ids) if task_ids else []
        if len(held) > 1:  # whoever counts takes datasets in order of id: so does who may pick files of several
            await store_counters.lock_datasets(work, task_ids)
        queues = {one.task.task_id: await self._offering.queue_with_gate(work, one.task) for one in held}
        later = list[LockedTask]()
        for one in sorted(held, key=lambda one: (one.task.gshare, one.task.resource_type, one.task.task_id)):
            if queues[one.task.task_id] is None:
                await self.settle(work, one, Prompt(force=force), tell=tell)
            else:
                await self._offering.hold_share(work, one.task)
                later.append(one)
        for one in sorted(
            later, key=lambda one: (queues[one.task.task_id] or 0, one.task.resource_type, one.task.task_id)
        ):
            await self.settle(work, one, Prompt(force=force), tell=tell)

    async def settle_later(self, work: UnitOfWork, task_ids: Sequence[int]) -> None:
        """Have tasks settled of which ends of jobs are counted here, once for many of these."""
        await store_progress.mark_dirty(work, task_ids)
        for some in batches(task_ids, IDS_OF_EVENT):
            work.emit(TasksCounted(task_ids=tuple(some)))

    async def settle_left(self, work: UnitOfWork) -> None:
        """Tell tasks again, each alone, that nobody settled: their event was lost or put aside."""
        for task_id in await store_progress.left_dirty(work, LEFT_AFTER_S, LEFT_AT_ONCE):
            work.emit(TasksCounted(task_ids=(task_id,)))

    async def settle_counted(self, work: UnitOfWork, task_ids: Sequence[int]) -> None:
        """Settle tasks of which jobs were counted; where nothing follows yet, tell what is news."""
        if not task_ids:
            return
        await store_progress.take_dirty(work, task_ids)
        due = []
        for one in await store_progress.progress(work, task_ids):
            if not one.is_quiet:
                due.append(one.task_id)
                continue
            if one.is_seen:
                continue
            files = (one.files_finished, one.files_failed, one.files_total)
            work.emit(_progressed(one.task_id, one.status, files, one.live_jobs))
        await self.settle_all(work, due)

    async def settle(self, work: UnitOfWork, held: LockedTask, prompt: Prompt = NEWS, *, tell: bool = True) -> None:
        """Take the task as far as it can go now; `tell`: announce progress."""
        n_offered = 0
        for kind in self._kinds:
            wanted = await kind.follows(work, held, prompt)
            n_offered += wanted.n_offered
            if wanted.has_moved:
                held = await self._again(work, held)
        # last, because from here to the commit the gate of the task's share is held
        n_offered += await self._offering.offer(work, held, force=prompt.force)
        datasets = await store.datasets(work, held.task.task_id)
        if any(one.is_processed and one.status == "ready" for one in datasets):
            await store_units.end_processed_inputs(work, held.task.task_id)
        if not n_offered and await self._is_worked_on(work, held.task, datasets):
            await self._prepare(work, held.task, datasets)
            held = await self._again(work, held)
        elif not n_offered and await self._wait_openly(work, held, datasets):
            held = await self._again(work, held)
        if tell or held.task.status in ("defined", "registered"):
            await self.tell(work, held.task, datasets)

    async def settle_again(self, work: UnitOfWork, task_id: int, prompt: Prompt = NEWS) -> None:
        """Read the task again, for this transaction changed it, and settle it."""
        held = await store.lock_task(work, task_id)
        if held is not None:
            await self.settle(work, held, prompt)

    async def wait_for_queue(self, work: UnitOfWork, task: Task, chunk: Chunk, event: ChunkUnplaceable) -> None:
        """What was in a chunk waits for a queue: the task, a part of it, or what its kind does by itself."""
        kind, retry_at = self._kinds.job(chunk.kind), event.retry_at
        only_memory_waits = chunk.ram_mb is not None and not kind.reads_outputs and task.status in GENERATING
        if only_memory_waits:
            await store_units.hold_chunk(work, chunk.chunk_id, retry_at)
            await self.settle_again(work, task.task_id)  # units that need less go on
        if task.status in kind.task_is_held_from and not await store.something_runs(work, task.task_id):
            until = await self._earliest(work, task, retry_at) if only_memory_waits else retry_at
            await store.move_task(work, task, "pending", reason=event.reason, retry_at=until, keep=True)
        elif only_memory_waits:
            return
        elif kind.reads_outputs:
            await store_units.hold_chunk(work, chunk.chunk_id, retry_at)
        elif chunk.is_for_waiting:
            for one in self._kinds:
                await one.sets_wait(work, task, retry_at)
        elif task.status in kind.chunks_wanted_while:
            await store.set_retry_at(work, task.task_id, retry_at)
        if task.status not in GENERATING or (task.rules.merge_output and not kind.reads_outputs):
            await self.settle_again(work, task.task_id)  # what was merged with its outputs waits for them no longer

    async def _earliest(self, work: UnitOfWork, task: Task, retry_at: datetime) -> datetime:
        """This time, or that of the task's other units where these wait for a shorter one: for their share."""
        held = await store.lock_task(work, task.task_id)
        others = held.retry_at if held is not None else None
        return min(retry_at, others) if others is not None and others > work.now else retry_at

    async def _again(self, work: UnitOfWork, held: LockedTask) -> LockedTask:
        """The task as it is now."""
        return (await store.lock_tasks(work, [held.task.task_id]))[0]

    async def tell(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> None:
        """Announce progress with the counters of the masters."""
        masters = [dataset for dataset in datasets if dataset.is_master]
        n_files = (
            sum(one.n_files_finished for one in masters),
            sum(one.n_files_failed for one in masters),
            sum(one.n_files for one in masters),
        )
        work.emit(_progressed(task.task_id, task.status, n_files, await store.live_jobs(work, task.task_id)))

    async def _is_worked_on(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> bool:
        """Whether every unit of the masters ended and nothing is under way. A ready task may have had nothing to do."""
        if task.status not in ("running", "ready"):
            return False
        masters = [dataset for dataset in datasets if dataset.is_master]
        if any(one.n_files_used > one.n_files_ended for one in masters):
            return False
        if any(one.status == "toupdate" for one in masters):
            return False  # the catalogue is asked for more
        if await store_units.has_unfinished_input(work, [one.dataset_id for one in masters]):
            return False
        if await store_units.is_being_reopened(work, task.task_id):
            return False  # later slices may bring units that were given up
        return await store.live_jobs(work, task.task_id) == 0

    async def _wait_openly(self, work: UnitOfWork, held: LockedTask, datasets: Sequence[Dataset]) -> bool:
        """A task of which nothing runs any more, and whose input found no place, waits in pending and says why.

        One that waits for its share only has found nothing wrong: it stays as it is. One that lacks secondary files is
        cut again at once: jobs that failed may have given some back, and without any it may end.
        """
        task = held.task
        masters = [dataset for dataset in datasets if dataset.is_master]
        if task.status not in GENERATING or any(one.n_files_used > one.n_files_ended for one in masters):
            return False
        found = await store_units.why_it_waits(work, task.task_id)
        if found is None or found.outcome == "throttled" or await store.something_runs(work, task.task_id):
            return False
        if found.ran_out and await self._offering.offer(work, held, force=True):
            return False
        return await store.move_task(work, task, "pending", reason=found.reason, retry_at=found.retry_at, keep=True)

    async def _prepare(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> None:
        """Nothing is left to do: outputs are complete, the final status can be decided.

        A task that runs until its input is closed does not end before: its definition looks at the open input again.
        """
        if task.rules.runs_until_closed and any(one.is_master and one.is_open for one in datasets):
            await store.move_task(work, task, "defined", reason="all input was worked on, but it is still open")
            return
        await store.move_datasets(work, task.task_id, OUTPUT_TYPES, "prepared", "no more files will be added")
        if await store.move_task(work, task, "prepared", reason="all input was worked on"):
            work.emit(TaskPrepared(task_id=task.task_id))


def _progressed(task_id: int, status: TaskStatus, files: tuple[int, int, int], live_jobs: int) -> TaskProgressed:
    """What is told of a task: files finished, failed and in all, of its masters."""
    finished, failed, total = files
    return TaskProgressed(
        task_id=task_id,
        status=status,
        files_finished=finished,
        files_failed=failed,
        files_total=total,
        live_jobs=live_jobs,
    )
