"""/api/v1/job/*: what PanDA's client asks of jobs and the command line does not.

Whoever may read a job (its owner, its VO, production, operators) sees all of it, others its state.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from services.job_dispatch.api.body import IDS, fields_of
from services.job_dispatch.api.job import body_of, may_read
from services.job_dispatch.api.requests import job_ids_of
from services.job_dispatch.store.job_reads import MOST_METADATA, JobQueries
from shared.auth import Caller, require
from shared.model.job_of_client import whole_description
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

Anyone = Annotated[Caller, Depends(require())]
Submitter = Annotated[Caller, Depends(require("user", "production", right="submit"))]
#: the API's number of a refusal (PanDA client: job and task commands)
NOT_PERMITTED = 3
_SECRET = ("spec", "report")


class ClientJobApi:
    """Reading only."""

    def __init__(self, jobs: JobQueries) -> None:
        self._jobs = jobs

    def router(self) -> APIRouter:
        router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["jobs"])
        for name in ("get_description", "get_description_incl_archive"):
            router.add_api_route(f"/job/{name}", self.describe, methods=["POST"], openapi_extra=_IDS_BODY)
        router.add_api_route("/job/submit", self.submit, methods=["POST"])
        router.add_api_route("/job/get_metadata_for_analysis_jobs", self.metadata, methods=["GET"])
        return router

    async def describe(self, request: Request, caller: Anyone) -> Response:
        """Jobs with the names of the client's JobSpec, in the order of the ids; null for unknown ones."""
        fields = await fields_of(request, IDS)
        found = await self._jobs.described(job_ids_of(fields.get("job_ids")))
        shown = [one if may_read(caller, one) else {**one, **dict.fromkeys(_SECRET)} for one in found if one["task_id"]]
        by_id = {one["job_id"]: whole_description(one) for one in shown}
        return Envelope([by_id.get(one["job_id"]) for one in found])

    async def submit(self, request: Request, caller: Submitter) -> Response:
        """Refused: jobs are made of tasks."""
        said = "jobs are made of tasks here; allowed: a task for task/submit"
        return refused(BAD_REQUEST, problems=[problem("jobs", None, said)])

    async def metadata(self, request: Request, task_id: Id, caller: Anyone) -> Response:
        """What the payloads of a task's finished jobs wrote about themselves, with the names of their outputs."""
        task = await self._jobs.owner_of_task(task_id)
        if task is None:
            return refused(NOT_FOUND, f"task {task_id} not found")
        if not may_read(caller, task):
            return refused(NOT_PERMITTED, f"the metadata of task {task_id} are for {task['owner']}, the VO, production")
        found = await self._jobs.metadata(task_id)
        message = f"only the newest {MOST_METADATA} jobs" if len(found) == MOST_METADATA else ""
        return Envelope(found, message)


_IDS_BODY = body_of(
    {"job_ids": [1001]},
    {
        "type": "object",
        "required": ["job_ids"],
        "properties": {"job_ids": {"type": "array", "items": {"type": "integer", "minimum": 1}}},
    },
)
