"""Commands on tasks: when each is refused, and the state it leads to.

Source: JEDI, Task Commando.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.task_definition.tasks.policy.command_table import BY_NAME, COMMANDS, REASSIGNMENT_MODES, states_in_words
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem
from shared.states import TASK
from shared.states.task import TaskStatus

#: reply codes of the API (PanDA client: task/kill and others)
OK, FAILED, NOT_FOUND, NOT_PERMITTED, IRRELEVANT, BAD_VALUE = 0, 1, 2, 3, 4, 5
#: the data of a submission or retry that was accepted as an incremental execution
INCREMENTAL = 3

#: command -> the states in which it is accepted
ACCEPTED: Mapping[str, frozenset[TaskStatus]] = {one.name: one.states for one in COMMANDS}
#: states behind which the state to return to is kept: pausing such a task must not lose it
_KEEPS_OLD_STATUS: tuple[TaskStatus, ...] = ("pending", "throttled")

#: what a pending task may have been before its input was known
_NOT_DEFINED_YET: tuple[TaskStatus, ...] = ("registered", "rerefine", "staged")


@dataclass(frozen=True)
class Reply:
    """The code of the API, one sentence, and the values that were refused; `data`: of an accepted one."""

    code: int
    message: str
    problems: tuple[FieldProblem, ...] = ()
    data: int = OK

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
        allowed = states_in_words(accepted)
        return CommandRefusal(IRRELEVANT, f"{command} is refused for a task that is {status}; allowed: {allowed}")
    return None


def needs_production(command: str, status: TaskStatus, details: Mapping[str, Any], *, is_analysis: bool) -> str | None:
    """Why the owner of a task may not give a command without the role production; None where they may.

    Users retry exhausted analysis themselves (JEDI: exhausted); what exhausted production needs is decided by others.
    """
    if BY_NAME[command].by_production:
        return f"{command} needs the role production"
    if command == "retry" and status == "exhausted" and not is_analysis:
        return "retry of exhausted production tasks needs the role production"
    if details.get("ignore_hard_exhausted"):
        return "ignore_hard_exhausted needs the role production"
    return None


def status_to_return_to(status: TaskStatus, old_status: TaskStatus | None) -> TaskStatus:
    """What a paused task keeps: its own state, or the one behind a state that only waits."""
    return old_status if status in _KEEPS_OLD_STATUS and old_status else status


#: states in which jobs were made: what a resumed task does next is for job generation to find
WORKING: frozenset[TaskStatus] = frozenset({"scouting", "scouted", "running"})


def resumed_status(status: TaskStatus, old_status: TaskStatus | None) -> TaskStatus:
    """Where a resumed task goes on; one whose state is not known starts at ready."""
    wanted: TaskStatus = "staged" if status == "staging" else old_status or "ready"
    allowed = TASK.edges()
    return wanted if (status, wanted) in allowed else "ready"


def needs_nucleus(*, is_analysis: bool, nucleus: str | None, site: str | None, cloud: str | None) -> bool:
    """Whether a nucleus has to be chosen before jobs are made: not for analysis and pre-assigned tasks."""
    return not (is_analysis or nucleus or site or cloud not in (None, "WORLD"))


def retried_status(
    came_from: TaskStatus,
    old_status: TaskStatus | None,
    *,
    has_scout_data: bool,
    needs_nucleus: bool = False,
    needs_preprocessing: bool = False,
) -> TaskStatus:
    """The state of a retried task: ready, or assigning where it ended before a nucleus was chosen.

    One whose pre-processing is not done begins with that. A task that was exhausted while it scouted or ran goes
    straight on, to running if its scouts measured.
    """
    if needs_preprocessing:
        return "topreprocess"
    if came_from == "exhausted" and old_status in ("running", "scouting"):
        return "running" if has_scout_data else "scouting"
    return "assigning" if needs_nucleus else "ready"


def reassignment_mode(details: Mapping[str, Any]) -> str | Reply:
    """soft, hard or nokill; a flag `soft` alone says soft or hard. The reply to a contradiction."""
    soft, mode = details.get("soft"), details.get("mode")
    if mode is None:
        return "hard" if soft is False else "soft"
    if mode not in REASSIGNMENT_MODES:
        return refused_value("mode", mode, f"allowed: {', '.join(REASSIGNMENT_MODES)}")
    if soft is not None and soft != (mode == "soft"):
        return refused_value("soft", soft, f"allowed: what the mode {mode} says, or nothing")
    return str(mode)


def reassigned_status(old_status: TaskStatus | None, *, has_target: bool) -> TaskStatus:
    """Without a target the task brokerage chooses again.

    A task whose definition has not ended goes on with that, which then asks for a nucleus where none was given: without
    its input it has nothing to be brokered for. `old_status`: what it was, or what was behind its pending.
    """
    if old_status == "defined":
        return "defined"
    if old_status in _NOT_DEFINED_YET:
        return "pending"
    if not has_target:
        return "assigning"
    known: tuple[TaskStatus, ...] = ("ready", "running", "scouting", "scouted")
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
