"""What follows for a task after a change: scouts, more input, merges, preparation, progress.

Scouts are judged, more input or merges are offered, preparation and progress are told.
"""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.event_serving.jumbo import MakingJumboJobs
from services.job_generation.event_serving.serving import ServingJobSets
from services.job_generation.event_serving.waiting import WaitingJobSets
from services.job_generation.merging import Merging
from services.job_generation.offering import Offering
from services.job_generation.policy.picking import GENERATING
from services.job_generation.policy.values import Dataset, Task
from services.job_generation.preprocessing import Preprocessing
from services.job_generation.scouts.scouting import Scouting
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store import waiting_sets as store_waiting
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskPrepared, TaskProgressed
from shared.model.dataset_types import OUTPUT_TYPES


class Settling:
    """Runs at the end of every transaction that changed a task."""

    def __init__(
        self,
        scouting: Scouting,
        offering: Offering,
        merges: Merging,
        job_sets: ServingJobSets,
        jumbo_jobs: MakingJumboJobs,
        waiting_sets: WaitingJobSets,
        preprocessing: Preprocessing,
    ) -> None:
        self._scouting, self._offering, self._merges = scouting, offering, merges
        self._job_sets, self._jumbo_jobs, self._waiting_sets = job_sets, jumbo_jobs, waiting_sets
        self._preprocessing = preprocessing

    async def settle_all(
        self, work: UnitOfWork, task_ids: Sequence[int], *, force: bool = False, tell: bool = True
    ) -> None:
        """Tasks that were changed, in the order of their gates: no two transactions wait for each other.

        Gates of shares come first, in their order, then those of work queues that are throttled by themselves.
        No gate is held before all that changes the tasks is done.
        """
        held = await store.lock_tasks(work, task_ids) if task_ids else []
        queues = {one.task.task_id: await self._offering.queue_with_gate(work, one.task) for one in held}
        later = list[LockedTask]()
        for one in sorted(held, key=lambda one: (one.task.gshare, one.task.resource_type, one.task.task_id)):
            if queues[one.task.task_id] is None:
                await self.settle(work, one, force=force, tell=tell)
            else:
                await self._offering.hold_share(work, one.task)
                later.append(one)
        for one in sorted(
            later, key=lambda one: (queues[one.task.task_id] or 0, one.task.resource_type, one.task.task_id)
        ):
            await self.settle(work, one, force=force, tell=tell)

    async def settle(
        self, work: UnitOfWork, held: LockedTask, *, force: bool = False, tell: bool = True, go: bool = False
    ) -> None:
        """Take the task as far as it can go now.

        `force`: offer input although its `retry_at` has not come. `tell`: announce progress. `go`: end the scouting
        whatever the scouts say (the avalanche command).
        """
        if await self._scouting.look(work, held, go=go):
            held = await self._again(work, held)
        elif held.task.status == "scouted":
            await store_units.open_all_files(work, held.task.task_id)
            await store.move_task(work, held.task, "running", reason="all input opened")
            held = await self._again(work, held)
        elif await self._preprocessing.look(work, held, force=force):
            held = await self._again(work, held)
        n_offered = await self._merges.offer(work, held)
        n_offered += await self._job_sets.serve(work, held)
        n_offered += await self._jumbo_jobs.serve(work, held)
        n_offered += await self._waiting_sets.offer(work, held)
        # last, because from here to the commit the gate of the task's share is held
        n_offered += await self._offering.offer(work, held, force=force)
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

    async def go_on_with_sets(self, work: UnitOfWork, held: LockedTask) -> None:
        """The time has come for which the job sets of a task, or its jumbo jobs, waited."""
        await store_waiting.release_sets(work, held.task.task_id)
        held = await self._again(work, held)
        await self._waiting_sets.offer(work, held)
        await self._job_sets.serve(work, held)
        await self._jumbo_jobs.serve(work, held)

    async def _again(self, work: UnitOfWork, held: LockedTask) -> LockedTask:
        """The task as it is now."""
        return (await store.lock_tasks(work, [held.task.task_id]))[0]

    async def tell(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> None:
        """Announce progress with the counters of the masters."""
        masters = [dataset for dataset in datasets if dataset.is_master]
        work.emit(
            TaskProgressed(
                task_id=task.task_id,
                status=task.status,
                files_finished=sum(one.n_files_finished for one in masters),
                files_failed=sum(one.n_files_failed for one in masters),
                files_total=sum(one.n_files for one in masters),
                live_jobs=await store.live_jobs(work, task.task_id),
            )
        )

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
