"""/api/v1/task: names for suggestions, who is longest in a state, and about how many tasks a list has."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from services.task_definition.tasks.api.task_filters import listed, words
from services.task_definition.tasks.store import reads as store_reads
from services.task_definition.tasks.store.reads import TaskFilter
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.model.task_spec_problems import problem
from shared.web.envelope import BAD_REQUEST, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Page

Reader = Annotated[Caller, Depends(require(access.DETAILS))]


def task_list_routes(database: Database) -> APIRouter:
    """Two lists that are read from an index each, and an estimate of a third."""
    routes, router = TaskLists(database), APIRouter(route_class=JsonRoute, prefix="/api/v1/task", tags=["task"])
    router.get("/estimate")(routes.estimate)
    router.get("/longest")(routes.longest)
    router.get("/names")(routes.names)
    return router


class TaskLists:
    """A method for each list, named as its path."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def estimate(self, caller: Reader, wanted: Annotated[TaskFilter, Depends(listed)]) -> Response:
        """About how many tasks the list of this filter has, none of which is counted; null: that is not told."""
        async with self._database.read() as connection:
            return Envelope(await store_reads.estimate(connection, wanted, caller))

    async def longest(
        self,
        caller: Reader,
        user_name: Annotated[str, Query(max_length=128)],
        status: Annotated[list[str], Query()],
        limit: Annotated[int, Page(100)] = 10,
    ) -> Response:
        """Tasks of a user that are longest in states that should pass, the longest first."""
        statuses = words(status) or []
        if wrong := sorted(set(statuses) - store_reads.PASSING):
            allowed = f"allowed: {', '.join(sorted(store_reads.PASSING))}"
            return refused(BAD_REQUEST, problems=[problem("status", one, allowed) for one in wrong])
        async with self._database.read() as connection:
            return Envelope(await store_reads.list_longest(connection, user_name, statuses, limit, caller))

    async def names(
        self,
        caller: Reader,
        field: Annotated[Literal["user_name", "vo"], Query()],
        start: Annotated[str, Query(max_length=100)] = "",
        limit: Annotated[int, Page(50)] = 20,
    ) -> Response:
        """Name people with live tasks that the caller may read, or VOs, that begin so."""
        async with self._database.read() as connection:
            return Envelope(await store_reads.names_like(connection, field, start, limit, caller))
