"""Commands on tasks: the states in which each is accepted, and the state it leads to.

Source: JEDI, Task Commando.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem
from shared.states import TASK, Owner
from shared.states.task import MEANINGS, REASSIGNABLE, TaskStatus

#: reply codes of the API (PanDA client: task/kill and others)
OK, FAILED, NOT_FOUND, NOT_PERMITTED, IRRELEVANT, BAD_VALUE = 0, 1, 2, 3, 4, 5

_OVER: tuple[TaskStatus, ...] = ("finished", "done", "prepared", "broken", "aborted", "toabort", "aborting", "failed")
_ENDED: tuple[TaskStatus, ...] = ("finished", "failed", "aborted", "exhausted")


_UNDER_WAY: frozenset[TaskStatus] = frozenset(
    {"ready", "scouting", "scouted", "running", "pending", "throttled", "paused"}
)


def _sources(target: TaskStatus, *without: TaskStatus) -> frozenset[TaskStatus]:
    return frozenset(TASK.sources(target, Owner.TASK_DEFINITION)) - set(without)


#: command -> the states in which it is accepted
ACCEPTED: Mapping[str, frozenset[TaskStatus]] = {
    "kill": _sources("aborting", *_OVER),
    "finish": _sources("finishing", *_OVER),
    "retry": frozenset(_ENDED),
    "reload_input": frozenset({*_ENDED, "done", "pending"}),
    "reactivate": frozenset({*_ENDED, "pending"}),
    "reassign": frozenset(REASSIGNABLE),
    "pause": _sources("paused"),
    "resume": frozenset({"paused", "throttled"}),
    "avalanche": frozenset({"scouting"}),
    "change_priority": frozenset(MEANINGS) - set(_OVER),
    "change_share": frozenset(MEANINGS) - set(_OVER),
    "increase_attempts": _UNDER_WAY,
    "change_split_rule": frozenset({*_UNDER_WAY, "registered", "defined", "assigning"}),
}
#: states behind which the state to return to is kept: pausing such a task must not lose it
_KEEPS_OLD_STATUS: tuple[TaskStatus, ...] = ("pending", "throttled")


@dataclass(frozen=True)
class Reply:
    """The code of the API, one sentence, and the values that were refused."""

    code: int
    message: str
    problems: tuple[FieldProblem, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the command is carried out."""
        return self.code == OK


def refused_value(field: str, value: Any, allowed: str) -> Reply:
    """The reply to a value that makes no sense."""
    told = problem(field, value, allowed)
    return Reply(BAD_VALUE, str(told), (told,))


@dataclass(frozen=True)
class CommandRefusal:
    """Why a command is not carried out; `code` as in the API."""

    code: int
    reason: str


def refuse(command: str, status: TaskStatus) -> CommandRefusal | None:
    """The refusal of a command for a task in this state, or None."""
    accepted = ACCEPTED[command]
    if status not in accepted:
        allowed = ", ".join(sorted(accepted))
        return CommandRefusal(IRRELEVANT, f"{command} is refused for a task that is {status}; allowed: {allowed}")
    return None


def status_to_return_to(status: TaskStatus, old_status: TaskStatus | None) -> TaskStatus:
    """What a paused task keeps: its own state, or the one behind a state that only waits."""
    return old_status if status in _KEEPS_OLD_STATUS and old_status else status


#: states in which jobs were made: what a resumed task does next is for job generation to find
WORKING: frozenset[TaskStatus] = frozenset({"scouting", "scouted", "running"})


def resumed_status(status: TaskStatus, old_status: TaskStatus | None) -> TaskStatus:
    """Where a resumed task goes on; one whose state is not known starts at ready."""
    wanted: TaskStatus = old_status or "ready"
    allowed = TASK.edges()
    return wanted if (status, wanted) in allowed else "ready"


def needs_nucleus(*, is_analysis: bool, nucleus: str | None, site: str | None, cloud: str | None) -> bool:
    """Whether a nucleus has to be chosen before jobs are made: not for analysis and pre-assigned tasks."""
    return not (is_analysis or nucleus or site or cloud not in (None, "WORLD"))


def retried_status(
    came_from: TaskStatus, old_status: TaskStatus | None, *, has_scout_data: bool, needs_nucleus: bool = False
) -> TaskStatus:
    """The state of a retried task: ready, or assigning where it ended before a nucleus was chosen.

    A task that was exhausted while it scouted or ran goes straight on, to running if its scouts measured.
    """
    if came_from == "exhausted" and old_status in ("running", "scouting"):
        return "running" if has_scout_data else "scouting"
    return "assigning" if needs_nucleus else "ready"


def reassigned_status(old_status: TaskStatus | None, *, has_target: bool) -> TaskStatus:
    """Without a target the task brokerage chooses again."""
    if not has_target:
        return "assigning"
    known: tuple[TaskStatus, ...] = ("ready", "running", "scouting", "scouted", "defined")
    return old_status if old_status in known else "ready"


def refused_changes(changes: Mapping[str, Any], changeable: frozenset[str]) -> list[str]:
    """Parameters that a retry may not change."""
    return sorted(set(changes) - changeable)


def units(number: int) -> str:
    """ "1 unit of input", "3 units of input"."""
    return f"{number} unit{'s' * (number != 1)} of input"


def what_is_retried(reopened: int, left: int) -> str:
    """What a retry works on: units that were given up, and those that the task left undone when it ended."""
    goes_on = "goes on" if left == 1 else "go on"
    if not left:
        return f"{units(reopened)} re-opened"
    if not reopened:
        return f"{units(left)} not done yet {goes_on}"
    return f"{units(reopened)} re-opened, {left} not done yet {goes_on}"
