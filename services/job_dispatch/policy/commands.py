"""What a command on a task does to its jobs (JEDI: commands; job kill codes)."""

from __future__ import annotations

from dataclasses import dataclass

from shared.states.job import BEFORE_ACTIVATION, LIVE, ON_NODE, QUEUED, JobStatus
from shared.states.task import TaskStatus

#: states of a task in which a command that ends or holds jobs still means what it meant when it was given: a task that
#: was retried or resumed since must not lose its new jobs to a message that comes late
_OVER: frozenset[TaskStatus] = frozenset({"done", "finished", "failed", "broken", "aborted"})
#: what the watchdog orders for a task that is paused for long
GIVE_BACK = "give_back"
IN_FORCE: dict[str, frozenset[TaskStatus]] = {
    "kill": _OVER | {"aborting", "toabort", "tobroken"},
    "finish": _OVER | {"finishing", "passed"},
    "pause": frozenset({"paused"}),
    GIVE_BACK: frozenset({"paused"}),
    "reassign": frozenset({"reassigning"}),
}


@dataclass(frozen=True)
class CommandStep:
    """Jobs in `sources` go to `target`; jobs of the `spared` types stay."""

    sources: tuple[JobStatus, ...]
    target: JobStatus
    reason: str
    spared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Order:
    """A command as it was given."""

    command: str
    soft: bool


#: what takes more jobs is stronger; pause and resume, which are never in force together, are the weakest
_STRENGTH = {("kill", False): 4, ("kill", True): 4, ("finish", False): 3, ("finish", True): 2}


def takes_over(present: Order, new: Order, task_status: TaskStatus) -> bool:
    """Whether a command starts anew while another one of the same task is under way.

    It does if it is the stronger one, or if the task has left the other behind.
    """
    if present == new:
        return False
    if not is_in_force(present.command, task_status):
        return True
    return _STRENGTH.get((new.command, new.soft), 1) > _STRENGTH.get((present.command, present.soft), 1)


def is_in_force(command: str, task_status: TaskStatus) -> bool:
    """Whether a command still holds for a task that is in this state by now.

    Messages may come late or in another order: what counts is the task, not the message.
    """
    if command == "resume":
        return task_status != "paused"
    return task_status in IN_FORCE.get(command, ())


def steps_of(command: str, *, soft: bool) -> tuple[CommandStep, ...]:
    """The steps of a command; none for a command that leaves jobs alone.

    kill takes every live job. finish takes what has not run, and without `soft` what runs too, but lets outputs that
    are being registered or moved arrive; merge jobs are spared by the soft one, because they complete finished work. A
    pause holds back what a pilot could take; what has not come so far is given back when it lasts (10 minutes), and
    what runs goes on.
    """
    if command == "kill":
        return (CommandStep(LIVE, "cancelled", "task killed"),)
    if command == "finish" and soft:
        return (CommandStep(QUEUED, "closed", "task finishes softly", spared=("merge",)),)
    if command == "finish":
        return (
            CommandStep(QUEUED, "closed", "task finishes"),
            CommandStep((*ON_NODE, "merging"), "cancelled", "task finishes"),
        )
    if command == "pause":
        return (CommandStep(("activated",), "throttled", "task paused"),)
    if command == GIVE_BACK:
        return (CommandStep(BEFORE_ACTIVATION, "closed", "task paused for long"),)
    if command == "resume":
        return (CommandStep(("throttled",), "activated", "task resumed"),)
    if command == "reassign":
        queued = CommandStep(QUEUED, "closed", "task reassigned")
        return (queued,) if soft else (queued, CommandStep(ON_NODE, "closed", "task reassigned"))
    return ()
