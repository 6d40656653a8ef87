"""Reports of event ranges that change nothing are counted, one row for each task."""

from __future__ import annotations

from typing import Any

import httpx

from services.task_definition.tasks.policy.range_reports import refused_line
from services.task_definition.tasks.store.explanations import SQL as EXPLANATIONS
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.ranges import add_ranges
from tests.handlers.job_dispatch.test_event_ranges import get, said, update
from tests.rows import insert


async def in_a_set(rows: Rows, job_id: int) -> None:
    """The job processes events of a job set of its task."""
    async with rows.database.pool.acquire() as connection:
        await insert(
            connection,
            "job_sets",
            {
                "job_set_id": 1,
                "task_id": 1,
                "chunk_id": 1,
                "status": "open",
                "kind": "normal",
                "n_files": 1,
                "n_ranges": 3,
                "n_consumers": 1,
                "serials": {},
                "queues": [],
            },
        )
        member = {"job_id": job_id, "job_set_id": 1, "task_id": 1, "role": "consumer", "attempt": 1}
        await insert(connection, "job_set_jobs", member)


async def refused(rows: Rows) -> list[dict[str, Any]]:
    async with rows.database.read() as connection:
        found = await EXPLANATIONS.rows(connection, "refused_ranges_of_task", task_id=1)
    return [dict(row) for row in found]


async def test_reports_that_come_after_the_end_of_their_job_are_counted_and_the_explanation_says_so(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await add_ranges(rows, [job_id], 3)
    await in_a_set(rows, job_id)
    taken = [one["eventRangeID"] for one in (await get(pilot, job_id))["eventRanges"]]
    await update(pilot, said(taken[:1], "finished"))
    assert await refused(rows) == []
    async with rows.database.begin(reason="its job ended") as work:
        await work.connection.execute("UPDATE jobs SET status = 'failed' WHERE job_id = $1", job_id)
    for _ in range(2):
        assert (await update(pilot, said(taken[1:], "finished")))["Returns"] == [False] * 2
    [row] = await refused(rows)
    assert (row["n_reports"], row["reason"]) == (4, f"job {job_id} is not with a pilot")
    assert refused_line(row).startswith("4 reports of event ranges were refused, the last at ")


async def test_reports_that_name_a_job_or_a_task_that_there_is_not_leave_no_row(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await in_a_set(rows, job_id)
    for name in ("1-99999-1-1-10", f"77-{job_id}-1-1-10", "no id"):
        assert (await update(pilot, said([name], "finished")))["Returns"] == [False]
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM refused_range_reports") == 0
