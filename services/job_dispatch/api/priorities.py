"""/api/v1/job/change_priority: the priority of one job while it waits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import Field

from services.job_dispatch.api.body import HEARTBEAT, fields_of
from services.job_dispatch.api.debugging import NOT_PERMITTED
from services.job_dispatch.api.job import body_of
from services.job_dispatch.api.requests import RequestFields, parse
from services.job_dispatch.lifecycle.reordering import Reordering
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.reordering import SQL
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.model.grid_preferences import most_priority
from shared.model.priorities import HIGHEST, LOWEST
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id

#: the API's number of a refusal: the job is in a state that does not allow it (PanDA client: task commands)
IRRELEVANT = 4
Commander = Annotated[Caller, Depends(require(access.COMMANDS, "user", "production", right="modify"))]


class ChangePriority(RequestFields):
    """`job/change_priority`."""

    job_id: Id
    priority: Annotated[int, Field(strict=True, ge=LOWEST, le=HIGHEST)]


def priority_routes(database: Database, reordering: Reordering) -> APIRouter:
    """Make the route: owners up to what their class allows, production and operators any priority."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["jobs"])

    @router.post("/job/change_priority", openapi_extra=_BODY)
    async def change_priority(request: Request, caller: Commander) -> Response:
        """Give a waiting job another priority; every dispatcher hands it out by that one from now on."""
        wanted = parse(ChangePriority, await fields_of(request, HEARTBEAT))
        async with database.begin(reason=f"priority changed by {caller.name}") as work:
            row = await SQL.row(work.connection, "owner_of_job", job_id=wanted.job_id)
            if row is None:
                return refused(NOT_FOUND, f"job {wanted.job_id} is not live")
            if not caller.may_for(row["vo"], "production"):
                if not access.COMMANDS.allows(caller, access.Whose.of(row["user_name"], row["vo"])):
                    said = f"job {wanted.job_id} is of the VO {row['vo']}; allowed: {access.COMMANDS.meaning}"
                    return refused(NOT_PERMITTED, said)
                most = most_priority(row["grid_pref"], has_group=bool(row["working_group"]))
                if wanted.priority > most:
                    return refused(NOT_PERMITTED, f"priority: value {wanted.priority}: at most {most} is allowed")
            changed = await reordering.set_priorities(work, {wanted.job_id: wanted.priority})
            if not changed and row["current_priority"] != wanted.priority:
                return refused(IRRELEVANT, f"job {wanted.job_id} does not wait any more")
            details = {"priority": wanted.priority, "before": row["current_priority"]}
            await store.audit(work.connection, caller, "job/change_priority", f"job {wanted.job_id}", details)
        return Envelope({"job_id": wanted.job_id, "priority": wanted.priority})

    return router


_BODY = body_of({"job_id": 1001, "priority": 900}, ChangePriority.model_json_schema())
