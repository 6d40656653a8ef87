"""A command as it was given, and how one that was carried out is told to the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.auth import Caller
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommanded
from shared.states.task import TaskStatus

#: commands that no person gave
SYSTEM = Caller("task_definition", frozenset({"operator"}), frozenset(), source="services")


@dataclass(frozen=True)
class Command:
    """What was asked: the verb and its details (soft, increase, site, new_parameters, ...).

    `by`: who asked.
    """

    verb: str
    task_id: int
    details: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    by: Caller = SYSTEM
    by_production: bool = False


#: ends or moves a task once its jobs are gone
Settle = Callable[[UnitOfWork, TaskRow], Awaitable[None]]
#: carries one command out: the task's row is locked, its state and the caller's rights are checked
Execute = Callable[[UnitOfWork, TaskRow, Command, str], Awaitable[rules.Reply]]


async def announce(
    work: UnitOfWork, task: TaskRow, command: Command, status: TaskStatus, *, soft: bool = False
) -> rules.Reply:
    """Remember the command with the task, and tell the others."""
    await store.note_command(work, task.task_id, command.verb, command.details)
    work.emit(TaskCommanded(task_id=task.task_id, command=command.verb, status=status, soft=soft))
    return rules.Reply(rules.OK, f"command {command.verb} accepted; task {task.task_id} is {status}")
