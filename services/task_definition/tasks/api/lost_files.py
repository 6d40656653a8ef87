"""/api/v1/file_server/upload_file_recovery_request: has lost outputs of a task made again.

The published client asks by this path, beside that of the command. Owners and production may.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Depends
from starlette.responses import Response

from services.task_definition.tasks.commanding.command import Command
from services.task_definition.tasks.commanding.commands import Commands
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.web.envelope import Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

Commander = Annotated[Caller, Depends(require(access.COMMANDS, "user", "production", right="modify"))]


def lost_file_routes(database: Database, commands: Commands) -> APIRouter:
    """The one path that is not among those of commands."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/file_server", tags=["files"])

    @router.post("/upload_file_recovery_request")
    async def upload_file_recovery_request(
        caller: Commander,
        task_id: Annotated[Id, Body(embed=True)],
        dry_run: Annotated[bool, Body(embed=True)] = False,
    ) -> Response:
        """Make lost outputs of a task again, or say what would be done (`task/recover_lost_files`).

        Data is what was done, because the client shows it.
        """
        wanted = Command("recover_lost_files", task_id, {"dry_run": True} if dry_run else {}, "")
        async with database.begin(reason=f"lost files asked for by {caller.name}") as work:
            reply = await commands.execute(work, wanted, caller)
        if reply.accepted:
            return Envelope(reply.message, reply.message)
        return refused(reply.code, reply.message, reply.problems)

    return router
