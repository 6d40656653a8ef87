"""/api/v1/task: commands, one path for each row of the table of commands.

Users may command their own tasks, production and operators all. Data is 0, 3 for a retry that became an incremental
execution, or the code of a refusal from 1 to 5 (2 not found, 3 not permitted, 4 irrelevant status, 5 wrong value).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, create_model
from starlette.responses import Response

from services.task_definition.tasks.commanding.command import Command
from services.task_definition.tasks.commanding.commands import Commands
from services.task_definition.tasks.policy.command_table import COMMANDS
from services.task_definition.tasks.policy.task_command import Given, Kind, TaskCommand
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.model.task_spec_problems import problem
from shared.model.whole_numbers import LARGEST_ID
from shared.task.rule_text import (
    NAME_OF_CODE,
    InvalidRuleText,
    rules_of_text,
)
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

#: what a kind of value is in a body
_TYPES: Mapping[Kind, Any] = {
    "flag": bool,
    "number": int,
    "text": Annotated[str, Field(max_length=200)],
    "place": Annotated[str, Field(max_length=255)],
    "parameters": dict[str, Any] | str,
    "rule": Annotated[int | bool | str, Field(union_mode="left_to_right")],
    "names": Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=10_000)],
}


class CommandBody(BaseModel):
    """What every command takes; what it does not know is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")

    task_id: Id
    reason: Annotated[str, Field(max_length=500)] = ""


def command_routes(database: Database, commands: Commands) -> APIRouter:
    """One route for each command."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/task", tags=["commands"])
    for command in COMMANDS:
        endpoint = _endpoint(command, _Execution(database, commands))
        router.post(f"/{command.api_path}", name=command.api_path, description=_said(command))(endpoint)
    return router


def body_of(command: TaskCommand) -> type[CommandBody]:
    """The form of the body of one command."""
    fields: dict[str, Any] = {one.name: _field(one) for one in command.takes}
    if command.id_name:
        either = AliasChoices("task_id", command.id_name)
        fields["task_id"] = (Annotated[Id, Field(validation_alias=either)], ...)
    name = "".join(word.title() for word in command.name.split("_"))
    return create_model(f"{name}Body", __base__=CommandBody, **fields)


def _field(given: Given) -> tuple[Any, Any]:
    about = Field(description=given.means)
    if given.required:
        return (Annotated[_TYPES[given.kind], about], ...)
    plain = (given.kind == "flag" and given.default is not None) or given.kind == "number"
    return (Annotated[_TYPES[given.kind] if plain else _TYPES[given.kind] | None, about], given.default)


def _said(command: TaskCommand) -> str:
    return f"{command.does} By: {command.who}. Jobs: {command.jobs}. Files: {command.files}."


def _endpoint(command: TaskCommand, execution: _Execution) -> Callable[..., Awaitable[Response]]:
    """A function whose signature says what the framework is to check."""
    roles = ("production",) if command.by_production else ("user", "production")
    caller_of = Annotated[Caller, Depends(require(access.COMMANDS, *roles, right=command.right))]

    async def carry_out(caller: Caller, body: CommandBody) -> Response:
        return await execution.run(command, caller, body)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("caller", keyword, annotation=caller_of),
        inspect.Parameter("body", keyword, annotation=body_of(command)),
    ]
    carry_out.__signature__ = inspect.Signature(parameters, return_annotation=Response)  # type: ignore[attr-defined]
    carry_out.__name__ = command.api_path
    return carry_out


class _Execution:
    """Runs one command in its transaction."""

    def __init__(self, database: Database, commands: Commands) -> None:
        self._database, self._commands = database, commands

    async def run(self, command: TaskCommand, caller: Caller, body: CommandBody) -> Response:
        """The envelope with the code of the API."""
        given = body.model_dump(exclude={"task_id", "reason"})
        details = {name: value for name, value in given.items() if value is not None}
        if "new_parameters" in details:
            changes = _object(details["new_parameters"])
            if changes is None:
                told = problem("new_parameters", details["new_parameters"], "allowed: an object")
                return refused(BAD_REQUEST, problems=[told])
            details["new_parameters"] = changes
        if command.name == "change_split_rule":
            details = {"rules": _rule(details["attribute_name"], details.get("value", details.get("attribute_value")))}
        async with self._database.begin(reason=f"{command.name} by {caller.name}") as work:
            wanted = Command(command.name, body.task_id, details, body.reason)
            reply = await self._commands.execute(work, wanted, caller)
        if reply.accepted:
            return Envelope(reply.data, reply.message)
        return refused(reply.code, reply.message, reply.problems)


def _rule(name: str, value: int | bool | str | None) -> dict[str, Any]:
    """A split rule by its name or its two letters; without a value it is taken away.

    Numbers may come as text, and a rule by its letters has the value of the text of rules (PanDA: change_split_rule).
    """
    if value in ("", "None"):
        value = None
    if isinstance(value, str) and name in NAME_OF_CODE:
        try:
            return dict(rules_of_text(f"{name}={value}"))
        except InvalidRuleText:
            return {NAME_OF_CODE[name]: value}  # refused with what is allowed
    if isinstance(value, str) and value.removeprefix("-").isdigit():
        value = int(value)
    if isinstance(value, int) and abs(value) > LARGEST_ID:
        value = str(value)  # no number that is stored anywhere: refused with what is allowed
    return {NAME_OF_CODE.get(name, name): value}


def _object(value: dict[str, Any] | str) -> dict[str, Any] | None:
    """new_parameters come as an object or as JSON text; None where it is neither."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value) if value else {}
        except ValueError:
            return None
    return value if isinstance(value, dict) else None
