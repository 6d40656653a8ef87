"""/api/v1/job/*: what PanDA's client asks of jobs and the command line does not.

Whoever may read a job (the rule DETAILS) sees all of it, others its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from services.job_dispatch.api.body import IDS, fields_of
from services.job_dispatch.api.job import body_of, described_ids, left_out
from services.job_dispatch.store import job_reads
from services.job_dispatch.store.job_reads import MOST_METADATA, may_read
from shared.auth import Caller, access, require
from shared.auth.state_view import WITHHELD
from shared.db.database import Database
from shared.model.job_of_client import whole_description
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

Reader = Annotated[Caller, Depends(require(access.DETAILS))]
Submitter = Annotated[Caller, Depends(require(access.SUBMITTING, "user", "production", right="submit"))]


def client_job_routes(database: Database) -> APIRouter:
    """Make the routes that read, and the one that says where jobs come from."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["jobs"])

    @router.post("/job/get_description_incl_archive", openapi_extra=_IDS_BODY)
    @router.post("/job/get_description", openapi_extra=_IDS_BODY)
    async def describe(request: Request, caller: Reader) -> Response:
        """Jobs with the names of the client's JobSpec, in the order of the ids; null for unknown ones."""
        fields = await fields_of(request, IDS)
        wanted = described_ids(fields.get("job_ids"))
        async with database.read() as connection:
            found = await job_reads.describe_jobs(connection, wanted, caller)
        return Envelope([_told(one) for one in found.jobs], left_out(found))

    @router.post("/job/submit")
    async def submit(request: Request, caller: Submitter) -> Response:
        """Refused: jobs are made of tasks."""
        said = "jobs are made of tasks here; allowed: a task for task/submit"
        return refused(BAD_REQUEST, problems=[problem("jobs", None, said)])

    @router.get("/job/get_metadata_for_analysis_jobs")
    async def metadata(task_id: Id, caller: Reader) -> Response:
        """What the payloads of a task's finished jobs wrote about themselves, with the names of their outputs."""
        async with database.read() as connection:
            task = await job_reads.owner_of_task(connection, task_id)
            if task is None or not may_read(caller, task):
                return refused(NOT_FOUND, f"task {task_id} not found")
            found = await job_reads.metadata_of_task(connection, task_id)
        message = f"only the newest {MOST_METADATA} jobs" if len(found) == MOST_METADATA else ""
        return Envelope(found, message)

    return router


def _told(one: Mapping[str, Any]) -> dict[str, Any] | None:
    """A job in the words of the client; nothing stands for what is withheld."""
    if not one["task_id"]:
        return None
    return whole_description({name: value for name, value in one.items() if value is not None or WITHHELD not in one})


_IDS_BODY = body_of(
    {"job_ids": [1001]},
    {
        "type": "object",
        "required": ["job_ids"],
        "properties": {"job_ids": {"type": "array", "items": {"type": "integer", "minimum": 1}}},
    },
)
