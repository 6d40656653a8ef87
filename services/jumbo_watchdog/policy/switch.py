"""Which event-service tasks use jumbo jobs (JEDI: Jumbo job switcher).

Tasks with few remaining events lose their jumbo jobs, whether they stated nJumboJobs or were found here; then, while
there are too few tasks and events with jumbo jobs, the eligible task with the most remaining events gets them, again
and again. Tasks that lost them, or are nearly done, go before others; those whose jumbo jobs are all gone get new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.config.parameter import Parameter, set_by
from shared.states.task import TaskStatus

#: `tasks.use_jumbo`: waiting for its first jumbo job, disabled. Others (running, pending, lack) count as enabled.
WAITING, DISABLED = "W", "D"
#: running and pending: looked at again only after jumbo jobs are found to lack
RUNNING, PENDING, LACK = "R", "P", "L"
#: priority of a task that is nearly done
NEAR_PRIORITY = 900

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
    percent_to_boost: float = set_by(
        Parameter(COMPONENT, "JUMBO_PROG_TO_BOOST", 95.0, "%", "of the events processed: priority 900", 0, 101), float
    )
    max_files_to_boost: int = set_by(
        Parameter(COMPONENT, "JUMBO_MAX_FILES_TO_BOOST", 500, "files", "more left: no priority 900"), int
    )
    priority_when_disabled: int = set_by(
        Parameter(COMPONENT, "JUMBO_PRIO_DISABLED", 500, "priority", "at least, once jumbo jobs are off", -1e9), int
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
    """An active event-service task. Zero stands for a number that the task does not set.

    `has_place`: a queue that runs jumbo jobs has its software. `n_active_jumbo_jobs`: live ones. `ready_ranges`: of its
    events those that no job has.
    """

    task_id: int
    use_jumbo: str | None
    priority: int
    remaining_events: int
    has_place: bool
    status: TaskStatus = "running"
    site: str | None = None
    total_events: int = 0
    files_left: int = 0
    n_active_jumbo_jobs: int = 0
    ready_ranges: int = 0
    files_waiting: int = 0
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


@dataclass(frozen=True)
class Boost:
    """A task gets at least this priority."""

    task_id: int
    priority: int
    reason: str


@dataclass(frozen=True)
class Decided:
    """What is switched, and why each task has jumbo jobs or not."""

    switches: Sequence[Switch]
    reasons: Mapping[int, str]


def decide(tasks: Sequence[JumboTask], limits: JumboLimits) -> Decided:
    """The switches to make now: first those off, by task, then those on, the largest first."""
    reasons: dict[int, str] = {}
    off, active = [], []
    for task in sorted(tasks, key=lambda task: task.task_id):
        remain, limit = f"{task.remaining_events} events remain", limits.min_events_disable
        if task.enabled and task.remaining_events < limit:
            off.append(Switch(task.task_id, False, f"{remain}, fewer than the limit of {limit}"))
        elif task.enabled:
            active.append(task)
            reasons[task.task_id] = f"on: {remain}, not fewer than the limit of {limit}"
    n_tasks, n_events = len(active), sum(task.remaining_events for task in active)
    on = []
    for task in sorted(tasks, key=lambda task: (-task.remaining_events, task.task_id)):
        if task.enabled:
            continue
        refusal = _refusal(task, limits)
        have = f"{n_tasks} of {limits.max_tasks} tasks and {n_events} of {limits.events_wanted} events"
        if refusal is not None:
            reasons[task.task_id] = f"off: {refusal}"
        elif n_tasks >= limits.max_tasks or n_events >= limits.events_wanted:
            reasons[task.task_id] = f"off: {have} have jumbo jobs already, of tasks with as many events left or more"
        else:
            remain = f"{task.remaining_events} events remain, the most of all eligible tasks"
            on.append(Switch(task.task_id, True, f"{remain}; {have} had jumbo jobs"))
            n_tasks += 1
            n_events += task.remaining_events
    switches = [*off, *on]
    return Decided(switches, reasons | {one.task_id: f"{_WORD[one.enable]}: {one.reason}" for one in switches})


_WORD = {True: "on", False: "off"}


def boosts(tasks: Iterable[JumboTask], limits: JumboLimits) -> list[Boost]:
    """Tasks that go before others: nearly done ones, and those that lost their jumbo jobs.

    Of a task that has, or had, jumbo jobs: 900 with 95 % of the events processed and fewer than 500 files left, else at
    least 500 once jumbo jobs are off. Source: PanDA server, JumboWatchDog (that the percentage is of processed events
    is what its documentation means).
    """
    found = []
    for task in sorted(tasks, key=lambda task: task.task_id):
        if task.use_jumbo is None:
            continue
        processed = max(0, task.total_events - task.remaining_events)
        near = task.total_events > 0 and 100 * processed >= limits.percent_to_boost * task.total_events
        if near and task.files_left < limits.max_files_to_boost and task.priority < NEAR_PRIORITY:
            reason = (
                f"nearly done: {processed} of {task.total_events} events are processed (from "
                f"{limits.percent_to_boost:g} % on), {task.files_left} files are left (fewer than "
                f"{limits.max_files_to_boost})"
            )
            found.append(Boost(task.task_id, NEAR_PRIORITY, reason))
        elif task.use_jumbo == DISABLED and task.priority < limits.priority_when_disabled:
            found.append(Boost(task.task_id, limits.priority_when_disabled, "its jumbo jobs are off"))
    return found


def kicks(tasks: Iterable[JumboTask]) -> list[int]:
    """Tasks that count as served by jumbo jobs, or as out of events, but have none, and free ranges."""
    return sorted(
        task.task_id
        for task in tasks
        if task.status in ("pending", "running")
        and task.use_jumbo in (RUNNING, PENDING)
        and task.n_active_jumbo_jobs == 0
        and task.ready_ranges > 0
    )


def asks_again(tasks: Iterable[JumboTask]) -> dict[int, str]:
    """Tasks whose waiting job sets ask for co-jumbo jobs anew, each with why.

    Of a task with priority 900 or more none waits for its turn. Source: PanDA server, JumboWatchDog (input is reset so
    that co-jumbo jobs are made anew).
    """
    return {
        task.task_id: f"looked at again: priority {task.priority} is at least {NEAR_PRIORITY}, and "
        f"{task.files_waiting} files wait for co-jumbo jobs"
        for task in sorted(tasks, key=lambda task: task.task_id)
        if task.use_jumbo is not None
        and task.priority >= NEAR_PRIORITY
        and task.files_waiting > 0
        and task.status in ("ready", "scouting", "running")
    }


def _refusal(task: JumboTask, limits: JumboLimits) -> str | None:
    """The first thing that keeps a task from getting jumbo jobs; None: it is eligible."""
    if task.use_jumbo == DISABLED:
        return "jumbo jobs were switched off, and are not switched on again"
    if task.remaining_events <= limits.enable_from:
        return f"{task.remaining_events} events remain, not more than the limit of {limits.enable_from}"
    if task.priority >= limits.max_current_priority:
        return f"priority {task.priority}, not below {limits.max_current_priority}"
    if not task.has_place:
        return "no online queue that runs jumbo jobs has its software"
    if not task.positional:
        return "its events have no positions in their files: inFilePosEvtNum, nFilesPerJob = 1, or fewer nEventsPerJob"
    return f"it is sent to {task.site}" if task.site else None
