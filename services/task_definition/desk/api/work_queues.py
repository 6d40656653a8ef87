"""/api/v1/work_queue: the queues that tasks are mapped to.

Operators write, everybody with a token reads. Criteria may name people and groups: they are told to members of the VO.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from services.task_definition.desk.policy.work_queues import (
    IS_PARTITION,
    WorkQueue,
    missing_with_tasks,
    problems_of,
    without_effect,
)
from services.task_definition.desk.store import work_queues as store
from services.task_definition.desk.store.audit import audit
from shared.auth import Caller, access, require
from shared.auth.access import Whose
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.whole_numbers import LARGEST_INT4
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute

Anyone = Annotated[Caller, Depends(require(access.STATES))]
Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator", right="modify"))]
Id = Annotated[int, Field(strict=True, ge=1, le=99_999)]
Text = Annotated[str, Field(min_length=1, max_length=16)]
Whole = Annotated[int, Field(strict=True, ge=0, le=LARGEST_INT4)]
DryRun = Annotated[bool, Body(description="say how many live tasks the criteria match, and change nothing")]


class WorkQueueRecord(BaseModel):
    """A record of the table of work queues (JEDI: The JEDI_Work_Queue table).

    `label`: the prodSourceLabel of its tasks (QUEUE_TYPE); `partition_id`: -1 for a partition, else the partition that
    it belongs to; `share` null: not throttled by a share; `function`: Resource for one that is throttled by itself.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    queue_id: Id
    name: Annotated[str, Field(min_length=1, max_length=32)]
    label: Text
    vo: Text
    share: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] | None = None
    order: Whole | None = None
    criteria: Annotated[str, Field(max_length=2000)] | None = None
    variables: Annotated[str, Field(max_length=2000)] | None = None
    partition_id: Annotated[int, Field(strict=True, ge=IS_PARTITION, le=99_999)] | None = None
    stretchable: bool = False
    throttled: bool = True
    status: Literal["active", "inactive"] = "active"
    function: Text | None = None

    def queue(self) -> WorkQueue:
        return WorkQueue(**self.model_dump())


class WorkQueueList(BaseModel):
    """All work queues: others are removed, or inactive where ended tasks have had them.

    Refused if live tasks belong to one of those.
    """

    model_config = ConfigDict(extra="forbid")
    work_queues: Annotated[list[WorkQueueRecord], Field(max_length=1000)]
    dry_run: DryRun = False


def work_queue_routes(database: Database) -> APIRouter:
    """List, load, set, remove."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/work_queue", tags=["work queues"])
    routes = WorkQueueRoutes(database)
    router.get("/list")(routes.list_all)
    router.post("/load")(routes.load)
    router.post("/set")(routes.set)
    router.post("/remove")(routes.remove)
    return router


class WorkQueueRoutes:
    """One method for each path."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_all(self, caller: Anyone) -> Response:
        """Every queue in the order in which it is asked, with its live tasks."""
        async with self._database.read() as connection:
            queues = await store.work_queues(connection)
            tasks = await store.tasks_of_work_queues(connection)
        return Envelope([{**_told_to(caller, one), "n_tasks": tasks.get(one.queue_id, 0)} for one in queues])

    async def load(self, caller: Operator, request: WorkQueueList) -> Response:
        """Put these in the place of all others, or refuse them with every problem."""
        queues = [one.queue() for one in request.work_queues]
        async with self._database.begin(reason=f"work queues loaded by {caller.name}") as work:
            return await self._replace(work, caller, queues, "work_queue.load", dry_run=request.dry_run)

    async def set(self, caller: Operator, work_queue: WorkQueueRecord, dry_run: DryRun = False) -> Response:
        """Make one, or put the one with its id into the given shape; the others stay."""
        async with self._database.begin(reason=f"work queue {work_queue.name} set by {caller.name}") as work:
            others = [one for one in await store.work_queues(work.connection) if one.queue_id != work_queue.queue_id]
            verb = f"work_queue.set {work_queue.name}"
            return await self._replace(work, caller, [*others, work_queue.queue()], verb, dry_run=dry_run)

    async def remove(
        self, caller: Operator, queue_id: Annotated[int, Body(embed=True, ge=0, le=LARGEST_INT4)]
    ) -> Response:
        """Forget one that no live task has; where ended ones do it stays, inactive."""
        async with self._database.begin(reason=f"work queue {queue_id} removed by {caller.name}") as work:
            known = await store.work_queues(work.connection)
            others = [one for one in known if one.queue_id != queue_id]
            if len(others) == len(known):
                return refused(NOT_FOUND, f"there is no work queue with the id {queue_id}")
            return await self._replace(work, caller, others, f"work_queue.remove {queue_id}", dry_run=False)

    async def _replace(
        self, work: UnitOfWork, caller: Caller, queues: list[WorkQueue], verb: str, *, dry_run: bool
    ) -> Response:
        known, n_tasks = await store.work_queues(work.connection), await store.tasks_of_work_queues(work.connection)
        problems = problems_of(queues) + missing_with_tasks(queues, known, n_tasks)
        if problems:
            return refused(BAD_REQUEST, problems=problems)
        matches = {one.name: await store.matching_tasks(work.connection, one) for one in queues if one.takes_tasks}
        unused = without_effect(queues)
        if dry_run:
            return Envelope(
                {"matching_tasks": matches, "without_effect": unused}, _message("nothing was changed", unused)
            )
        await store.replace_work_queues(work.connection, queues)
        await audit(
            work.connection,
            caller=caller,
            verb=verb,
            target="work queues",
            details={"work_queues": [_told(one) for one in queues]},
        )
        told = {"n_work_queues": len(queues), "matching_tasks": matches, "without_effect": unused}
        return Envelope(told, _message(f"{len(queues)} work queues", unused))


def _message(said: str, unused: list[str]) -> str:
    return "; ".join([said, *unused])


def _told_to(caller: Caller, queue: WorkQueue) -> dict[str, Any]:
    if access.MEMBERS.allows(caller, Whose(vo=queue.vo)):
        return _told(queue)
    return {**_told(queue), "criteria": None, "variables": None}


def _told(queue: WorkQueue) -> dict[str, Any]:
    return asdict(queue)
