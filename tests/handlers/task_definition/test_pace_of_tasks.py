"""How fast the input of a task is processed: jobs that merge or build are not jobs that process input."""

from __future__ import annotations

from services.task_definition.tasks.store.explanations import SQL
from shared.db import Database
from tests import rows


async def test_of_jobs_that_finished_lately_those_that_process_input_are_counted(
    database: Database,
) -> None:
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        await rows.chunk(connection, task, kind="build", status="used", n_jobs=1)
        for _ in range(3):
            await rows.chunk(connection, task, status="used", n_files=20, n_jobs=10)
            await rows.chunk(connection, task, kind="merge", status="used", n_jobs=5)
        await rows.chunk(connection, task, kind="merge", status="returned", n_jobs=0)
        hour = await connection.fetchval("SELECT date_trunc('hour', orrery_now())")
        await rows.insert(
            connection, "queue_outcomes",
            {"hour": hour, "queue": "Q", "gshare": "S", "task_id": task, "n_finished": 60},
        )  # fmt: skip
        pace = await SQL.one(connection, "pace_of_task", task_id=task)
        assert (pace["n_jobs_lately"], pace["units_per_job"]) == (40.0, 2.0), "two of three jobs process input"
        without_chunks = await rows.task(connection, status="running")
        pace = await SQL.one(connection, "pace_of_task", task_id=without_chunks)
        assert (pace["n_jobs_lately"], pace["units_per_job"]) == (0.0, None)
