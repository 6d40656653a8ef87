"""/api/v1/job/*: commands for pilots, debug mode, and the output that it brings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import BeforeValidator, Field

from services.job_dispatch.api.body import HEARTBEAT, fields_of
from services.job_dispatch.api.job import body_of
from services.job_dispatch.api.requests import INVALID, BadRequest, RequestFields, job_ids_of, parse
from services.job_dispatch.lifecycle.commanding import CommandNotAllowed, NotLive, leave_command
from services.job_dispatch.policy.pilot_commands import DEBUG, DEBUG_OFF, told_to_pilot
from services.job_dispatch.store.job_reads import may_read_output
from services.job_dispatch.store.progress import SQL
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id, Truth, absent

#: the API's number of a refusal (PanDA client: job and task commands)
NOT_PERMITTED = 3

ANYBODY = require(access.COMMANDS, "user", "pilot", "production", "operator")
READER = require(access.DETAILS, "user", "pilot", "production", "operator")
DEBUGGER = require(access.COMMANDS, "user", "pilot", "production", "operator", right="modify")


def _command(value: Any) -> Any:
    value = absent(value)
    return told_to_pilot(value) if isinstance(value, str) else value


class SetCommand(RequestFields):
    """`job/set_command`: null takes the command back."""

    job_id: Id
    command: Annotated[
        Annotated[str, Field(max_length=300)] | None,
        BeforeValidator(_command),
        Field(description="debug, debugoff, tail FILE, ls [DIR], ps, du [DIR]; tobekilled, softkill, nocleanup"),
    ] = None


class SetDebugMode(RequestFields):
    """`job/set_debug_mode`."""

    job_id: Id
    mode: Truth = None

    @property
    def command(self) -> str:
        return DEBUG if self.mode is not False else DEBUG_OFF


def debug_routes(database: Database) -> APIRouter:
    """Make the routes of debug mode and of the other commands for pilots.

    Commands of debug mode for the owner, the pilot of the job, production and operators. The other commands for
    production and operators; the output for who may read the job's specification. Of a job that carries its owner's
    secrets the output, and debug mode, are for the owner alone and its pilot.
    """
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["jobs"])

    @router.post("/job/set_command", openapi_extra=_COMMAND_BODY)
    async def set_command(request: Request, caller: Annotated[Caller, Depends(ANYBODY)]) -> Response:
        """Leave a command for the pilot that has the job; it is told with every reply until it is taken back."""
        wanted = parse(SetCommand, await fields_of(request, HEARTBEAT))
        return await _told(database, caller, wanted.job_id, wanted.command)

    @router.post("/job/set_debug_mode", openapi_extra=_MODE_BODY)
    async def set_debug_mode(request: Request, caller: Annotated[Caller, Depends(DEBUGGER)]) -> Response:
        """Turn debug mode on or off: the pilot sends the end of its output with frequent reports."""
        wanted = parse(SetDebugMode, await fields_of(request, HEARTBEAT))
        return await _told(database, caller, wanted.job_id, wanted.command)

    @router.get("/job/get_stdout")
    async def get_stdout(job_id: str, caller: Annotated[Caller, Depends(READER)]) -> Response:
        """The end of the payload's output as the pilot sent it last, and when."""
        wanted, *more = job_ids_of(job_id, "job_id")
        if more:
            allowed = "one id is"
            said = f"job_id: value {job_id!r} is not allowed; {allowed}"
            raise BadRequest(INVALID, [FieldProblem("job_id", job_id, allowed, said)])
        async with database.read() as connection:
            row = await SQL.row(connection, "stdout", job_id=wanted)
        if row is None or not may_read_output(caller, dict(row)):
            return refused(NOT_FOUND, f"job {wanted}: there is no output; its owner may set it into debug mode")
        return Envelope({"job_id": wanted, "stdout": row["stdout"], "reported_at": row["reported_at"]})

    return router


async def _told(database: Database, caller: Caller, job_id: int, command: str | None) -> Response:
    try:
        await leave_command(database, caller, job_id, command)
    except NotLive as error:
        return refused(NOT_FOUND, str(error))
    except CommandNotAllowed as error:
        return refused(NOT_PERMITTED, str(error))
    said = f"job {job_id}: its pilot is told: {command}" if command else f"job {job_id}: no command any more"
    return Envelope(said, said)


_COMMAND_BODY = body_of({"job_id": 1001, "command": "debug"}, SetCommand.model_json_schema())
_MODE_BODY = body_of({"job_id": 1001, "mode": True}, SetDebugMode.model_json_schema())
