"""When a waiting task goes on, and when it has waited long enough (JEDI: Transition of task status)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.config.parameter import Parameter, set_by
from shared.states.task import HOLDABLE, TaskStatus

#: wait of a pending task that names no time itself, by priority: the first line it reaches
PENDING_WAITS: tuple[tuple[int, timedelta], ...] = (
    (950, timedelta(minutes=10)),
    (900, timedelta(minutes=30)),
)
PENDING_WAIT = timedelta(minutes=60)
#: pending for so long without a success: exhausted
PENDING_TIMEOUT = Parameter(
    "watchdog", "PENDING_TIMEOUT", 168.0, "h", "until a pending task is exhausted; 0: off", suffixes=("<label>",)
)
#: a parent in another state still may give a pending child its input
ENDED_PARENTS: frozenset[TaskStatus] = frozenset({"done", "finished", "failed", "broken", "aborted"})
_THROTTLEABLE: tuple[TaskStatus, ...] = ("ready", "scouting", "running")


@dataclass(frozen=True)
class PendingTask:
    """A pending task; `waiting_since`: when it first became pending without a success since."""

    task_id: int
    old_status: TaskStatus | None
    priority: int
    label: str
    pending_since: datetime
    waiting_since: datetime
    retry_at: datetime | None
    parent_status: TaskStatus | None = None


@dataclass(frozen=True)
class AssigningTask:
    """A task without a nucleus; `waiting_since`: when it first found none, without a success since."""

    task_id: int
    label: str
    waiting_since: datetime
    parent_status: TaskStatus | None = None


@dataclass(frozen=True)
class Release:
    """The task goes on in `to_status`."""

    to_status: TaskStatus
    reason: str


@dataclass(frozen=True)
class PendingLimits:
    """Hours until exhausted by label, and the waits by priority scaled by `wait_scale` (1: as specified)."""

    timeout_h: Mapping[str, float] = field(default_factory=dict)
    wait_scale: float = set_by(
        Parameter("watchdog", "PENDING_WAIT_SCALE", 1.0, "", "factor of the waits of pending tasks"), float
    )

    def wait(self, priority: int) -> timedelta:
        """How long a task of this priority stays pending before it is tried again."""
        wait = next((wait for least, wait in PENDING_WAITS if priority >= least), PENDING_WAIT)
        return wait * self.wait_scale

    def timeout(self, label: str) -> timedelta | None:
        """After which time pending a task of this label is exhausted; None (0 h): never."""
        hours = self.timeout_h.get(label, self.timeout_h.get("", PENDING_TIMEOUT.default))
        return timedelta(hours=hours) if hours > 0 else None


def release(task: PendingTask, limits: PendingLimits, now: datetime) -> Release | None:
    """Exhausted if pending too long (not while its parent works), else back when its time has come.

    It goes back to the state it came from: at `retry_at`, or without one after 60, 30 or 10 minutes by priority.
    """
    given_up = _given_up(task, "pending", limits, now)
    if given_up is not None:
        return given_up
    due = task.retry_at or task.pending_since + limits.wait(task.priority)
    if now < due:
        return None
    return Release(_came_from(task), f"waited until {due:%Y-%m-%d %H:%M:%S} as {task.old_status or 'pending'}")


def no_nucleus(task: AssigningTask, limits: PendingLimits, now: datetime) -> Release | None:
    """Exhausted if it was assigning for as long as a task may be pending.

    Source: JEDI, Transition of task status (exhausted).
    """
    return _given_up(task, "assigning", limits, now)


def _given_up(task: PendingTask | AssigningTask, doing: str, limits: PendingLimits, now: datetime) -> Release | None:
    timeout = limits.timeout(task.label)
    parent_works = task.parent_status is not None and task.parent_status not in ENDED_PARENTS
    if timeout is None or now - task.waiting_since <= timeout or parent_works:
        return None
    return Release("exhausted", f"{doing} for more than {timeout.total_seconds() / 3600:g} h")


def wake(task: PendingTask, limits: PendingLimits, cause: str, now: datetime) -> Release:
    """Back to its former state early, as what held it may no longer; exhausted if pending too long."""
    at_its_time = release(task, limits, now)
    if at_its_time is not None and at_its_time.to_status == "exhausted":
        return at_its_time
    return Release(_came_from(task), f"woken before its time by {cause}")


def _came_from(task: PendingTask) -> TaskStatus:
    return task.old_status if task.old_status in HOLDABLE else "ready"


@dataclass(frozen=True)
class Throttle:
    """No new jobs until `minutes` are over."""

    times: int
    minutes: int


def throttle(max_attempt_nr: int, times_throttled: int, every_attempts: int) -> Throttle | None:
    """A production task pauses when its largest attempt number reaches a further multiple of 5.

    The multiple is of `every_attempts` (5), the pause 120 * int(max / 5)**2 minutes. 0 switches the rule off. Raises
    ValueError for a negative number. Why: attempts that fail again and again cost slots, and somebody needs time to
    look. Example: attempt 12 is past 2 x 5, so a task that paused once pauses for 120 x 2**2 = 480 minutes.
    Source: JEDI, Transition of task status.
    """
    if every_attempts < 0:
        raise ValueError(f"every_attempts: {every_attempts} is not allowed, only 0 (off) and above")
    steps = max_attempt_nr // every_attempts if every_attempts else 0
    return Throttle(steps, 120 * steps**2) if steps > times_throttled else None


def unthrottled_status(old_status: TaskStatus | None) -> TaskStatus:
    """Where a throttled task goes on."""
    return old_status if old_status in _THROTTLEABLE else "running"
