"""What scout jobs of a task came to, and what was measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import LIVE

SQL = Queries.beside(__file__)


async def progress(work: UnitOfWork, task_id: int) -> asyncpg.Record:
    """How many scouts and their files ended well, live, or failed."""
    return await SQL.one(work.connection, "scout_progress", task_id=task_id, live=list(LIVE))


async def reports(work: UnitOfWork, task_id: int) -> list[asyncpg.Record]:
    """The reports of scouts that ended well, with the input that each read."""
    return await SQL.rows(work.connection, "scout_reports", task_id=task_id)


async def keep_measured(
    work: UnitOfWork, task_id: int, measured_units: Sequence[str], columns: Mapping[str, Any]
) -> None:
    """Write what was measured into the task's row; a column that is None stays as it is."""
    await SQL.run(
        work.connection, "store_measured", task_id=task_id, measured_units=list(measured_units), **dict(columns)
    )
