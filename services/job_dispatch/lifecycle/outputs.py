"""Jobs whose outputs are registered or arrived: load what decides, decide (`policy.outputs`), commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_dispatch.lifecycle.transitions import Lifecycle
from services.job_dispatch.policy.outputs import HoldingJob, plan_outputs
from services.job_dispatch.policy.reports import Blame
from services.job_dispatch.store.jobs import LockedJob, NewTransfer, Store, StoredReport, TaskOfJobs
from shared.brokerage.nuclei import destination_storage
from shared.db.unit_of_work import UnitOfWork
from shared.events import TransfersRequested
from shared.model.analysis import is_analysis
from shared.model.grid import Grid
from shared.model.job_report import JobReport
from shared.snapshot import KnownGrid

NO_STORAGE = 103


class Outputs:
    """The way from `holding` to the end."""

    def __init__(self, store: Store, lifecycle: Lifecycle, grid: KnownGrid) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._grid = grid

    async def registered(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """Move holding jobs whose outputs the catalogue knows: merging, transferring or finished.

        Failed ones move when it knows their log.
        """
        locked = await self._store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "holding"}
        if not jobs:
            return
        grid = await self._grid.grid(work.connection)
        tasks = await self._store.task_facts(work.connection, [job.row.task_id for job in jobs.values()])
        reports = await self._store.stored_reports(work.connection, sorted(jobs))
        failed = [job_id for job_id in sorted(jobs) if job_id in reports and reports[job_id].state == "failed"]
        plan = plan_outputs(
            [
                holding_job(grid, job, tasks[job.row.task_id], reports.get(job.job_id))
                for job in jobs.values()
                if job.job_id not in failed
            ]
        )
        move = self._lifecycle.to
        await move(work, jobs, failed, "failed", reason="reported by the pilot; its log is registered")
        await move(work, jobs, [one.job_id for one in plan.merge], "merging", reason="outputs will be merged")
        await move(work, jobs, [one.job_id for one in plan.finish], "finished", reason="outputs are registered")
        await self._transfer(work, jobs, plan.transfer)

    async def _transfer(self, work: UnitOfWork, jobs: Mapping[int, LockedJob], leaving: Sequence[HoldingJob]) -> None:
        ids = [one.job_id for one in leaving]
        await self._lifecycle.to(work, jobs, ids, "transferring", reason="outputs must go where they are kept")
        new = [
            NewTransfer(
                one.task_id,
                one.job_id,
                one.activity,
                one.queue_storage,
                one.kept_at or "",
                one.n_files,
                one.n_bytes,
            )
            for one in leaving
        ]
        transfer_ids = await self._store.insert_transfers(work.connection, new, "output")
        if transfer_ids:
            work.emit(TransfersRequested(transfer_ids=tuple(transfer_ids)))

    async def without_storage(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """Holding jobs whose outputs are at no storage that is known: they cannot be read."""
        locked = await self._store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "holding"}
        blames = {
            job_id: Blame("dispatch", NO_STORAGE, f"queue {job.row.queue} has no storage for output")
            for job_id, job in jobs.items()
        }
        await self._lifecycle.to(
            work, jobs, sorted(jobs), "failed", reason="its queue has no storage for output", blames=blames
        )

    async def arrived(self, work: UnitOfWork, jobs: Mapping[int, LockedJob]) -> None:
        """Transferring jobs whose outputs are all where they are kept."""
        await self._lifecycle.to(work, jobs, sorted(jobs), "finished", reason="outputs are where they are kept")


def holding_job(grid: Grid, job: LockedJob, task: TaskOfJobs, report: StoredReport | None) -> HoldingJob:
    """What decides where a job goes whose outputs are registered."""
    queue = grid.queues.get(job.row.queue)
    analysis = is_analysis(task.task_type, job.prod_source_label)
    destination = task.split_rule.get("destination") or task.nucleus
    kept_at = destination_storage(grid, destination) if destination is not None else None
    files = JobReport.from_stored(report.report).outputs if report is not None else ()
    return HoldingJob(
        job_id=job.job_id,
        task_id=job.row.task_id,
        job_type=job.job_type,
        task_merges=bool(task.split_rule.get("mergeOutput")),
        queue_site=queue.site if queue is not None else None,
        queue_storage=queue.output_storage(analysis=analysis) if queue is not None else None,
        kept_at_site=None if destination in grid.storages else destination,
        kept_at=kept_at.name if kept_at is not None else None,
        n_files=len(files),
        n_bytes=sum(one.size_bytes for one in files),
        is_urgent=task.is_urgent,
    )
