"""Jobs whose outputs are registered or arrived: load what decides, decide (`policy.outputs`), commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_dispatch.inputs import cric_queue
from services.job_dispatch.lifecycle import Lifecycle
from services.job_dispatch.policy.inputs import ANALYSIS_LABELS
from services.job_dispatch.policy.outputs import PRODUCTION_OUTPUT, HoldingJob, plan_outputs
from services.job_dispatch.store import LockedJob, NewTransfer, QueuePlace, Store, StoredReport, TaskFacts
from shared.db.unit_of_work import UnitOfWork
from shared.events import TransfersRequested
from shared.model.job_report import JobReport


class Outputs:
    """The way from `holding` to the end."""

    def __init__(self, store: Store, lifecycle: Lifecycle) -> None:
        self._store = store
        self._lifecycle = lifecycle

    async def registered(self, work: UnitOfWork, job_ids: Sequence[int]) -> None:
        """Holding jobs whose outputs the catalogue knows: merging, transferring or finished; failed ones whose log it
        knows."""
        locked = await self._store.lock_jobs(work.connection, job_ids)
        jobs = {job_id: job for job_id, job in locked.items() if job.row.status == "holding"}
        if not jobs:
            return
        places = await self._store.queue_places(work.connection, [job.row.queue for job in jobs.values()])
        tasks = await self._store.task_facts(work.connection, [job.row.task_id for job in jobs.values()])
        reports = await self._store.stored_reports(work.connection, sorted(jobs))
        failed = [job_id for job_id in sorted(jobs) if job_id in reports and reports[job_id].state == "failed"]
        plan = plan_outputs(
            [
                _holding(job, places.get(job.row.queue), tasks[job.row.task_id], reports.get(job.job_id))
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
        await self._lifecycle.to(work, jobs, ids, "transferring", reason="outputs must go to the nucleus")
        new = [
            NewTransfer(
                one.task_id,
                one.job_id,
                PRODUCTION_OUTPUT,
                one.queue_storage,
                one.nucleus_storage or "",
                one.n_files,
                one.n_bytes,
            )
            for one in leaving
        ]
        transfer_ids = await self._store.insert_transfers(work.connection, new, "output")
        if transfer_ids:
            work.emit(TransfersRequested(transfer_ids=tuple(transfer_ids)))

    async def arrived(self, work: UnitOfWork, jobs: Mapping[int, LockedJob]) -> None:
        """Transferring jobs whose outputs are all at the nucleus."""
        await self._lifecycle.to(work, jobs, sorted(jobs), "finished", reason="outputs are at the nucleus")


def _holding(job: LockedJob, place: QueuePlace | None, task: TaskFacts, report: StoredReport | None) -> HoldingJob:
    queue = cric_queue(place) if place is not None else None
    write = queue.storages("write", job.prod_source_label in ANALYSIS_LABELS) if queue is not None else ()
    files = JobReport.from_stored(report.report).outputs if report is not None else ()
    return HoldingJob(
        job_id=job.job_id,
        task_id=job.row.task_id,
        job_type=job.job_type,
        task_merges=bool(task.split_rule.get("mergeOutput")),
        queue_site=place.site if place is not None else None,
        queue_storage=next(iter(write), place.default_storage if place is not None else None),
        nucleus=task.nucleus,
        nucleus_storage=task.nucleus_storage,
        n_files=len(files),
        n_bytes=sum(one.size_bytes for one in files),
    )
