"""/api/v1/explain: why a task or job waits, what a queue or site gets. Anybody with a token may ask.

Reasons, places and texts are for those whom the rule DETAILS names; to others its state is explained.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from services.task_definition.tasks.explaining import Asked, Explanation
from services.task_definition.tasks.queue_explaining import QueueExplanation
from shared.auth import Caller, access, require
from shared.db.database import Database
from shared.web.envelope import NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Id, Truth

Reader = Annotated[Caller, Depends(require(access.DETAILS))]
Anyone = Annotated[Caller, Depends(require(access.STATES))]
QueueName = Annotated[str, Query(min_length=1, max_length=120)]
Everything = Annotated[Truth, Query(alias="all")]
#: most jobs that are counted of each state, most queues that are told of each check
CountTo = Annotated[int | None, Query(ge=1, le=1_000_000)]
Limit = Annotated[int | None, Query(ge=1, le=1_000_000)]
Queues = Annotated[int | None, Query(ge=0, le=1_000_000)]
Decisions = Annotated[list[Id] | None, Query()]


def explain_routes(database: Database, explanation: Explanation, queues: QueueExplanation) -> APIRouter:
    """By id in the path or in the query."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/explain", tags=["explain"])

    @router.get("/task")
    @router.get("/task/{task_id}")
    async def task(
        caller: Reader,
        task_id: Id,
        everything: Everything = None,
        counts: bool = True,
        count_to: CountTo = None,
        queues: Queues = None,
        decision: Decisions = None,
    ) -> Response:
        """Status, decisions, jobs and history of a task; `data.text` is for people.

        Without `counts` its jobs are not counted, and there is no text. `count_to`: so many jobs of each state are
        counted at the most; `more_jobs` names states with more. `queues`: so many of each check are told at the most,
        the nearest first, of the decisions that `decision` names, or of the first; `by_check` has their numbers.
        """
        asked = Asked(bool(everything), counts, count_to, queues, decision or ())
        async with database.read() as connection:
            found = await explanation.task(connection, task_id, caller, asked)
        return Envelope(found) if found else refused(NOT_FOUND, f"task {task_id} not found")

    @router.get("/difference")
    async def between(caller: Reader, task_id: Id, first: Id, second: Id, limit: Limit = None) -> Response:
        """Tell how two decisions about a task differ: at most `limit` changes; `n_changes` counts all of them."""
        async with database.read() as connection:
            found = await explanation.difference(connection, task_id, (first, second), caller, limit)
        what = f"decisions {first} and {second} about task {task_id} are not both kept"
        return Envelope(found) if found else refused(NOT_FOUND, what)

    @router.get("/job")
    @router.get("/job/{job_id}")
    async def job(caller: Reader, job_id: Id, everything: Everything = None, queues: Queues = None) -> Response:
        """What a job waits for, its transfers, decision and history; `queues` as for a task."""
        asked = Asked(bool(everything), queues=queues)
        async with database.read() as connection:
            found = await explanation.job(connection, job_id, caller, asked)
        return Envelope(found) if found else refused(NOT_FOUND, f"job {job_id} not found")

    @router.get("/queue")
    async def queue(caller: Anyone, queue: QueueName) -> Response:
        """Who is placed there, what left it out within the last hour, its pilots, cordon and limits."""
        async with database.read() as connection:
            found = await queues.of(connection, queue, caller)
        return Envelope(found) if found else refused(NOT_FOUND, f"there is no queue {queue}")

    @router.get("/site")
    async def site(caller: Anyone, site: QueueName) -> Response:
        """Tell what the queues of a site took and refused within the last hour, and their day."""
        async with database.read() as connection:
            found = await queues.of_site(connection, site, caller)
        return Envelope(found) if found else refused(NOT_FOUND, f"there is no site {site}")

    return router
