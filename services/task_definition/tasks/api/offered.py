"""/api/v1/task/get_commands, preview_command: what may be asked, and what it would hit."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from services.task_definition.tasks.commanding.permitting import CommandedTask, refusal_of
from services.task_definition.tasks.policy.command_table import COMMANDS
from services.task_definition.tasks.policy.task_command import TaskCommand
from services.task_definition.tasks.store import reads
from services.task_definition.tasks.store.reads import TaskFilter
from shared.auth import Caller, access, require
from shared.auth.state_view import WITHHELD
from shared.db.database import Database
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id, ids_of

#: tasks of one preview: as many as a list of the console shows
MOST_PREVIEWED = 100
#: jobs of each state that are counted, of all tasks of a preview together
COUNTED_TO = 10_000
Text = Annotated[str, Query(min_length=1, max_length=60)]
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
        task = _commanded(found[0])
        return Envelope([{**_described(one), "refused": _why_refused(one, task, caller)} for one in COMMANDS])

    @router.get("/preview_command")
    async def preview_command(
        caller: Reader, command: Text, task_ids: Annotated[list[str] | None, Query()] = None
    ) -> Response:
        """Tell what a command does, and of each task its state, jobs, and why it would be refused.

        `tasks`: in the order in which they are named; `refused` null: nothing of the task's row speaks against it.
        `jobs`: counted so far that it takes the same time for tasks of any size; `more_jobs`: states that have more.
        """
        wanted = ids_of(task_ids, "task_ids")
        known = {name: one for one in COMMANDS for name in (one.name, one.cli_verb)}
        if command not in known or len(wanted) > MOST_PREVIEWED:
            told = [
                problem("command", command, f"allowed: {', '.join(one.cli_verb for one in COMMANDS)}")
                if command not in known
                else problem("task_ids", f"{len(wanted)} ids", f"allowed: at most {MOST_PREVIEWED}")
            ]
            return refused(BAD_REQUEST, problems=told)
        filtered, count_to = TaskFilter(task_ids=wanted, at_most=MOST_PREVIEWED), COUNTED_TO // max(1, len(wanted))
        async with database.read() as connection:
            found = await reads.list_tasks(connection, filtered, caller, count_to=count_to)
        rows = {row["task_id"]: row for row in found if WITHHELD not in row}
        tasks = [_previewed(known[command], task_id, rows.get(task_id), caller) for task_id in dict.fromkeys(wanted)]
        return Envelope({"command": _described(known[command]), "tasks": tasks})

    return router


def _previewed(command: TaskCommand, task_id: int, row: dict[str, Any] | None, caller: Caller) -> dict[str, Any]:
    """One task that a command would hit, or why it would not."""
    if row is None:
        return {"task_id": task_id, "refused": f"task {task_id} not found"}
    kept = ("task_id", "task_name", "status", "user_name", "jobs", "more_jobs", "files")
    return {**{name: row[name] for name in kept}, "refused": _why_refused(command, _commanded(row), caller)}


def _commanded(row: dict[str, Any]) -> CommandedTask:
    return CommandedTask(**{one.name: row[one.name] for one in fields(CommandedTask)})


def _why_refused(command: TaskCommand, task: CommandedTask, caller: Caller) -> str | None:
    reply = refusal_of(task, command.name, {}, caller)
    if reply is not None:
        return reply.message
    if caller.has_right(command.right):
        return None
    return f"{caller.name} needs the right {command.right}, to which the token is not limited"


def _described(command: TaskCommand) -> dict[str, Any]:
    kept = ("name", "does", "leads_to", "jobs", "files", "children", "who")
    return {
        **{name: getattr(command, name) for name in kept},
        "path": command.api_path,
        "verb": command.cli_verb,
        "takes": [asdict(one) for one in command.takes],
    }
