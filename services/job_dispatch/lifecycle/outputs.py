"""Jobs whose outputs are registered or arrived: load what decides, decide (`policy.outputs`), commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_dispatch.lifecycle.transitions import move_jobs
from services.job_dispatch.policy.outputs import HeldOutput, HoldingJob, OutputTransfer, plan_outputs
from services.job_dispatch.policy.reports import Blame, name_taken
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.jobs import JobOutput, LockedJob, NewTransfer, StoredReport, TaskOfJobs
from shared.brokerage.output_places import kept_storage, must_move, storage_of_file
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, OutputsProduced, TransfersRequested
from shared.model.analysis import is_analysis
from shared.model.batches import batches
from shared.model.grid import Grid
from shared.model.job_report import JobReport, ReportedFile
from shared.snapshot import KnownGrid

NO_STORAGE, CLOSED_DATASET = 103, 104


class Outputs:
    """The way from `holding` to the end."""

    def __init__(self, grid: KnownGrid) -> None:
        self._grid = grid

    async def registered(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """Move holding jobs whose outputs the catalogue knows: merging, transferring or finished.

        Failed ones move when it knows their log.
        """
        locked = await store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "holding"}
        if not jobs:
            return
        grid = await self._grid.grid(work.connection)
        tasks = await store.task_facts(work.connection, [job.row.task_id for job in jobs.values()])
        reports = await store.stored_reports(work.connection, sorted(jobs))
        failed = [job_id for job_id in sorted(jobs) if job_id in reports and reports[job_id].state == "failed"]
        ended = [job for job_id, job in sorted(jobs.items()) if job_id not in failed]
        outputs = await store.outputs_of_jobs(work.connection, [job.job_id for job in ended])
        plan = plan_outputs(
            [
                holding_job(grid, job, tasks[job.row.task_id], reports.get(job.job_id), outputs.get(job.job_id, ()))
                for job in ended
            ]
        )
        await move_jobs(work, jobs, failed, "failed", reason="reported by the pilot; its log is registered")
        await move_jobs(work, jobs, [one.job_id for one in plan.merge], "merging", reason="outputs will be merged")
        await move_jobs(work, jobs, [one.job_id for one in plan.finish], "finished", reason="outputs are registered")
        await move_jobs(
            work,
            jobs,
            [one.job_id for one in plan.transfer],
            "transferring",
            reason="outputs must go where they are kept",
        )
        await self._transfer(work, plan.transfers)

    async def _transfer(self, work: UnitOfWork, transfers: Sequence[OutputTransfer]) -> None:
        new = [
            NewTransfer(
                one.job.task_id,
                one.job.job_id,
                one.job.activity,
                one.source,
                one.destination,
                one.n_files,
                one.n_bytes,
                one.dataset_ids,
            )
            for one in transfers
        ]
        transfer_ids = await store.insert_transfers(work.connection, new, "output")
        for some in batches(tuple(transfer_ids), IDS_OF_EVENT):
            work.emit(TransfersRequested(transfer_ids=some))

    async def without_storage(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """End holding jobs whose outputs are at no storage that is known: they cannot be read."""
        locked = await store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "holding"}
        blames = {
            job_id: Blame("dispatch", NO_STORAGE, f"queue {job.row.queue} has no storage for output")
            for job_id, job in jobs.items()
        }
        await move_jobs(work, jobs, sorted(jobs), "failed", reason="its queue has no storage for output", blames=blames)

    async def refused(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """End holding jobs whose datasets take no files any more: nobody would find what they wrote.

        These attempts count, as no closed dataset opens by itself: the catalogue refuses what is tried again, too.
        """
        locked = await store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "holding"}
        gone = "a dataset of its output is closed, or not there any more"
        reason = f"{gone}: its task needs another output dataset"
        blames = dict.fromkeys(jobs, Blame("catalogue", CLOSED_DATASET, reason))
        await move_jobs(work, jobs, sorted(jobs), "failed", reason=reason, blames=blames)

    async def names_taken(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """End holding jobs whose files have names of others; of these the log alone is registered."""
        locked = await store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "holding"}
        taken: dict[int, list[str]] = {job_id: [] for job_id in sorted(jobs)}
        for row in await store.taken_names(work.connection, sorted(jobs)):
            taken[row["job_id"]].append(row["lfn"])
        blames = {job_id: name_taken(names) for job_id, names in taken.items()}
        reason = "its files have names that others have"
        await move_jobs(work, jobs, sorted(jobs), "failed", reason=reason, blames=blames)
        for some in batches(sorted(jobs), IDS_OF_EVENT):
            work.emit(OutputsProduced(job_ids=tuple(some)))

    async def arrived(self, work: UnitOfWork, jobs: Mapping[int, LockedJob]) -> None:
        """End transferring jobs whose outputs are all where they are kept."""
        await move_jobs(work, jobs, sorted(jobs), "finished", reason="outputs are where they are kept")


def holding_job(
    grid: Grid, job: LockedJob, task: TaskOfJobs, report: StoredReport | None, outputs: Sequence[JobOutput]
) -> HoldingJob:
    """What decides where a job goes whose outputs are registered: those of them that its pilot listed."""
    found = {one.lfn: one for one in JobReport.from_stored(report.report).outputs} if report is not None else {}
    held = []
    for one in outputs:
        if one.lfn in found:
            held.append(_held(grid, job, task, one, found[one.lfn]))
    return HoldingJob(
        job_id=job.job_id,
        task_id=job.row.task_id,
        job_type=job.job_type,
        task_merges=task.event_service == 1 or task.rules.merge_output,
        outputs=tuple(held),
        is_urgent=task.is_urgent,
    )


def _held(grid: Grid, job: LockedJob, task: TaskOfJobs, output: JobOutput, found: ReportedFile) -> HeldOutput:
    """One file: where it is, and where its dataset is kept."""
    analysis = is_analysis(task.task_type, job.prod_source_label)
    queue, of_task = job.row.queue, task.rules.destination or task.nucleus
    written_at = storage_of_file(grid, queue, found.storage, output.token, analysis=analysis)
    kept = kept_storage(grid, output.token, output.destination, of_task)
    moves = must_move(grid, queue, written_at, kept, output.token, output.destination or of_task)
    return HeldOutput(
        output.dataset_id, found.size_bytes, written_at, kept.name if moves and kept is not None else None
    )
