"""/api/v1/used_up_files: what event ranges left in object stores, until whoever deletes it says so.

Orrery has no port to these stores. Whoever may have the details of a task sees its files; production reports.
"""

from __future__ import annotations

from typing import Annotated, Any

import asyncpg
from fastapi import APIRouter, Body, Depends, Query
from pydantic import Field
from starlette.responses import Response

from services.job_generation.store.used_up_files import SQL
from shared.auth import Caller, access, require
from shared.auth.access import AccessRule, Whose
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id, Page

Reader = Annotated[Caller, Depends(require(access.DETAILS))]
Producer = Annotated[Caller, Depends(require(access.PRODUCTION, "production", right="modify"))]
MOST_FILES = 1000
Files = Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Body(min_length=1, max_length=MOST_FILES)]


def used_up_file_routes(database: Database) -> APIRouter:
    """List, report."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/used_up_files", tags=["event ranges"])

    @router.get("/list")
    async def list_(
        caller: Reader, task_id: Annotated[Id, Query()], limit: Annotated[int, Page(10_000, 1000), Query()] = 1000
    ) -> Response:
        """Files of a task whose events are merged, discarded or made anew, and that were not deleted yet."""
        async with database.read() as connection:
            if not await _is_allowed(connection, caller, task_id, access.DETAILS):
                return refused(NOT_FOUND, f"there is no task {task_id}")
            rows = await SQL.rows(connection, "used_up_files", task_id=task_id, names=None, at_most=limit)
        return Envelope([{name: value for name, value in dict(row).items() if name != "waits"} for row in rows])

    @router.post("/deleted")
    async def deleted(caller: Producer, task_id: Annotated[Id, Body()], files: Files) -> Response:
        """Note that files of a task were deleted; all of them must be used up. It may be said again."""
        names = sorted(set(files))
        async with database.begin(reason=f"files deleted by {caller.name}") as work:
            if not await _is_allowed(work.connection, caller, task_id, access.PRODUCTION):
                return refused(NOT_FOUND, f"there is no task {task_id}")
            at_most = 10 * MOST_FILES  # two jobs may have written the same name
            known = await SQL.rows(work.connection, "used_up_files", task_id=task_id, names=names, at_most=at_most)
            missing = sorted(set(names) - {row["name"] for row in known})
            if missing:
                allowed = f"allowed: files that task {task_id} has used up (GET used_up_files/list)"
                return refused(NOT_FOUND, "", [FieldProblem("files", one, allowed) for one in missing])
            await SQL.run(work.connection, "note_deleted", task_id=task_id, names=names)
            await SQL.run(work.connection, "note_deleted_of_past", task_id=task_id, names=names)
            about: dict[str, Any] = {"caller": caller.name, "roles": sorted(caller.roles), "target": f"task:{task_id}"}
            await SQL.run(work.connection, "record_deletion", details={"files": names}, **about)
        n_new = len({row["name"] for row in known if row["waits"]})
        return Envelope({"n_files": n_new}, f"{n_new} files of task {task_id} were deleted")

    return router


async def _is_allowed(connection: asyncpg.Connection, caller: Caller, task_id: int, rule: AccessRule) -> bool:
    row = await SQL.row(connection, "owner_of_task", task_id=task_id)
    return row is not None and rule.allows(caller, Whose.of(row["owner"], row["vo"]))
