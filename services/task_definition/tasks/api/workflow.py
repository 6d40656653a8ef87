"""/api/v1/workflow: what PanDA's client asks for chains of steps, refused with the reason."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends
from starlette.responses import Response

from shared.auth import Caller, access, require
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

Anyone = Annotated[Caller, Depends(require(access.SUBMITTING))]
Submitter = Annotated[Caller, Depends(require(access.SUBMITTING, "user", "production", right="submit"))]
_REASON = "workflows are not supported by this version; allowed: a task for each step, later ones with parent_tid"


def workflow_routes() -> APIRouter:
    """Anybody may ask; who may submit tasks may try."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/workflow", tags=["workflows"])
    router.post("/submit_workflow_raw_request")(submit_workflow_raw_request)
    router.get("/get_workflow_details")(get_workflow_details)
    return router


async def submit_workflow_raw_request(caller: Submitter, params: Annotated[Any, Body(embed=True)] = None) -> Response:
    """Refused."""
    return _not_here()


async def get_workflow_details(caller: Anyone, workflow_id: Id) -> Response:
    """Refused."""
    return _not_here()


def _not_here() -> Response:
    return refused(BAD_REQUEST, problems=[problem("workflow", None, _REASON)])
