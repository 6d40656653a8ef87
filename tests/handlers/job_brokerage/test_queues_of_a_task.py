"""Where a task has jobs is read from an index from queue to queue, however many jobs it has."""

from __future__ import annotations

from typing import Any

import asyncpg

from shared.db import Database
from shared.snapshot.inputs import SQL, history_of_task
from shared.states.job import MEANINGS
from tests import rows
from tests.handlers.job_brokerage.test_chunks import an_offer

N_JOBS, N_QUEUES = 20_000, 7


async def test_where_a_large_task_has_jobs_costs_a_look_for_each_queue(database: Database) -> None:
    offer = await an_offer(database)
    async with database.read() as connection:
        other = await rows.task(connection)
        await connection.execute("SET session_replication_role = replica")
        await fill(connection, offer.task_id, 0, N_JOBS, "Q")
        await fill(connection, other, N_JOBS, 100, "OTHER")
        await connection.execute(
            "UPDATE jobs SET queue = NULL, status = 'waiting' WHERE task_id = $1 AND job_id % 1000 = 1", offer.task_id
        )
        await connection.execute(
            "INSERT INTO queue_outcomes (hour, queue, gshare, task_id) VALUES (orrery_now(), 'BEFORE', 'S', $1)",
            offer.task_id,
        )
        await connection.execute("SET session_replication_role = DEFAULT")
        await connection.execute("ANALYZE jobs")
        found = await history_of_task(connection, offer.task_id)
        assert found["queues_used"] == ["BEFORE", *(f"Q{n}" for n in range(N_QUEUES))]
        plan = await connection.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {SQL.text('task_history')}", *_arguments(offer.task_id)
        )
    assert rows_of_jobs(plan[0]["Plan"]) < 100, plan


async def fill(connection: asyncpg.Connection, task_id: int, after: int, n_jobs: int, queue: str) -> None:
    await connection.execute(
        "INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status,"
        " queue, resource_type, gshare, user_name, prod_source_label, job_type)"
        " SELECT $2 + n, $1, 1, 1, 1, 1, 1, CASE WHEN n % 3 = 0 THEN 'running' ELSE 'activated' END, $4 || n % $5,"
        " 'SCORE', 'S', 'u', 'user', 'normal' FROM generate_series(1, $3::int) AS n",
        task_id, after, n_jobs, queue, N_QUEUES,
    )  # fmt: skip


def _arguments(task_id: int) -> list[Any]:
    given = {"task_id": task_id, "statuses": list(MEANINGS)}
    return [given[name] for name in SQL.parameters("task_history")]


def rows_of_jobs(node: dict[str, Any]) -> int:
    """How many rows a plan read of the table of jobs."""
    own = node["Actual Rows"] * node["Actual Loops"] if node.get("Relation Name") == "jobs" else 0
    return int(own) + sum(rows_of_jobs(one) for one in node.get("Plans", ()))
