"""Jobs of shares and queues as the statistics count them, and whether a share may be throttled."""

from __future__ import annotations

from typing import NamedTuple

from services.job_generation.throttle.throttle import OFFERED, CountedStatus, ThrottleScope
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)


class ResourceQueue(NamedTuple):
    """A work queue that is throttled by itself (JEDI: Job throttling)."""

    queue_id: int
    name: str
    throttled: bool


async def resource_queues(work: UnitOfWork) -> dict[int, ResourceQueue]:
    """Work queues that are throttled by themselves, by id."""
    return {row["queue_id"]: ResourceQueue(*row) for row in await SQL.rows(work.connection, "resource_queues")}


async def jobs_of_share(work: UnitOfWork, gshare: str, resource_type: str) -> dict[CountedStatus, int]:
    """Jobs of a share and resource type by state, and under `offered` those that its chunks may become."""
    rows = await SQL.rows(work.connection, "jobs_of_share", gshare=gshare, resource_type=resource_type)
    return {row["status"]: row["n_jobs"] for row in rows}


async def jobs_of_resource_queue(work: UnitOfWork, queue_id: int, resource_type: str) -> dict[CountedStatus, int]:
    """Jobs of a work queue and resource type by state, and those that its chunks may become."""
    rows = await SQL.rows(work.connection, "jobs_of_resource_queue", queue_id=queue_id, resource_type=resource_type)
    found: dict[CountedStatus, int] = {row["status"]: row["n_jobs"] for row in rows}
    found[OFFERED] = await SQL.value(
        work.connection, "offered_by_resource_queue", queue_id=queue_id, resource_type=resource_type
    )
    return found


async def share_is_throttled(work: UnitOfWork, gshare: str) -> bool:
    """Whether the share may be throttled; one that is not loaded may."""
    return await SQL.value(work.connection, "share_is_throttled", gshare=gshare) is not False


async def walltime_of_queued(work: UnitOfWork, scope: ThrottleScope, at_most: int) -> float | None:
    """Seconds that queued jobs of a scope take together, of up to so many; None: one is not known."""
    if scope.work_queue_id is None:
        value = await SQL.value(
            work.connection,
            "walltime_of_queued",
            gshare=scope.gshare,
            resource_type=scope.resource_type,
            at_most=at_most,
        )
    else:
        value = await SQL.value(
            work.connection,
            "walltime_of_work_queue",
            work_queue_id=scope.work_queue_id,
            resource_type=scope.resource_type,
            at_most=at_most,
        )
    return None if value is None else float(value)


async def highest_priorities(work: UnitOfWork, scope: ThrottleScope) -> tuple[int | None, int | None]:
    """The highest priority of a task of a scope that may make jobs, and of one that has queued jobs."""
    if scope.work_queue_id is None:
        row = await SQL.one(
            work.connection,
            "highest_priorities",
            gshare=scope.gshare,
            resource_type=scope.resource_type,
        )
    else:
        row = await SQL.one(
            work.connection,
            "priorities_of_work_queue",
            work_queue_id=scope.work_queue_id,
            resource_type=scope.resource_type,
        )
    return row["waiting"], row["queued"]
