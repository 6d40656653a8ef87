"""Reads the condition of the system for operators."""

from __future__ import annotations

from typing import Any

import asyncpg

from services.watchdog.policy.condition import NOT_ASKED_S, USUAL_OF_JOBS, USUAL_OF_TASKS, USUAL_S
from shared.db.queries import Queries
from shared.states.task import FINAL, MEANINGS

SQL = Queries.beside(__file__)
#: rows that a count goes up to, and those that are listed
MOST_COUNTED, MOST_LISTED, MOST_QUEUES = 10_000, 8, 100


async def rows(connection: asyncpg.Connection, name: str, **values: Any) -> list[dict[str, Any]]:
    """Read what one statement finds."""
    return [dict(row) for row in await SQL.rows(connection, name, **values)]


async def live_tasks(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    """Count tasks that have not ended by state; `is_more`: there are more than were counted."""
    states = [str(status) for status in MEANINGS if status not in FINAL]
    found = await rows(connection, "live_tasks_by_status", statuses=states, at_most=MOST_COUNTED + 1)
    return [
        {**one, "n_tasks": min(one["n_tasks"], MOST_COUNTED), "is_more": one["n_tasks"] > MOST_COUNTED} for one in found
    ]


async def waiting(connection: asyncpg.Connection) -> dict[str, Any]:
    """Read what waits longer than is usual, by kind."""
    jobs = {"statuses": list(USUAL_OF_JOBS), "usual_s": list(USUAL_OF_JOBS.values())}
    tasks = {"statuses": list(USUAL_OF_TASKS), "usual_s": list(USUAL_OF_TASKS.values())}
    return {
        "jobs": await rows(connection, "jobs_too_long", **jobs, at_most=MOST_COUNTED),
        "not_asked": (await rows(connection, "jobs_not_asked", usual_s=NOT_ASKED_S, at_most=MOST_COUNTED))[0],
        "tasks": await rows(connection, "tasks_too_long", **tasks, at_most=MOST_COUNTED),
        "chunks": (await rows(connection, "chunks_too_long", usual_s=USUAL_S))[0],
        "transfers": (await rows(connection, "transfers_too_long", usual_s=USUAL_S))[0],
        "results": (await rows(connection, "results_not_applied", usual_s=USUAL_S, at_most=MOST_COUNTED))[0],
        "requests": await rows(connection, "requests_refused"),
        "snapshots": await rows(connection, "old_snapshots", usual_s=USUAL_S, at_most=MOST_LISTED),
        "queues": await rows(connection, "queues_without_pilots", at_most=MOST_LISTED),
    }
