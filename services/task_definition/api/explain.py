"""/api/v1/explain: why a task or a job waits. Anybody with a token may ask.

Where a job runs and what its pilot says are for its owner, production and operators.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from services.task_definition.explaining import Explanation
from shared.auth import Caller, require
from shared.db.database import Database
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id, Truth

Anyone = Annotated[Caller, Depends(require())]
Everything = Annotated[Truth, Query(alias="all")]


def explain_routes(database: Database, explanation: Explanation) -> APIRouter:
    """By id in the path or in the query."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/explain", tags=["explain"])

    @router.get("/task/{task_id}")
    async def task(caller: Anyone, task_id: Id, everything: Everything = None) -> Response:
        """Status, decisions, jobs and history of a task; `data.text` is for people."""
        async with database.read() as connection:
            found = await explanation.task(connection, task_id, everything=bool(everything))
        return Envelope(found) if found else refused(NOT_FOUND, f"task {task_id} not found")

    @router.get("/task")
    async def task_by_query(caller: Anyone, task_id: Id, everything: Everything = None) -> Response:
        """The same."""
        return await task(caller, task_id, everything)

    @router.get("/job/{job_id}")
    async def job(caller: Anyone, job_id: Id, everything: Everything = None) -> Response:
        """What a job waits for, its transfers, decision and history."""
        async with database.read() as connection:
            found = await explanation.job(connection, job_id, caller, everything=bool(everything))
        return Envelope(found) if found else refused(NOT_FOUND, f"job {job_id} not found")

    @router.get("/job")
    async def job_by_query(caller: Anyone, job_id: Id, everything: Everything = None) -> Response:
        """The same."""
        return await job(caller, job_id, everything)

    return router
