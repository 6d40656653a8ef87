"""Tells that jobs of job sets ended."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.store.results import EndedJob
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsFailed, JobsFinished, moves_of
from shared.model.batches import batches
from shared.states.job import JobStatus


def announce(work: UnitOfWork, ended: Sequence[tuple[EndedJob, JobStatus]]) -> None:
    """Emit the ends of these jobs, each with the state that it was in; all have the same state now."""
    for part in batches(ended, IDS_OF_EVENT):
        status = part[0][0].status
        moves = moves_of(
            (
                (job.task_id, job.queue, job.resource_type, job.gshare, job.user_name, was, job.core_count)
                for job, was in part
            ),
            status,
        )
        event = JobsFinished if status == "finished" else JobsFailed
        work.emit(event(job_ids=tuple(job.job_id for job, _ in part), moves=moves))
