"""Whether somebody may give a command for a task now, as far as the task's own row tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from services.task_definition.tasks.policy import commands as rules
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.model.analysis import is_analysis
from shared.states.task import TaskStatus


class Commanded(Protocol):
    """What it depends on."""

    @property
    def task_id(self) -> int: ...
    @property
    def vo(self) -> str: ...
    @property
    def user_name(self) -> str: ...
    @property
    def status(self) -> TaskStatus: ...
    @property
    def task_type(self) -> str: ...
    @property
    def prod_source_label(self) -> str: ...


@dataclass(frozen=True)
class CommandedTask:
    """The same of a task whose row nobody locks."""

    task_id: int
    vo: str
    user_name: str
    status: TaskStatus
    task_type: str
    prod_source_label: str


def refusal_of(task: Commanded, verb: str, details: Mapping[str, Any], caller: Caller) -> rules.Reply | None:
    """Why a command is refused: whose the task is, or its state; None where it is not."""
    if not caller.is_of(task.vo) and not caller.may("operator"):
        return rules.Reply(rules.NOT_PERMITTED, f"task {task.task_id} is of the VO {task.vo}")
    if not caller.may_for(task.vo, "production"):
        if not access.COMMANDS.allows(caller, Whose.of(task.user_name, task.vo)):
            return rules.Reply(rules.NOT_PERMITTED, f"task {task.task_id} is not of {caller.name}")
        for_analysis = is_analysis(task.task_type, task.prod_source_label)
        missing = rules.needs_production(verb, task.status, details, is_analysis=for_analysis)
        if missing is not None:
            return rules.Reply(rules.NOT_PERMITTED, missing)
    refused = rules.refuse(verb, task.status)
    return None if refused is None else rules.Reply(refused.code, refused.reason)
