"""What pages are about, in words, and which of these an event may have changed."""

from __future__ import annotations

from collections.abc import Iterable

from shared import events
from shared.events.base import Event

#: pages about several of a kind; `GRID`: any queue may have changed
SHARES, NEW_TASKS, NEW_JOBS, GRID = "shares", "new tasks", "new jobs", "grid"
#: events after which a page may show something else
HEARD: tuple[type[Event], ...] = (
    events.TaskRegistered, events.TaskDefined, events.TaskReady, events.TaskProgressed, events.TaskMeasured,
    events.TaskPrepared, events.TaskCompleted, events.TaskCommanded, events.TaskReleased, events.TaskJumboSwitched,
    events.ChunkOffered, events.ChunkBrokered, events.ChunkUnplaceable,
    events.JobsGenerated, events.JobsAssigned, events.JobsActivated, events.JobsThrottled, events.JobsReordered,
    events.JobsDispatched, events.JobsStarted, events.OutputsProduced, events.JobsTransferring, events.JobsMerging,
    events.JobsFinished, events.JobsFailed, events.JobsExpired,
    events.GridChanged, events.StatisticsChanged, events.SharesCorrected,
)  # fmt: skip


def task(task_id: int | str) -> str:
    """Name a task. Example: task 7."""
    return f"task {task_id}"


def job(job_id: int | str) -> str:
    """Name a job. Example: job 7."""
    return f"job {job_id}"


def queue(name: str) -> str:
    """Name a queue. Example: queue CERN."""
    return f"queue {name}"


def subjects_of(event: Event) -> set[str]:
    """What may be different after an event.

    Example: JobsFinished of job 12 of task 7 at CERN: task 7, job 12, queue CERN.
    """
    if isinstance(event, events.SharesCorrected):
        return {SHARES}
    if isinstance(event, events.GridChanged | events.StatisticsChanged):
        return {queue(name) for name in event.queues} or {GRID}
    found = {task(task_id) for task_id in _tasks(event)}
    if isinstance(event, events.TaskRegistered):
        found.add(NEW_TASKS)
    if isinstance(event, events.JobsGenerated):
        found.add(NEW_JOBS)
    if isinstance(event, events.JobsEvent):
        found |= {job(job_id) for job_id in event.job_ids}
        found |= {queue(move.queue) for move in event.moves}
    return found


def _tasks(event: Event) -> Iterable[int]:
    if isinstance(event, events.JobsEvent):
        own = getattr(event, "task_id", None)
        return {move.task_id for move in event.moves} | ({own} if own is not None else set())
    own = getattr(event, "task_id", None)
    return () if own is None else (own,)
