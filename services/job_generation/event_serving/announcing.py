"""Ends jobs of job sets that wait in merging, and tells that jobs ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_generation.policy.event_service.endings import EndOfConsumer
from services.job_generation.store import job_sets as store_sets
from services.job_generation.store.results import EndedJob
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsEvent, JobsFailed, JobsFinished, JobsMerging, moves_of
from shared.model.batches import batches
from shared.states.job import JobStatus

_EVENTS: Mapping[JobStatus, type[JobsEvent]] = {"finished": JobsFinished, "merging": JobsMerging}


def announce(work: UnitOfWork, ended: Sequence[tuple[EndedJob, JobStatus]]) -> None:
    """Emit the ends of these jobs, or their merging, each with the state that it was in."""
    for part in batches(ended, IDS_OF_EVENT):
        status = part[0][0].status
        moves = moves_of(
            (
                (job.task_id, job.queue, job.resource_type, job.gshare, job.user_name, was, job.core_count)
                for job, was in part
            ),
            status,
        )
        work.emit(_EVENTS.get(status, JobsFailed)(job_ids=tuple(job.job_id for job, _ in part), moves=moves))


async def end_merging(work: UnitOfWork, job: EndedJob, verdict: EndOfConsumer) -> EndedJob:
    """The job in its final state, where it waits in merging and does not stay there."""
    if job.status != "merging" or verdict.status == "merging":
        return job
    error = verdict.reason if verdict.status == "failed" else None
    moved = await store_sets.end_live(work, [job.job_id], verdict.status, ("merging",), verdict.reason, error=error)
    announce(work, moved)
    return moved[0][0] if moved else job
