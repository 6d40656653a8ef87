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
