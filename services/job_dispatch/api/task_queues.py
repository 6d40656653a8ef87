"""/api/v1/job/task_queues: the task queues in which jobs wait, with their priorities and every term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from services.job_dispatch.acquire.task_queue_orders import TaskQueueOrders
from shared.auth import Caller, access, require
from shared.auth.state_view import state_of
from shared.db.database import Database
from shared.order.task_queues import TaskQueuePriority, described
from shared.web.envelope import Envelope
from shared.web.json_route import JsonRoute

Reader = Annotated[Caller, Depends(require(access.DETAILS, "user", "production"))]
#: what of a task queue is told of those of others: whose share it has, and how that comes about
_OF_OTHERS = frozenset({"vo", "cpu_segment_s"} | set(TaskQueuePriority._fields) - {"identity"})


def task_queue_routes(database: Database, fresh: Callable[[], TaskQueueOrders]) -> APIRouter:
    """Make the route of the listing.

    It is read by itself: `fresh` makes an empty copy of what is known of task queues.
    """
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1", tags=["jobs"])

    @router.get("/job/task_queues")
    async def task_queues(
        caller: Reader,
        vo: Annotated[str | None, Query(max_length=16)] = None,
        group: Annotated[str | None, Query(max_length=64)] = None,
        limit: Annotated[int, Query(ge=1, le=100_000)] = 100,
    ) -> Envelope:
        """Task queues by priority, highest first, by the rule by which every dispatcher orders them.

        Of those of others without user and group and without what their jobs are and need; a filter by group finds
        none of those.
        """
        queues = fresh()
        async with database.read() as connection:
            await queues.recalculate(connection)
        wanted = [one for one in queues.of_all() if vo in (None, one.identity.vo)]
        if group is not None:
            wanted = [one for one in wanted if one.identity.user_group == group and _is_told(one, caller)]
        wanted.sort(key=lambda one: (-one.priority, one.task_queue_id))
        return Envelope({"n_task_queues": len(wanted), "task_queues": [_told(one, caller) for one in wanted[:limit]]})

    return router


def _told(one: TaskQueuePriority, caller: Caller) -> dict[str, Any]:
    return described(one) if _is_told(one, caller) else state_of(described(one), _OF_OTHERS)


def _is_told(one: TaskQueuePriority, caller: Caller) -> bool:
    return access.DETAILS.allows(caller, access.Whose.of(one.identity.user_name, one.identity.vo))
