"""Which event-service tasks use jumbo jobs (JEDI: Jumbo job switcher).

Tasks with few remaining events lose their jumbo jobs, whether they stated nJumboJobs or were found here; then, while
there are too few tasks and events with jumbo jobs, the eligible task with the most remaining events gets them, again
and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.config.parameter import Parameter, set_by

#: `tasks.use_jumbo`: waiting for its first jumbo job, disabled. Others (running, pending, lack) count as enabled.
WAITING, DISABLED = "W", "D"


COMPONENT = "jumbo_dog"


def _unless_negative(number: int) -> int | None:
    return number if number >= 0 else None


@dataclass(frozen=True)
class JumboLimits:
    """The parameters JUMBO_*; None takes the value that follows from the others."""

    max_tasks: int = set_by(Parameter(COMPONENT, "JUMBO_MAX_TASKS", 1, "tasks", "with jumbo jobs at a time"), int)
    min_events_disable: int = set_by(
        Parameter(COMPONENT, "JUMBO_MIN_EVENTS_DISABLE", 100_000, "events", "fewer remaining: jumbo jobs off"), int
    )
    min_events_enable: int | None = set_by(
        Parameter(COMPONENT, "JUMBO_MIN_EVENTS_ENABLE", -1, "events", "more remaining: on; -1: DISABLE x 10", -1),
        _unless_negative,
    )
    max_events: int | None = set_by(
        Parameter(COMPONENT, "JUMBO_MAX_EVENTS", -1, "events", "at most so many wanted; -1: TASKS x ENABLE / 2", -1),
        _unless_negative,
    )
    max_current_priority: int = set_by(
        Parameter(COMPONENT, "JUMBO_MAX_CURR_PRIO", 500, "priority", "most of a task that gets jumbo jobs", -1e9), int
    )

    @property
    def enable_from(self) -> int:
        """More remaining events than this may enable: JUMBO_MIN_EVENTS_DISABLE x 10 unless given."""
        return self.min_events_disable * 10 if self.min_events_enable is None else self.min_events_enable

    @property
    def events_wanted(self) -> int:
        """Below so many remaining events with jumbo jobs more are enabled: MAX_TASKS x MIN_EVENTS_ENABLE / 2."""
        return self.max_tasks * self.enable_from // 2 if self.max_events is None else self.max_events


@dataclass(frozen=True)
class JumboTask:
    """An active event-service task. Zero stands for a number that the task does not set."""

    task_id: int
    use_jumbo: str | None
    priority: int
    remaining_events: int
    software: str
    site: str | None = None
    in_file_positions: bool = False
    files_per_job: int = 0
    events_per_job: int = 0
    events_per_file: int = 0

    @property
    def enabled(self) -> bool:
        """Whether the task may have jumbo jobs at all."""
        return self.use_jumbo not in (None, DISABLED)

    @property
    def positional(self) -> bool:
        """Jumbo jobs work with positions of events in their file; only such tasks number them so."""
        return self.in_file_positions or self.files_per_job == 1 or 0 < self.events_per_job < self.events_per_file


@dataclass(frozen=True)
class Switch:
    """Jumbo jobs go on or off for one task."""

    task_id: int
    enable: bool
    reason: str


def decide(tasks: Sequence[JumboTask], software_at_jumbo_queues: Iterable[str], limits: JumboLimits) -> list[Switch]:
    """The switches to make now: first those off, by task, then those on, the largest first."""
    available = frozenset(software_at_jumbo_queues)
    off = [
        Switch(
            task.task_id,
            False,
            f"{task.remaining_events} events remain, fewer than the limit of {limits.min_events_disable}",
        )
        for task in sorted(tasks, key=lambda task: task.task_id)
        if task.enabled and task.remaining_events < limits.min_events_disable
    ]
    switched_off = {switch.task_id for switch in off}
    active = [task for task in tasks if task.enabled and task.task_id not in switched_off]
    n_tasks, n_events = len(active), sum(task.remaining_events for task in active)
    on = []
    candidates = [task for task in tasks if _eligible(task, available, limits)]
    for task in sorted(candidates, key=lambda task: (-task.remaining_events, task.task_id)):
        if n_tasks >= limits.max_tasks or n_events >= limits.events_wanted:
            break
        on.append(
            Switch(
                task.task_id,
                True,
                f"{task.remaining_events} events remain, the most of all eligible tasks; {n_tasks} of"
                f" {limits.max_tasks} tasks and {n_events} of {limits.events_wanted} events had jumbo jobs",
            )
        )
        n_tasks += 1
        n_events += task.remaining_events
    return [*off, *on]


def _eligible(task: JumboTask, available: frozenset[str], limits: JumboLimits) -> bool:
    """Not enabled yet, large, not urgent, software at a jumbo queue, positional event numbers, no site of its own."""
    return (
        task.use_jumbo is None
        and task.remaining_events > limits.enable_from
        and task.priority < limits.max_current_priority
        and task.software in available
        and task.positional
        and not task.site
    )
