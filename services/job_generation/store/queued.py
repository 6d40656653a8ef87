"""Jobs that wait at queues, as the statistics count them."""

from __future__ import annotations

from collections.abc import Sequence

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)


async def queued_at_queues(work: UnitOfWork, queues: Sequence[str], vo: str) -> dict[tuple[str, str], int]:
    """Jobs of a VO that wait at these queues, by queue and resource type."""
    rows = await SQL.rows(work.connection, "queued_at_queues", queues=list(queues), vo=vo)
    return {(row["queue"], row["resource_type"]): row["n_queued"] for row in rows}
