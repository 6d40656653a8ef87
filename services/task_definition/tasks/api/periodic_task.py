"""/api/v1/periodic_task: tasks that are submitted again every period until their end.

Users for their own analysis, production and operators for all. Each task is submitted with the rights of its submitter
that are left on the day. A series is told to, and commanded by, its owner, production of its VO and operators.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends
from starlette.responses import Response

from services.task_definition.data.telling import Telling
from services.task_definition.tasks.store import periodic as store
from services.task_definition.tasks.submitting.periodic import TOLD_AS, PeriodicTasks
from services.task_definition.tasks.submitting.secret_requests import SecretRequests
from services.task_definition.tasks.submitting.submission import SubmissionRefused
from shared.auth import Caller, access, require
from shared.auth.access import Whose
from shared.db.database import Database
from shared.web.envelope import Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id, Page, Text, Time

#: series that are looked at for a list
MOST_LISTED = 10_000
Anyone = Annotated[Caller, Depends(require(access.DETAILS))]
PeriodicSubmitter = Annotated[Caller, Depends(require(access.SUBMITTING, "user", "production", right="submit"))]
PeriodicCommander = Annotated[Caller, Depends(require(access.COMMANDS, "user", "production", right="modify"))]
PeriodicCanceller = Annotated[Caller, Depends(require(access.COMMANDS, "user", "production", right="cancel"))]
PeriodicId = Annotated[Id, Body(embed=True)]


def periodic_routes(
    database: Database, periodic: PeriodicTasks, secrets: SecretRequests, telling: Telling
) -> APIRouter:
    """Submit, list, pause, resume, end."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/periodic_task", tags=["periodic tasks"])
    routes = PeriodicRoutes(database, periodic, secrets, telling)
    router.get("/list")(routes.list_all)
    for endpoint in (routes.submit, routes.pause, routes.resume, routes.end):
        router.post(f"/{endpoint.__name__}")(endpoint)
    return router


class PeriodicRoutes:
    """One method for each path."""

    def __init__(self, database: Database, periodic: PeriodicTasks, secrets: SecretRequests, telling: Telling) -> None:
        self._database, self._periodic = database, periodic
        self._secrets, self._telling = secrets, telling

    async def list_all(
        self,
        caller: Anyone,
        user_name: Text = None,
        status: Literal["active", "paused", "ended"] | None = None,
        limit: Annotated[int, Page(1000)] = 100,
    ) -> Response:
        """Series of tasks with period, state and end, the newest first."""
        async with self._database.begin(reason=f"listed by {caller.name}") as work:
            await store.note_seen(work, caller)
            rows = await store.list_all(work, user_name=user_name, status=status, limit=MOST_LISTED)
        told = [row for row in rows if access.DETAILS.allows(caller, Whose(row["user_name"], row["vo"]))]
        return Envelope(told[:limit])

    async def submit(
        self,
        caller: PeriodicSubmitter,
        task_parameters: Annotated[dict[str, Any], Body()],
        period_s: Annotated[int, Body()],
        starts_at: Annotated[Time, Body()] = None,
        ends_at: Annotated[Time, Body()] = None,
    ) -> Response:
        """Submit a task now (or at a time) and again every period. Data: the id of the series."""
        try:
            async with self._database.begin(reason=f"submitted by {caller.name}") as work:
                found = await self._periodic.submit(
                    work, task_parameters, caller, period_s=period_s, starts_at=_time(starts_at), ends_at=_time(ends_at)
                )
        except SubmissionRefused as refusal:
            await self._secrets.tell(caller, task_parameters, refusal)
            await self._telling.tell(self._database, caller, TOLD_AS, refusal.problems)
            return refused(refusal.code, str(refusal), refusal.problems)
        return Envelope(found, f"periodic task {found}: a task every {period_s} s")

    async def pause(self, caller: PeriodicCommander, periodic_id: PeriodicId) -> Response:
        """Submit no more tasks until it is resumed; those that were submitted go on."""
        return await self._command(caller, periodic_id, "pause")

    async def resume(self, caller: PeriodicCommander, periodic_id: PeriodicId) -> Response:
        """Submit tasks again; one whose time has passed at once."""
        return await self._command(caller, periodic_id, "resume")

    async def end(self, caller: PeriodicCanceller, periodic_id: PeriodicId) -> Response:
        """Submit no more tasks ever; those that were submitted go on."""
        return await self._command(caller, periodic_id, "end")

    async def _command(self, caller: Caller, periodic_id: int, verb: str) -> Response:
        async with self._database.begin(reason=f"{verb} by {caller.name}") as work:
            reply = await self._periodic.command(work, periodic_id, verb, caller)
        if reply.accepted:
            return Envelope(reply.data, reply.message)
        return refused(reply.code, reply.message, reply.problems)


def _time(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None
