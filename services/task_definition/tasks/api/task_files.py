"""/api/v1/task/task_files: live tasks as files that dry runs decide on.

They hold parameters of people: production has them of its VO, operators of all; a task of others does not exist.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from services.task_definition.tasks.store.task_files import NoSuchTask, TaskFiles
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.snapshot import KnownGrid
from shared.web.envelope import Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

MAX_TASK_FILES = 100
Producer = Annotated[Caller, Depends(require(access.PRODUCTION, "production", "operator"))]


def task_file_routes(database: Database, task_files: TaskFiles, grid: KnownGrid) -> APIRouter:
    """Production and operators may ask."""
    routes = APIRouter(route_class=JsonRoute, prefix="/api/v1/task", tags=["task"])

    @routes.get("/task_files")
    async def task_files_of(
        caller: Producer,
        task_id: Annotated[list[Id], Query(min_length=1, max_length=MAX_TASK_FILES)],
    ) -> Envelope:
        """Each task as it is now, with its present or last chunk, as a task file."""
        async with database.read() as connection:
            storages = (await grid.grid(connection)).storages
            try:
                saved = await task_files.save(connection, task_id, storages, caller)
            except NoSuchTask as error:
                return refused({"task_ids": list(error.task_ids)}, str(error))
        return Envelope([one.model_dump(mode="json", exclude_none=True) for one in saved])

    return routes
