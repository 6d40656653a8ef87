"""Jobs of shares and queues as the statistics count them, and whether a share may be throttled."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.policy.throttle import CountedStatus
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)


async def jobs_of_share(work: UnitOfWork, gshare: str, resource_type: str) -> dict[CountedStatus, int]:
    """Jobs of a share and resource type by state, and under `offered` those that its chunks may become."""
    rows = await SQL.rows(work.connection, "jobs_of_share", gshare=gshare, resource_type=resource_type)
    return {row["status"]: row["n_jobs"] for row in rows}


async def share_is_throttled(work: UnitOfWork, gshare: str) -> bool:
    """Whether the share may be throttled; one that is not loaded may."""
    return await SQL.value(work.connection, "share_is_throttled", gshare=gshare) is not False


async def queued_at_queues(work: UnitOfWork, queues: Sequence[str]) -> dict[tuple[str, str], int]:
    """Jobs that wait at these queues, by queue and resource type."""
    rows = await SQL.rows(work.connection, "queued_at_queues", queues=list(queues))
    return {(row["queue"], row["resource_type"]): row["n_queued"] for row in rows}
