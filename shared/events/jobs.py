"""Events about batches of jobs.

``moves`` counts every change of state, so that statistics are a fold of events.
"""

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr

from shared.events.base import Event, all_of
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


#: moves with the time at which they happened
DatedMoves = tuple[datetime | None, tuple[JobMove, ...]]
Move = TypeVar("Move", bound=BaseModel)


def summed(moves: Iterable[Move]) -> tuple[Move, ...]:
    """Add up moves (of jobs, or between shares) that differ in their numbers only."""
    sums: dict[Hashable, Move] = {}
    for move in moves:
        key = tuple(value for name, value in move if name not in ("n_jobs", "n_cores"))
        known = sums.get(key)
        sums[key] = move if known is None else known.model_copy(update=_numbers(known, move))
    return tuple(sums.values())


def _numbers(one: Any, other: Any) -> dict[str, int]:
    return {"n_jobs": one.n_jobs + other.n_jobs, "n_cores": one.n_cores + other.n_cores}


class JobsEvent(Event):
    """Every event about jobs: hundreds of ids at most, thousands where several were merged."""

    shares_transaction: ClassVar[bool] = True
    job_ids: tuple[int, ...] = ()
    moves: tuple[JobMove, ...] = ()
    _dated_moves: tuple[DatedMoves, ...] = PrivateAttr(())

    @property
    def n_subjects(self) -> int:
        return max(1, len(self.job_ids))

    @property
    def merge_key(self) -> Hashable:
        return None

    @property
    def dated_moves(self) -> tuple[DatedMoves, ...]:
        """The moves by the time at which they happened: one time, or several where events were merged."""
        return self._dated_moves or ((self.occurred_at, self.moves),)

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        """All jobs, and the sums of all moves; the first event is the cause."""
        by_time: dict[datetime | None, list[JobMove]] = {}
        for event in events:
            by_time.setdefault(event.occurred_at, []).extend(event.moves)
        dated = tuple((at, summed(moves)) for at, moves in by_time.items())
        moves = summed(move for _, some in dated for move in some)
        one = events[-1].model_copy(
            update={"event_id": events[0].event_id, "job_ids": all_of(events, "job_ids"), "moves": moves}
        )
        one._dated_moves = dated
        return one


class JobsGenerated(JobsEvent):
    """Jobs of one chunk were inserted in state defined."""

    task_id: int
    chunk_id: int

    @property
    def merge_key(self) -> Hashable:
        return self.task_id, self.chunk_id


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

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        return super().joined(events).model_copy(update={"lane_jobs": all_of(events, "lane_jobs")})


class JobsThrottled(JobsEvent):
    """Held back."""


class ReorderedJob(LaneJob):
    """An activated job with its new share, priority and order key, and where it was.

    ``from_order_key_id``: None where it has the key that it had.
    """

    from_gshare: str
    from_order_key_id: int | None = None


class ShareMove(BaseModel):
    """``n_jobs`` jobs (``n_cores`` cores) of a task at a queue went from one share to another."""

    model_config = ConfigDict(frozen=True)
    task_id: int
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

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        lane_jobs = tuple(one for event in events for one in event.lane_jobs)  # a job may be moved to and fro
        share_moves = summed(one for event in events for one in event.share_moves)
        return super().joined(events).model_copy(update={"lane_jobs": lane_jobs, "share_moves": share_moves})


class JobsDispatched(JobsEvent):
    """Pilots took them."""


class JobsStarted(JobsEvent):
    """Pilots reported starting or running."""


class OutputsProduced(JobsEvent):
    """Pilots reported success; the jobs hold until their outputs are registered.

    Of jobs that had ended before (no moves), the log alone is registered.
    """


class OutputsRegistered(Event):
    """The catalogue knows the outputs of these holding jobs.

    Not registered are those of ``without_storage_job_ids``, whose outputs are at no storage that is known, of
    ``names_taken_job_ids``, which wrote files under names that other files have (outputs by expression), and of
    ``refused_job_ids``, whose datasets take no files any more.
    """

    shares_transaction: ClassVar[bool] = True
    job_ids: tuple[int, ...]
    without_storage_job_ids: tuple[int, ...] = ()
    names_taken_job_ids: tuple[int, ...] = ()
    refused_job_ids: tuple[int, ...] = ()

    @property
    def n_subjects(self) -> int:
        not_registered = (self.without_storage_job_ids, self.names_taken_job_ids, self.refused_job_ids)
        return max(1, len(self.job_ids) + sum(map(len, not_registered)))

    @property
    def merge_key(self) -> Hashable:
        return None

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        fields = ("job_ids", "without_storage_job_ids", "names_taken_job_ids", "refused_job_ids")
        return events[0].model_copy(update={field: all_of(events, field) for field in fields})


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

    @property
    def merge_key(self) -> Hashable:
        return self.reason
