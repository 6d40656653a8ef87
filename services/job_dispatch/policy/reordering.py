"""What becomes of the order of waiting jobs when their task's priority or share changes; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shared.events import ReorderedJob, ShareMove
from shared.model.priorities import changed_priority
from shared.states.job import QUEUED, JobStatus

#: states whose jobs may still be put into another order
WAITING: tuple[JobStatus, ...] = QUEUED


@dataclass(frozen=True)
class OrderChange:
    """What the waiting jobs of a task shall have; None: what they have now."""

    task_id: int
    priority: int | None = None
    gshare: str | None = None


@dataclass(frozen=True)
class WaitingJob:
    """What the order of one job depends on; without a queue it waits for jumbo jobs."""

    job_id: int
    task_id: int
    status: JobStatus
    job_type: str
    queue: str | None
    resource_type: str
    user_name: str
    shape_id: int
    core_count: int
    gshare: str
    priority: int
    order_key_id: int = 0


@dataclass(frozen=True)
class NewOrder:
    """The share and priority that a job gets."""

    gshare: str
    priority: int


def new_order(job: WaitingJob, change: OrderChange) -> NewOrder:
    """What the change makes of the job.

    Example: a task of priority 500 is set to 700: its normal jobs have 700, its scouts keep 901, its merge jobs 5000.
    """
    priority = job.priority
    if change.priority is not None:
        priority = changed_priority(job.job_type, job.priority, change.priority)
    return NewOrder(change.gshare if change.gshare is not None else job.gshare, priority)


def lane_jobs_of(jobs: Iterable[WaitingJob], orders: Mapping[int, NewOrder]) -> tuple[ReorderedJob, ...]:
    """The news for the windows of dispatchers: the jobs among them that pilots may take."""
    return tuple(
        ReorderedJob(
            job_id=job.job_id,
            queue=job.queue,
            gshare=orders[job.job_id].gshare,
            shape_id=job.shape_id,
            priority=orders[job.job_id].priority,
            from_gshare=job.gshare,
            order_key_id=job.order_key_id,
        )
        for job in jobs
        if job.status == "activated" and job.queue is not None
    )


def share_moves_of(jobs: Iterable[WaitingJob], orders: Mapping[int, NewOrder]) -> tuple[ShareMove, ...]:
    """What statistics have to count in another share; a job without a queue is in none."""
    counts: dict[tuple[int, str, str, str, JobStatus, str, str], list[int]] = {}
    for job in jobs:
        gshare = orders[job.job_id].gshare
        if gshare != job.gshare and job.queue is not None:
            key = (job.task_id, job.queue, job.resource_type, job.user_name, job.status, job.gshare, gshare)
            count = counts.setdefault(key, [0, 0])
            count[0] += 1
            count[1] += job.core_count
    return tuple(
        ShareMove(
            task_id=task_id,
            queue=queue,
            resource_type=resource_type,
            user_name=user_name,
            status=status,
            from_gshare=from_gshare,
            to_gshare=to_gshare,
            n_jobs=n_jobs,
            n_cores=n_cores,
        )
        for (task_id, queue, resource_type, user_name, status, from_gshare, to_gshare), (n_jobs, n_cores) in sorted(
            counts.items()
        )
    )
