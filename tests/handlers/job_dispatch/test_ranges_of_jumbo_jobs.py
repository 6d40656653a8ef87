"""Jumbo jobs take ranges of all job sets of their task, as published pilots ask for them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.ranges import add_ranges, stored
from tests.handlers.job_dispatch.test_event_ranges import get, said, update


async def in_sets(rows: Rows, *sizes: int) -> tuple[list[int], list[int]]:
    """A file with a running co-jumbo job and a job set for each size; jobs and files."""
    jobs, files = [], []
    for number, size in enumerate(sizes, start=1):
        [job_id] = await rows.jobs(1, status="running")
        file_id = await add_ranges(rows, [job_id], size)
        async with rows.database.pool.acquire() as connection:
            await connection.execute(
                "INSERT INTO job_sets (job_set_id, task_id, chunk_id, status, kind, n_files, n_ranges, n_consumers,"
                " serials, queues) VALUES ($1, 1, 1, 'open', 'normal', 1, $2, 1, '{}', '[]')",
                number, size,
            )  # fmt: skip
            await connection.execute(
                "INSERT INTO job_set_jobs (job_id, job_set_id, task_id, role, attempt)"
                " VALUES ($1, $2, 1, 'consumer', 1)",
                job_id, number,
            )  # fmt: skip
            await connection.execute("UPDATE event_ranges SET job_set_id = $2 WHERE file_id = $1", file_id, number)
            await connection.execute(
                "UPDATE job_sets SET n_ready = $2 WHERE job_set_id = $1 AND n_ready <> $2", number, size
            )
        jobs.append(job_id)
        files.append(file_id)
    return jobs, files


async def a_jumbo_job(rows: Rows) -> int:
    [job_id] = await rows.jobs(1, status="running", job_type="jumbo")
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO jumbo_jobs (job_id, task_id, queue, site) VALUES ($1, 1, 'Q1', 'S')", job_id
        )
        await connection.execute(
            "INSERT INTO job_claims (request_key, job_id, subject) VALUES ($1, $2, 'pilot-1')", f"key-{job_id}", job_id
        )
    return job_id


def ids_of(answer: dict[str, Any]) -> list[str]:
    return [one["eventRangeID"] for one in answer["eventRanges"]]


async def counters(rows: Rows) -> list[tuple[int, ...]]:
    async with rows.database.read() as connection:
        found = await connection.fetch("SELECT n_ready, n_processing, n_finished FROM job_sets ORDER BY job_set_id")
    return [tuple(row.values()) for row in found]


async def test_a_jumbo_job_takes_ranges_of_every_set_of_its_task(rows: Rows, pilot: httpx.AsyncClient) -> None:
    _, files = await in_sets(rows, 2, 3)
    jumbo = await a_jumbo_job(rows)
    given = ids_of(await get(pilot, jumbo, 4))
    assert [one.split("-")[2] for one in given] == [str(files[0])] * 2 + [str(files[1])] * 2
    assert await counters(rows) == [(0, 2, 0), (1, 2, 0)]
    assert {row["is_jumbo"] for row in await stored(rows, files[0])} == {True}
    assert (await update(pilot, said(given, "finished")))["Returns"] == [True] * 4
    assert await counters(rows) == [(0, 0, 2), (1, 0, 2)]


async def test_jumbo_and_co_jumbo_jobs_share_ranges_and_no_range_is_given_twice(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    co_jumbo, _ = await in_sets(rows, 10, 10)
    jumbo = [await a_jumbo_job(rows), await a_jumbo_job(rows)]
    answers = await asyncio.gather(*(get(pilot, job_id, 3) for job_id in [*jumbo, *co_jumbo] * 4))
    given = [tuple(one.split("-")[2:4]) for answer in answers for one in ids_of(answer)]
    assert len(given) == len(set(given)) == 20
    assert await counters(rows) == [(0, 10, 0), (0, 10, 0)]


async def test_a_report_of_a_jumbo_job_holds_only_the_sets_of_its_ranges(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await in_sets(rows, 1, 1)
    first, _ = ids_of(await get(pilot, await a_jumbo_job(rows), 2))
    async with rows.database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT FROM job_sets WHERE job_set_id = 2 FOR UPDATE")
        async with asyncio.timeout(5):
            assert (await update(pilot, said([first], "finished")))["Returns"] == [True]
    assert await counters(rows) == [(0, 0, 1), (0, 1, 0)]


async def test_a_failed_range_of_a_jumbo_job_may_go_to_the_co_jumbo_job(rows: Rows, pilot: httpx.AsyncClient) -> None:
    [co_jumbo], [file_id] = await in_sets(rows, 1)
    [given] = ids_of(await get(pilot, await a_jumbo_job(rows), 1))
    await update(pilot, said([given], "failed"))
    assert ids_of(await get(pilot, co_jumbo, 5)) == [f"1-{co_jumbo}-{file_id}-1-9"]
    assert [row["is_jumbo"] for row in await stored(rows, file_id)] == [True, False]
