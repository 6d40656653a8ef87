"""Events about batches of jobs.

``moves`` counts every change of state, so that statistics are a fold of events.
"""

from pydantic import BaseModel, ConfigDict

from shared.events.base import Event
from shared.states.job import JobStatus


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


class JobsActivated(JobsEvent):
    """Pilots may take them."""

    lane_jobs: tuple[LaneJob, ...] = ()


class JobsThrottled(JobsEvent):
    """Held back."""


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
