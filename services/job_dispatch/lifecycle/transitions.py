"""Changes states of jobs and announces them by events.

The store's compare-and-set comes first, then facts of at most a few hundred jobs each, with exact moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_dispatch.policy.reports import KILL_CODE, Blame
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.jobs import LockedJob
from shared.db.unit_of_work import UnitOfWork
from shared.events import (
    IDS_OF_EVENT,
    JobsActivated,
    JobsAssigned,
    JobsEvent,
    JobsFailed,
    JobsFinished,
    JobsMerging,
    JobsThrottled,
    JobsTransferring,
    moves_of,
)
from shared.model.batches import batches
from shared.states.job import JobStatus

_EVENTS: dict[str, type[JobsEvent]] = {
    "assigned": JobsAssigned,
    "throttled": JobsThrottled,
    "merging": JobsMerging,
    "transferring": JobsTransferring,
    "finished": JobsFinished,
    "failed": JobsFailed,
    "closed": JobsFailed,
    "cancelled": JobsFailed,
}
_ENDS: frozenset[JobStatus] = frozenset({"finished", "failed", "closed", "cancelled"})


async def kill_jobs(work: UnitOfWork, job_ids: Sequence[int], reason: str) -> list[int]:
    """Kill jobs one by one; those that really were."""
    jobs = await store.lock_jobs(work.connection, job_ids)
    blames = {job_id: Blame("user", KILL_CODE, reason) for job_id in jobs}
    return await move_jobs(work, jobs, sorted(jobs), "cancelled", reason=reason, blames=blames)


async def move_jobs(
    work: UnitOfWork,
    jobs: Mapping[int, LockedJob],
    job_ids: Sequence[int],
    status: JobStatus,
    *,
    reason: str,
    blames: Mapping[int, Blame] | None = None,
) -> list[int]:
    """Move what may be moved to `status` and announce it; the ids that moved.

    `jobs` are rows locked by this transaction: their former states are what the moves are counted from.
    """
    if not job_ids:
        return []
    await work.because(reason)
    if status in _ENDS:
        moved = await store.end(work.connection, sorted(job_ids), status, blames or {})
    else:
        moved = await store.move(work.connection, sorted(job_ids), status)
    for some in batches(moved, IDS_OF_EVENT):
        moves = moves_of((jobs[job_id].row.as_counted for job_id in some), status)
        if status == "activated":
            lane_jobs = tuple(jobs[job_id].lane_job() for job_id in some)
            work.emit(JobsActivated(job_ids=tuple(some), moves=moves, lane_jobs=lane_jobs))
        else:
            work.emit(_EVENTS[status](job_ids=tuple(some), moves=moves))
    return moved
