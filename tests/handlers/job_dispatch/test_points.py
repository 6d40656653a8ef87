"""Points of a search of hyper-parameters, as published pilots draw and report them."""

from __future__ import annotations

import httpx

from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.ranges import statuses
from tests.handlers.job_dispatch.test_event_ranges import get, said, update
from tests.handlers.job_dispatch.test_ranges_of_jumbo_jobs import in_sets


async def test_points_follow_in_generations_and_each_is_reported_with_its_output(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    [job_id], [file_id] = await in_sets(rows, 0)
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE job_sets SET is_search = true")
        await connection.execute(
            "INSERT INTO hpo_searches (file_id, task_id, dataset_id, job_set_id, most_points, points_per_generation,"
            " range_attempts) SELECT file_id, task_id, dataset_id, 1, 3, 2, 5 FROM task_files WHERE file_id = $1",
            file_id,
        )
    first = (await get(pilot, job_id, 5))["eventRanges"]
    assert [(one["startEvent"], one["lastEvent"]) for one in first] == [(1, 1), (2, 2)]
    assert (await get(pilot, job_id, 5))["eventRanges"] == []
    ids = [one["eventRangeID"] for one in first]
    groups = [{"esOutput": {"numEvents": 1}, "eventRanges": said(ids[:1], "finished", pfn="/tmp/1.json", fsize=3)}]
    assert (await update(pilot, [*groups, *said(ids[1:], "failed")], 1))["Returns"] == [True, True]
    assert [one["startEvent"] for one in (await get(pilot, job_id, 1))["eventRanges"]] == [2]
    assert (await update(pilot, said([f"1-{job_id}-{file_id}-2-4"], "finished")))["Returns"] == [True]
    assert [one["startEvent"] for one in (await get(pilot, job_id, 5))["eventRanges"]] == [3]
    assert await statuses(rows, file_id) == [
        (1, 5, "finished"), (2, 5, "failed"), (2, 4, "finished"), (3, 5, "sent"),
    ]  # fmt: skip
    async with rows.database.read() as connection:
        told = await connection.fetchval("SELECT count(*) FROM outbox WHERE routing_key LIKE 'task.points_opened%'")
    assert told == 2
