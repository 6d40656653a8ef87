"""The reconciling sweep: for each kind of row that waits for a lost event, says the event again.

A lost message costs latency only. Everything announced here is idempotent by compare-and-set at its consumer, carries
no moves (statistics were told by the original), and is announced at growing intervals (1, 2, 4 ... 64 ages), so that a
service that is merely behind does not get its backlog twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from services.watchdog.parameters import (
    SWEEP_AGE_S,
    WAIT_FOR_ACHIEVED_S,
    WAIT_FOR_EXHAUSTED_S,
    WAIT_FOR_PAUSED_S,
    WAIT_FOR_PICKED_S,
)
from shared import events
from shared.config.parameter import Parameter
from shared.events import IDS_OF_EVENT, Event
from shared.model.batches import batches
from shared.states.task import TaskStatus

#: what asks for commands
REQUESTED_BY = "watchdog"
#: states in which a task waits for its jobs to end, and the command that ends them
ENDS_JOBS: dict[TaskStatus, str] = {
    "aborting": "kill",
    "tobroken": "kill",
    "finishing": "finish",
    "reassigning": "reassign",
}

#: partitions of the sweep: what is said of tasks, and of their chunks, jobs and transfers
TASKS, WORK = "tasks", "work"

Rows = Sequence[Any]
Build = Callable[[Rows, datetime], Iterable[Event]]


@dataclass(frozen=True)
class Sweep:
    """One kind: the query of `sweeps.sql` that finds its rows, the events that tell of them, their age.

    Rows are found from that age on. `by_time`: what is not stuck when it has the age never is, so that each row is
    looked at once, by its time, and again only if it was stuck. `partition`: kinds of one are swept one after the
    other, those of two beside each other.
    """

    kind: str
    build: Build
    age: Parameter[float] = SWEEP_AGE_S
    most: int = IDS_OF_EVENT
    by_time: bool = False

    @property
    def partition(self) -> str:
        return TASKS if self.kind.endswith("_tasks") or self.kind == "tasks_at_goal" else WORK


def _in_events(ids: Iterable[int]) -> Iterable[tuple[int, ...]]:
    """As many ids at a time as one event names."""
    return batches(tuple(sorted(ids)), IDS_OF_EVENT)


def _registered(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.TaskRegistered(task_id=row["task_id"]) for row in rows]


def _assigning(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.TaskDefined(task_id=row["task_id"]) for row in rows]


def _ready(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.TaskReady(task_id=row["task_id"], nucleus=row["nucleus"]) for row in rows]


def _idle(rows: Rows, now: datetime) -> Iterable[Event]:
    return [
        events.TaskReleased(task_id=row["task_id"], status=row["status"], reason=f"nothing moved while {row['status']}")
        for row in rows
    ]


def _prepared(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.TaskPrepared(task_id=row["task_id"]) for row in rows]


def _leaving(rows: Rows, now: datetime) -> Iterable[Event]:
    """A command that ends jobs was accepted: once more to those who end them, and to the one who counts them."""
    for row in rows:
        command = ENDS_JOBS[row["status"]]
        if row["live_jobs"]:
            yield events.TaskCommanded(
                task_id=row["task_id"], command=command, status=row["status"], soft=command != "kill" and row["soft"]
            )
        yield events.TaskProgressed(
            task_id=row["task_id"],
            status=row["status"],
            files_finished=row["files_finished"],
            files_failed=row["files_failed"],
            files_total=row["files_total"],
            live_jobs=row["live_jobs"],
        )


def _ended(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.TaskCommanded(task_id=row["task_id"], command="kill", status=row["status"]) for row in rows]


def _paused(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.TaskCommanded(task_id=row["task_id"], command="pause", status=row["status"]) for row in rows]


def _long_paused(rows: Rows, now: datetime) -> Iterable[Event]:
    """Jobs that were on their way to a pilot go back: their input may be used elsewhere when the task is resumed."""
    return [events.TaskCommanded(task_id=row["task_id"], command="give_back", status=row["status"]) for row in rows]


def _resumed(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.TaskCommanded(task_id=row["task_id"], command="resume", status=row["status"]) for row in rows]


def _offered(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.ChunkOffered(chunk_id=row["chunk_id"], task_id=row["task_id"]) for row in rows]


def _stale(rows: Rows, now: datetime) -> Iterable[Event]:
    """Picked for too long: give the files back (JEDI: picked -> ready after waitForPicked)."""
    return [
        events.ChunkUnplaceable(
            chunk_id=row["chunk_id"],
            task_id=row["task_id"],
            decision_id=0,
            retry_at=now + timedelta(minutes=1),
            reason="its files were picked, but no brokerage decided about them for too long",
        )
        for row in rows
    ]


def _defined(rows: Rows, now: datetime) -> Iterable[Event]:
    """One event for each chunk, as it was told first."""
    by_chunk: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        by_chunk.setdefault((row["task_id"], row["chunk_id"]), []).append(row["job_id"])
    for (task_id, chunk_id), job_ids in sorted(by_chunk.items()):
        for some in _in_events(job_ids):
            yield events.JobsGenerated(task_id=task_id, chunk_id=chunk_id, job_ids=some)


def _holding(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.OutputsProduced(job_ids=some) for some in _in_events(row["job_id"] for row in rows)]


def _unmerged(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.JobsMerging(job_ids=some) for some in _in_events(row["job_id"] for row in rows)]


def _uncounted(rows: Rows, now: datetime) -> Iterable[Event]:
    for some in _in_events(row["job_id"] for row in rows if row["status"] == "finished"):
        yield events.JobsFinished(job_ids=some)
    for some in _in_events(row["job_id"] for row in rows if row["status"] != "finished"):
        yield events.JobsFailed(job_ids=some)


def _requested(rows: Rows, now: datetime) -> Iterable[Event]:
    return [events.TransfersRequested(transfer_ids=some) for some in _in_events(row["transfer_id"] for row in rows)]


def _moved(rows: Rows, now: datetime) -> Iterable[Event]:
    for some in batches(sorted(rows, key=lambda row: row["job_id"]), IDS_OF_EVENT):
        yield events.TransfersCompleted(
            transfer_ids=tuple(sorted(number for row in some for number in row["transfer_ids"])),
            job_ids=tuple(row["job_id"] for row in some if not row["failed"]),
            failed_job_ids=tuple(row["job_id"] for row in some if row["failed"]),
        )


def _at_goal(rows: Rows, now: datetime) -> Iterable[Event]:
    return [
        events.TaskCommandRequested(
            task_id=row["task_id"],
            command="finish",
            requested_by=REQUESTED_BY,
            reason=f"{row['wanted']} reached: {row['n_files_finished']} of {row['n_files']} units of input",
        )
        for row in rows
    ]


def _exhausted(rows: Rows, now: datetime) -> Iterable[Event]:
    return [
        events.TaskCommandRequested(
            task_id=row["task_id"],
            command="finish",
            requested_by=REQUESTED_BY,
            reason="exhausted for longer than it may be without a decision by its owner",
        )
        for row in rows
    ]


#: In the order of a task's life. `age`: a parameter of its own instead of the sweep's.
SWEEPS: tuple[Sweep, ...] = (
    Sweep("registered_tasks", _registered),
    Sweep("half_defined_tasks", _idle),
    Sweep("assigning_tasks", _assigning),
    Sweep("ready_tasks", _ready),
    Sweep("idle_tasks", _idle, by_time=True),
    Sweep("offered_chunks", _offered),
    Sweep("stale_chunks", _stale, WAIT_FOR_PICKED_S),
    Sweep("defined_jobs", _defined),
    Sweep("holding_jobs", _holding),
    Sweep("unmerged_jobs", _unmerged, by_time=True),
    Sweep("uncounted_jobs", _uncounted),
    Sweep("requested_transfers", _requested),
    Sweep("moved_jobs", _moved, by_time=True),
    Sweep("prepared_tasks", _prepared),
    Sweep("leaving_tasks", _leaving),
    Sweep("paused_tasks", _paused),
    Sweep("long_paused_tasks", _long_paused, WAIT_FOR_PAUSED_S),
    Sweep("resumed_tasks", _resumed),
    Sweep("jobs_of_ended_tasks", _ended),
    Sweep("tasks_at_goal", _at_goal, WAIT_FOR_ACHIEVED_S),
    Sweep("exhausted_tasks", _exhausted, WAIT_FOR_EXHAUSTED_S),
)
