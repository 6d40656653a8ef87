"""Events about batches of jobs.

``moves`` counts every change of state, so that statistics are a fold of events.
"""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from shared.events.base import Event
from shared.states.job import JobStatus

#: a job whose state changed: task, queue (None: it waits for jumbo jobs), resource type, share, user, state before
#: (None: it was inserted), cores
ChangedJob = tuple[int, str | None, str, str, str, JobStatus | None, int]


class JobMove(BaseModel):
    """``n_jobs`` jobs (``n_cores`` cores in all) of a task at a queue went from one state to another.

    ``from_status`` None: inserted.
    """

    model_config = ConfigDict(frozen=True)
    task_id: int
    queue: str
    resource_type: str
    gshare: str
    user_name: str
    from_status: JobStatus | None
    to_status: JobStatus
    n_jobs: int
    n_cores: int


def moves_of(jobs: Iterable[ChangedJob], to_status: JobStatus) -> tuple[JobMove, ...]:
    """The changes of these jobs to `to_status`, counted.

    One move for each task, queue, resource type, share, user and former state, in that order. A job without a queue is
    in no statistics.
    """
    counts: dict[tuple[int, str, str, str, str, JobStatus | None], list[int]] = {}
    for task_id, queue, resource_type, gshare, user_name, was, n_cores in jobs:
        if queue is None:
            continue
        count = counts.setdefault((task_id, queue, resource_type, gshare, user_name, was), [0, 0])
        count[0] += 1
        count[1] += n_cores
    return tuple(
        JobMove(
            task_id=task_id,
            queue=queue,
            resource_type=resource_type,
            gshare=gshare,
            user_name=user_name,
            from_status=from_status,
            to_status=to_status,
            n_jobs=n_jobs,
            n_cores=n_cores,
        )
        for (task_id, queue, resource_type, gshare, user_name, from_status), (n_jobs, n_cores) in sorted(counts.items())
    )


class JobsEvent(Event):
    """Every event about jobs: hundreds of ids at most."""

    job_ids: tuple[int, ...] = ()
    moves: tuple[JobMove, ...] = ()


class JobsGenerated(JobsEvent):
    """Jobs of one chunk were inserted in state defined."""

    task_id: int
    chunk_id: int


class JobsAssigned(JobsEvent):
    """Their input is being moved."""


class LaneJob(BaseModel):
    """What the windows of job_dispatch need of an activated job."""

    model_config = ConfigDict(frozen=True)
    job_id: int
    queue: str
    gshare: str
    shape_id: int
    priority: int
    order_key_id: int = 0


class JobsActivated(JobsEvent):
    """Pilots may take them."""

    lane_jobs: tuple[LaneJob, ...] = ()


class JobsThrottled(JobsEvent):
    """Held back."""


class ReorderedJob(LaneJob):
    """An activated job with its new share, priority and order key, and where it was.

    ``from_order_key_id``: None where it has the key that it had.
    """

    from_gshare: str
    from_order_key_id: int | None = None


class ShareMove(BaseModel):
    """``n_jobs`` jobs (``n_cores`` cores) at a queue went from one share to another in their state."""

    model_config = ConfigDict(frozen=True)
    queue: str
    resource_type: str
    user_name: str
    status: JobStatus
    from_gshare: str
    to_gshare: str
    n_jobs: int
    n_cores: int


class JobsReordered(JobsEvent):
    """The order of waiting jobs changed; ``lane_jobs`` are those of them that pilots may take."""

    lane_jobs: tuple[ReorderedJob, ...] = ()
    share_moves: tuple[ShareMove, ...] = ()


class JobsDispatched(JobsEvent):
    """Pilots took them."""


class JobsStarted(JobsEvent):
    """Pilots reported starting or running."""


class OutputsProduced(JobsEvent):
    """Pilots reported success; the jobs hold until their outputs are registered."""


class OutputsRegistered(Event):
    """The catalogue knows the outputs of these holding jobs.

    ``without_storage_job_ids`` are holding jobs whose outputs are at no storage that is known, and were not registered.
    """

    job_ids: tuple[int, ...]
    without_storage_job_ids: tuple[int, ...] = ()


class JobsTransferring(JobsEvent):
    """Outputs are on their way to the nucleus."""


class JobsMerging(JobsEvent):
    """Outputs wait to be merged."""


class JobsFinished(JobsEvent):
    """Final: succeeded."""


class JobsFailed(JobsEvent):
    """Final: failed, closed or cancelled (the moves say which), as reported or commanded."""


class JobsExpired(JobsEvent):
    """Final: failed or closed by the watchdog.

    A deadline passed, heartbeats were lost or a queue had too many.
    """

    reason: str
