"""/api/v1/task/get_commands: what may be asked of a task, and of that what the caller may ask now."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from services.task_definition.tasks.commanding.permitting import CommandedTask, refusal_of
from services.task_definition.tasks.policy.command_table import COMMANDS
from services.task_definition.tasks.policy.task_command import TaskCommand
from services.task_definition.tasks.store import reads
from services.task_definition.tasks.store.reads import TaskFilter
from shared.auth import Caller, access, require
from shared.auth.state_view import WITHHELD
from shared.db.database import Database
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

Reader = Annotated[Caller, Depends(require(access.DETAILS))]


def offer_routes(database: Database) -> APIRouter:
    """One question: what may be asked of a task."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/task", tags=["commands"])

    @router.get("/get_commands")
    async def get_commands(caller: Reader, task_id: Id) -> Response:
        """Every command: what it does and takes, and why it would be refused to the caller now, if it would.

        `refused` null: nothing of the task's row speaks against it.
        """
        async with database.read() as connection:
            found = await reads.list_tasks(connection, TaskFilter(task_ids=[task_id], at_most=1), caller, counts=False)
        if not found or WITHHELD in found[0]:
            return refused(NOT_FOUND, f"task {task_id} not found")
        task = CommandedTask(**{one.name: found[0][one.name] for one in fields(CommandedTask)})
        return Envelope([_offered(one, task, caller) for one in COMMANDS])

    return router


def _offered(command: TaskCommand, task: CommandedTask, caller: Caller) -> dict[str, Any]:
    """One command for somebody who looks at a task."""
    reply = refusal_of(task, command.name, {}, caller)
    why = None if reply is None else reply.message
    if why is None and not caller.has_right(command.right):
        why = f"{caller.name} needs the right {command.right}, to which the token is not limited"
    return {
        **{name: getattr(command, name) for name in ("name", "does", "leads_to", "jobs", "files", "children", "who")},
        "path": command.api_path,
        "verb": command.cli_verb,
        "takes": [asdict(one) for one in command.takes],
        "refused": why,
    }
