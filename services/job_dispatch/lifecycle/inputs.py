"""Handles jobs that were generated, or whose input arrived: load, decide (`policy.inputs`), commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from services.job_dispatch.lifecycle.cap_room import CapRoom
from services.job_dispatch.lifecycle.transitions import move_jobs
from services.job_dispatch.policy.inputs import InputNeed, JobAtQueue, plan_inputs
from services.job_dispatch.policy.reports import Blame
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.jobs import LockedJob, NewTransfer, TaskOfJobs
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, TransfersRequested
from shared.model.analysis import is_analysis
from shared.model.batches import batches
from shared.model.grid import Grid
from shared.snapshot import KnownGrid
from shared.states.task import TaskStatus

TRANSFER_FAILED = 101


class Inputs:
    """The way from `defined` to `activated`."""

    def __init__(self, grid: KnownGrid, room: CapRoom) -> None:
        self._room = room
        self._grid = grid

    async def settle(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """Activate generated jobs whose input is at their queue, ask for the input of the others."""
        locked = await store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "defined"}
        if not jobs:
            return
        grid = await self._grid.grid(work.connection)
        tasks = await store.task_facts(work.connection, [job.row.task_id for job in jobs.values()])
        needs = await self._needs(work, jobs, grid)
        plan = plan_inputs(
            [
                JobAtQueue(
                    job.job_id,
                    job.row.task_id,
                    _status(tasks, job),
                    analysis := _is_analysis(tasks, job),
                    _destination(grid, job.row.queue, analysis=analysis),
                    is_urgent=job.row.task_id in tasks and tasks[job.row.task_id].is_urgent,
                )
                for job in jobs.values()
            ],
            needs,
        )
        await self._activate(work, jobs, plan.activate, "input is at the queue or not needed")
        await move_jobs(work, jobs, plan.throttle, "throttled", reason="task paused")
        blames = dict.fromkeys(plan.cancel, Blame("user", 100, "task killed"))
        await move_jobs(work, jobs, plan.cancel, "cancelled", reason="task killed", blames=blames)
        await move_jobs(work, jobs, plan.assign, "assigned", reason="input must be moved")
        new = [
            NewTransfer(
                one.job.task_id,
                one.job.job_id,
                one.activity,
                one.need.source_storage,
                one.job.destination or "",
                one.need.n_files,
                one.need.n_bytes,
            )
            for one in plan.transfers
        ]
        transfer_ids = await store.insert_transfers(work.connection, new, "input")
        for some in batches(tuple(transfer_ids), IDS_OF_EVENT):
            work.emit(TransfersRequested(transfer_ids=some))

    async def _needs(self, work: UnitOfWork, jobs: Mapping[int, LockedJob], grid: Grid) -> list[InputNeed]:
        queues = {job.row.queue for job in jobs.values()} & grid.queues.keys()
        storages = {queue: _local_storages(grid, queue) for queue in queues}
        rows = await store.input_facts(work.connection, sorted(jobs), storages)
        return [
            InputNeed(
                row["job_id"],
                row["dataset_id"],
                row["n_files"],
                row["n_bytes"],
                row["complete_here"] or row["n_files_here"] >= row["n_files"],
                best_source(grid, row["complete_at"], row["partly_at"]),
            )
            for row in rows
        ]

    async def arrived(self, work: UnitOfWork, jobs: Mapping[int, LockedJob]) -> None:
        """Activate assigned jobs whose transfers are all done; hold them back while their task is paused."""
        tasks = await store.task_facts(work.connection, [job.row.task_id for job in jobs.values()])
        paused = {job_id for job_id, job in jobs.items() if _status(tasks, job) == "paused"}
        ready = sorted(set(jobs) - paused)
        await self._activate(work, jobs, ready, "input arrived")
        await move_jobs(work, jobs, sorted(paused), "throttled", reason="task paused")

    async def _activate(
        self, work: UnitOfWork, jobs: Mapping[int, LockedJob], job_ids: Sequence[int], reason: str
    ) -> None:
        """Activate those for which the caps of their user or group have room; the others wait."""
        rooms = await self._room.of_new_jobs(work, {jobs[job_id].row.task_id for job_id in job_ids})
        held = {one for one in job_ids if (room := rooms.get(jobs[one].row.task_id)) and not room.takes_one()}
        go_on = [one for one in job_ids if one not in held]
        await move_jobs(work, jobs, go_on, "activated", reason=reason)
        await move_jobs(work, jobs, sorted(held), "throttled", reason="its user or group runs too many jobs")

    async def lost(self, work: UnitOfWork, jobs: Mapping[int, LockedJob]) -> None:
        """End jobs whose input or output cannot be moved."""
        blames = {job_id: Blame("dispatch", TRANSFER_FAILED, "its data cannot be moved") for job_id in jobs}
        await move_jobs(work, jobs, sorted(jobs), "failed", reason="its data cannot be moved", blames=blames)


def _status(tasks: Mapping[int, TaskOfJobs], job: LockedJob) -> TaskStatus | None:
    task = tasks.get(job.row.task_id)
    return task.status if task is not None else None


def _is_analysis(tasks: Mapping[int, TaskOfJobs], job: LockedJob) -> bool:
    task = tasks.get(job.row.task_id)
    return is_analysis(task.task_type if task is not None else None, job.prod_source_label)


def best_source(grid: Grid, complete_at: Iterable[str], partly_at: Iterable[str]) -> str | None:
    """The storage that missing input is read from: whole copies first, then disk, then not blacklisted."""
    copies = [(name, False) for name in complete_at] + [(name, True) for name in partly_at]
    ranked = (
        (partly, storage.is_tape, storage.blacklisted_read, name)
        for name, partly in copies
        if (storage := grid.storages.get(name)) is not None
    )
    best = min(ranked, default=None)
    return best[-1] if best is not None else None


def _local_storages(grid: Grid, queue: str) -> tuple[str, ...]:
    """Everything on disk at the queue's site, and what the queue is configured to read."""
    known = grid.queues[queue]
    configured = {name for analysis in (False, True) for name in known.storages("read", analysis=analysis)}
    return tuple(sorted(configured.union(grid.disks_of_site.get(known.site, ()))))


def _destination(grid: Grid, queue: str, *, analysis: bool) -> str | None:
    """Where input of a job goes; None where it is read remotely.

    It is the first storage the queue reads that works, the first if none does (brokerage sends no work there; a job
    that was sent before waits for it).
    """
    known = grid.queues.get(queue)
    first = known.input_storage(analysis=analysis) if known is not None else None
    if known is None or first is None:
        return None
    works = (name for name in known.storages("read", analysis=analysis) if _is_readable(grid, name))
    return next(works, first)


def _is_readable(grid: Grid, name: str) -> bool:
    storage = grid.storages.get(name)
    return storage is None or storage.works("read_lan")
