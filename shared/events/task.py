"""Events about tasks."""

from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import ClassVar, Self

from shared.events.base import Event, all_of
from shared.states.task import TaskStatus


class TaskEvent(Event):
    """Every event about one task."""

    task_id: int


class TaskRegistered(TaskEvent):
    """The task's parameters were stored; nothing was looked up yet."""


class TaskDefined(TaskEvent):
    """Datasets and files are known and the task is assigning: it needs a nucleus."""


class TaskReady(TaskEvent):
    """Jobs can be generated (nucleus chosen, or none needed)."""

    nucleus: str | None = None


class TaskProgressed(TaskEvent):
    """Files of the task changed state; numbers over its master inputs, and its live jobs.

    The newest in each state of the task stands for all: the numbers are totals, and a state may have to be looked at.
    """

    shares_transaction: ClassVar[bool] = True
    status: TaskStatus
    files_finished: int
    files_failed: int
    files_total: int
    live_jobs: int

    @property
    def merge_key(self) -> Hashable:
        return self.task_id, self.status


class TaskMeasured(TaskEvent):
    """What its jobs need was measured or raised: class of work, share and queue may be others now."""


class TaskPrepared(TaskEvent):
    """All input was worked on; the final status can be decided."""


class TaskCompleted(TaskEvent):
    """The task reached a final state (or exhausted)."""

    status: TaskStatus


class TaskCommandRequested(TaskEvent):
    """Another service asks for a command on the task: goal reached, exhausted too long, too many failures."""

    command: str
    reason: str
    requested_by: str


class TaskOrderRequested(TaskEvent):
    """Another service asks that the task goes before others: nearly done, late, or left by jumbo jobs.

    What is None stays as it is; a priority only rises.
    """

    priority: int | None = None
    gshare: str | None = None
    max_walltime_h: int | None = None
    reason: str
    requested_by: str


class TaskSiteRequested(TaskEvent):
    """Another service asks that the task goes to one queue for a while, or to any again.

    ``site``: the queue; "": any. It is done only if the task is limited to ``was``.
    """

    site: str
    was: str
    reason: str
    requested_by: str


class TaskCommanded(TaskEvent):
    """A command was accepted and its first transition made: kill, finish, retry, pause, resume, ..."""

    command: str
    status: TaskStatus
    soft: bool = False


class TaskReleased(TaskEvent):
    """A pending or throttled task went back to ``status``, or the sweep found it idle: look at it again."""

    status: TaskStatus
    reason: str
    released_at: datetime | None = None


class TasksWoken(Event):
    """What held these waiting tasks may hold no longer: they are to be looked at before their time."""

    shares_transaction: ClassVar[bool] = True
    task_ids: tuple[int, ...]
    cause: str

    @property
    def n_subjects(self) -> int:
        return max(1, len(self.task_ids))

    @property
    def merge_key(self) -> Hashable:
        return self.cause

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        return events[0].model_copy(update={"task_ids": all_of(events, "task_ids")})


class TasksCounted(Event):
    """Ends of jobs of these tasks were counted: what follows of it is due."""

    shares_transaction: ClassVar[bool] = True
    collects_s: ClassVar[float | None] = 0.2
    task_ids: tuple[int, ...]

    @property
    def n_subjects(self) -> int:
        return max(1, len(self.task_ids))

    @property
    def merge_key(self) -> Hashable:
        return None

    @classmethod
    def joined(cls, events: Sequence[Self]) -> Self:
        return events[0].model_copy(update={"task_ids": all_of(events, "task_ids")})


class TaskJumboSwitched(TaskEvent):
    """Jumbo jobs were switched on or off for the task.

    `asks_again`: queues for co-jumbo jobs are asked for at once, for the next of its job sets that wait for some.
    """

    enabled: bool
    asks_again: bool = False


class TaskPointsOpened(TaskEvent):
    """A search of hyper-parameters has new points: more jobs may evaluate them."""
