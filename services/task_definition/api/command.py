"""/api/v1/task: commands.

Users may command their own tasks, production and operators all. The right for kill and finish is cancel, for the others
modify. Data is 0 or a code from 1 to 5 (2 not found, 3 not permitted, 4 irrelevant status, 5 wrong value).
"""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Body, Depends
from starlette.responses import Response

from services.task_definition.commanding import Command, Commands
from services.task_definition.policy.task_parameters.rule_text import NAME_OF_CODE
from shared.auth import Caller, require
from shared.db.database import Database
from shared.model.task_spec_problems import problem
from shared.model.whole_numbers import LARGEST_ID
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

Canceller = Annotated[Caller, Depends(require("user", "production", right="cancel"))]
Commander = Annotated[Caller, Depends(require("user", "production", right="modify"))]
Producer = Annotated[Caller, Depends(require("production", right="modify"))]
TaskId = Annotated[Id, Body(embed=True)]
Reason = Annotated[str, Body(max_length=500, embed=True)]
Choice = Annotated[bool, Body(embed=True)]
Place = Annotated[str | None, Body(max_length=255, embed=True)]


def command_routes(database: Database, commands: Commands) -> APIRouter:
    """One route for each verb."""
    routes, router = (
        CommandRoutes(database, commands),
        APIRouter(route_class=JsonRoute, prefix="/api/v1/task", tags=["commands"]),
    )
    for command in (
        routes.kill,
        routes.finish,
        routes.retry,
        routes.reactivate,
        routes.reload_input,
        routes.pause,
        routes.resume,
        routes.reassign,
        routes.avalanche,
        routes.increase_attempts,
        routes.change_priority,
        routes.change_share,
        routes.change_split_rule,
    ):
        router.post(f"/{command.__name__}")(command)
    return router


class CommandRoutes:
    """A method for each command, named as its path."""

    def __init__(self, database: Database, commands: Commands) -> None:
        self._database, self._commands = database, commands

    async def _execute(self, caller: Caller, verb: str, task_id: int, reason: str, **details: Any) -> Response:
        given = {name: value for name, value in details.items() if value is not None}
        async with self._database.begin(reason=f"{verb} by {caller.name}") as work:
            reply = await self._commands.execute(work, Command(verb, task_id, given, reason), caller)
        if reply.accepted:
            return Envelope(reply.code, reply.message)
        return refused(reply.code, reply.message, reply.problems)

    async def kill(self, caller: Canceller, task_id: TaskId, reason: Reason = "") -> Response:
        """End a task and its jobs: aborted."""
        return await self._execute(caller, "kill", task_id, reason)

    async def finish(self, caller: Canceller, task_id: TaskId, soft: Choice = False, reason: Reason = "") -> Response:
        """End a task with what it has; soft waits for the jobs that run."""
        return await self._execute(caller, "finish", task_id, reason, soft=soft)

    async def retry(
        self,
        caller: Commander,
        task_id: TaskId,
        new_parameters: Annotated[dict[str, Any] | str | None, Body(embed=True)] = None,
        no_child_retry: Choice = False,
        reason: Reason = "",
    ) -> Response:
        """Try what failed again (exhausted tasks: production only), with changed parameters if given."""
        changes = _object(new_parameters)
        if changes is None:
            return refused(BAD_REQUEST, problems=[problem("new_parameters", new_parameters, "allowed: an object")])
        return await self._execute(
            caller, "retry", task_id, reason, new_parameters=changes or None, sole=no_child_retry or None
        )

    async def reactivate(
        self, caller: Commander, task_id: TaskId, keep_attempt_nr: Choice = False, reason: Reason = ""
    ) -> Response:
        """Try an ended task again with all its attempts, or end the waiting of a pending one."""
        return await self._execute(caller, "reactivate", task_id, reason, keep_attempt_nr=keep_attempt_nr)

    async def reload_input(self, caller: Commander, task_id: TaskId, reason: Reason = "") -> Response:
        """Read the input datasets again: incremental execution."""
        return await self._execute(caller, "reload_input", task_id, reason)

    async def pause(self, caller: Commander, task_id: TaskId, reason: Reason = "") -> Response:
        """Do nothing until resumed."""
        return await self._execute(caller, "pause", task_id, reason)

    async def resume(self, caller: Commander, task_id: TaskId, reason: Reason = "") -> Response:
        """Go on after pause or throttling."""
        return await self._execute(caller, "resume", task_id, reason)

    async def reassign(
        self,
        caller: Producer,
        task_id: TaskId,
        site: Place = None,
        cloud: Place = None,
        nucleus: Place = None,
        soft: Choice = True,
        reason: Reason = "",
    ) -> Response:
        """Production: send a task elsewhere; without a target the task brokerage chooses again."""
        return await self._execute(
            caller, "reassign", task_id, reason, site=site, cloud=cloud, nucleus=nucleus, soft=soft
        )

    async def avalanche(self, caller: Producer, task_id: TaskId, reason: Reason = "") -> Response:
        """Production: do not wait for the scouts."""
        return await self._execute(caller, "avalanche", task_id, reason)

    async def increase_attempts(
        self, caller: Commander, task_id: TaskId, increase: Annotated[int, Body(embed=True)] = 5, reason: Reason = ""
    ) -> Response:
        """More attempts for every unit of input that is not processed."""
        return await self._execute(caller, "increase_attempts", task_id, reason, increase=increase)

    async def change_priority(
        self, caller: Commander, task_id: TaskId, priority: Annotated[int, Body(embed=True)], reason: Reason = ""
    ) -> Response:
        """Priority of the task and of its waiting jobs; owners up to what their class allows."""
        return await self._execute(caller, "change_priority", task_id, reason, priority=priority)

    async def change_share(
        self,
        caller: Producer,
        task_id: TaskId,
        share: Annotated[str, Body(max_length=200, embed=True)],
        reason: Reason = "",
    ) -> Response:
        """Production: share of the task and of its waiting jobs."""
        return await self._execute(caller, "change_share", task_id, reason, share=share)

    async def change_split_rule(
        self,
        caller: Commander,
        task_id: TaskId,
        attribute_name: Annotated[str, Body(embed=True, max_length=64)],
        attribute_value: Annotated[int | bool | str | None, Body(embed=True, union_mode="left_to_right")] = None,
        reason: Reason = "",
    ) -> Response:
        """Change one split rule of a live task, by its name or its two letters; without a value take it away."""
        name = NAME_OF_CODE.get(attribute_name, attribute_name)
        if isinstance(attribute_value, int) and abs(attribute_value) > LARGEST_ID:
            attribute_value = str(attribute_value)  # no number that is stored anywhere: refused with what is allowed
        return await self._execute(caller, "change_split_rule", task_id, reason, rules={name: attribute_value})


def _object(value: dict[str, Any] | str | None) -> dict[str, Any] | None:
    """new_parameters come as an object or as JSON text; None where it is neither."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None
