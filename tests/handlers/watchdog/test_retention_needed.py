"""What is old but still needed stays, and goes once nobody needs it."""

from __future__ import annotations

import pytest

from tests import rows
from tests.handlers.watchdog.conftest import Stage
from tests.handlers.watchdog.rounds import Rounds, ended_job, ended_task


@pytest.fixture
def rounds(stage: Stage) -> Rounds:
    return Rounds(stage)


async def test_the_files_of_a_job_go_in_one_slice(stage: Stage, rounds: Rounds) -> None:
    await rounds.keep("job_files", 7)
    task = await ended_task(stage)
    jobs = [await ended_job(stage, task) for _ in range(3)]
    async with stage.database.read() as connection:
        await connection.execute(
            "INSERT INTO job_files (job_id, file_id, dataset_id, task_id, type)"
            " SELECT job_id, n, 1, $2, 'input' FROM unnest($1::bigint[]) job_id, generate_series(1, 300) n",
            jobs, task,
        )  # fmt: skip
    stage.clock.forward(days=9)
    seen, more = set(), True
    while more:
        async with stage.database.begin(reason="periodic retention") as work:
            more = await rounds.retaining.drop_old(work)
        seen.add(await rounds.count("job_files"))
    assert seen == {900, 300, 0}


async def test_transfers_that_have_not_ended_stay_until_they_have(stage: Stage, rounds: Rounds) -> None:
    task = await ended_task(stage)
    other = await ended_task(stage)
    moved, active, requested = [await ended_job(stage, task) for _ in range(3)]
    await ended_job(stage, other)
    async with stage.database.read() as connection:
        request = await rows.insert(
            connection, "catalogue_requests",
            {"vo": "atlas", "task_id": task, "kind": "move", "subject": "DISK", "status": "moving"}, "request_id",
        )  # fmt: skip
        await connection.execute("UPDATE transfers SET request_id = $1 WHERE job_id = $2", request, moved)
        await connection.execute("UPDATE transfers SET status = 'active' WHERE job_id = $1", active)
        await connection.execute("UPDATE transfers SET status = 'requested' WHERE job_id = $1", requested)
    await rounds.after(days=32)
    assert await stage.value("SELECT array_agg(DISTINCT task_id) FROM transfers") == [task]
    for ends in (
        "UPDATE transfers SET status = 'done' WHERE status = 'requested'",
        "UPDATE transfers SET status = 'failed' WHERE status = 'active'",
        "UPDATE catalogue_requests SET status = 'done', done_at = orrery_now()",
    ):
        assert await rounds.count("transfers") == 3
        async with stage.database.read() as connection:
            await connection.execute(ends)
        await rounds.after(days=1)
    assert await rounds.count("transfers") == 0
    assert await stage.value("SELECT count(*) FROM retention_put_off WHERE rule = 'transfers'") == 0


async def test_a_file_goes_after_all_earlier_ranges_that_name_it(stage: Stage, rounds: Rounds) -> None:
    task = await ended_task(stage)
    async with stage.database.read() as connection:
        await rows.insert(
            connection, "event_range_files",
            {"zip_row_id": 1, "task_id": task, "job_id": 5, "kind": "zip", "lfn": "zip"},
        )  # fmt: skip
        await connection.execute(
            "INSERT INTO event_ranges_past (event_range_id, task_id, dataset_id, file_id, status, job_process_id,"
            " def_min_event_id, attempt_nr, zip_row_id, is_jumbo)"
            " SELECT n, $1, 1, 1, 6, n, n, 1, 1, false FROM generate_series(1, 1200) n",
            task,
        )  # fmt: skip
    await rounds.after(days=31)
    assert await rounds.count("event_ranges_past") == 0 and await rounds.count("event_range_files") == 1
    await rounds.after(days=1)
    assert await rounds.count("event_range_files") == 0 and await rounds.count("retention_put_off") == 0
