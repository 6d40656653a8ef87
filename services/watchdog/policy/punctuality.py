"""When a task that is wanted by a time will end, and whether that is too late. Pure.

Two rates are measured: over the life of its jobs, and over the last hour or two. The better one says when it ends at
the earliest, the worse one when at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.config.parameter import Parameter
from shared.states.task import TaskStatus

#: a measurement of the later rate begins so long ago, or up to twice as long
SAMPLED_EVERY = timedelta(hours=1)
#: later than that is told as never
LONGEST = timedelta(days=3650)
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


@dataclass(frozen=True)
class End:
    """When a task will end, and how that follows; None: nobody can say."""

    earliest_at: datetime | None
    latest_at: datetime | None
    told: str


def sampled(task: WantedTask, now: datetime) -> WantedTask:
    """The same with a measurement of now, once an hour."""
    if task.newer is None:
        return replace(task, newer=Ended(now, task.n_ended))
    if now - task.newer.at < SAMPLED_EVERY:
        return task
    return replace(task, older=task.newer, newer=Ended(now, task.n_ended))


def end_of(task: WantedTask, now: datetime) -> End:
    """When the task will end.

    Example: 400 of 1000 units ended within 4 h since its first jobs, 50 of these in the last hour: the 600 others take
    6 h at 100 an hour, and 12 h at 50 an hour.
    """
    left = task.n_units - task.n_ended
    if task.started_at is None or task.n_ended <= 0 or left <= 0:
        return End(None, None, f"{task.n_ended} of {task.n_units} units have ended: too few to say when it ends")
    overall = _per_hour(task.n_ended, now - task.started_at)
    lately = overall
    if task.older is not None and now > task.older.at:
        lately = _per_hour(max(0, task.n_ended - task.older.n_units), now - task.older.at)
    told = f"{left} of {task.n_units} units are left; {overall:.3g} ended in an hour, lately {lately:.3g}"
    return End(_at(now, left, max(overall, lately)), _at(now, left, min(overall, lately)), told)


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


def _per_hour(n_units: int, duration: timedelta) -> float:
    return n_units / max(duration / timedelta(hours=1), 1 / 60)


def _at(now: datetime, left: int, per_hour: float) -> datetime | None:
    """When so many units have ended at a rate; None: in more than ten years."""
    hours = left / per_hour if per_hour > 0 else float("inf")
    return now + timedelta(hours=hours) if hours < LONGEST / timedelta(hours=1) else None
