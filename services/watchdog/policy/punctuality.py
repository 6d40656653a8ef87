"""When a task that is wanted by a time will end, and whether that is too late. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.config.parameter import Parameter
from shared.states.task import TaskStatus
from shared.task.expected_end import End, expected_end, rate_per_hour

#: a measurement of the later rate begins so long ago, or up to twice as long
SAMPLED_EVERY = timedelta(hours=1)
#: who waits for a person, or is withheld, is not hurried
WORKING: frozenset[TaskStatus] = frozenset({"ready", "scouting", "scouted", "running", "pending"})
LATE_PRIORITY = Parameter(
    "watchdog", "LATE_PRIORITY", 900, "priority", "of a task that would end later than it is wanted", -1e9,
    suffixes=("<label>",), own_defaults=(("user", 1100),),
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """Units of input that had ended at a time."""

    at: datetime
    n_units: int


@dataclass(frozen=True)
class WantedTask:
    """A task that is wanted by a time; `started_at`: when its first jobs were made."""

    task_id: int
    status: TaskStatus
    label: str
    priority: int
    due_at: datetime
    created_at: datetime
    started_at: datetime | None
    n_units: int
    n_ended: int
    older: Ended | None = None
    newer: Ended | None = None


def sampled(task: WantedTask, now: datetime) -> WantedTask:
    """The same with a measurement of now, once an hour."""
    if task.newer is None:
        return replace(task, newer=Ended(now, task.n_ended))
    if now - task.newer.at < SAMPLED_EVERY:
        return task
    return replace(task, older=task.newer, newer=Ended(now, task.n_ended))


def end_of(task: WantedTask, now: datetime) -> End:
    """When the task will end, by the rate over the life of its jobs and by that of the last hour or two."""
    left = task.n_units - task.n_ended
    if task.started_at is None or task.n_ended <= 0 or left <= 0:
        return End(None, None, f"{task.n_ended} of {task.n_units} units have ended: too few to say when it ends")
    overall = rate_per_hour(task.n_ended, now - task.started_at)
    lately = overall
    if task.older is not None and now > task.older.at:
        lately = rate_per_hour(max(0, task.n_ended - task.older.n_units), now - task.older.at)
    return expected_end(now, task.n_units, task.n_ended, overall, lately)


def late(task: WantedTask, end: End, now: datetime) -> str | None:
    """Why the task is to be hurried; None: it is in time, or nothing that the system does would help.

    It is late if it may end after its time. While nobody can say when it ends, it is from half of its time on. A time
    that was over when the task was submitted hurries nothing.
    """
    if task.due_at <= task.created_at:
        return None
    if task.status not in WORKING or task.n_ended >= task.n_units > 0:
        return None
    wanted = f"it is wanted by {task.due_at:%Y-%m-%d %H:%M} UTC"
    if end.earliest_at is None:
        if now < task.created_at + (task.due_at - task.created_at) / 2:
            return None
        return f"{wanted}, half of that time is over, and {end.told}"
    if end.latest_at is not None and end.latest_at <= task.due_at:
        return None
    latest = "later" if end.latest_at is None else f"{end.latest_at:%Y-%m-%d %H:%M} UTC"
    return f"{wanted}, and ends between {end.earliest_at:%Y-%m-%d %H:%M} UTC and {latest}: {end.told}"
