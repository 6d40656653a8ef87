"""The limit of queued jobs holds for a share: over all its tasks and chunks, and before chunks are jobs."""

from __future__ import annotations

from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.job_generation.story import Story

OF_SHARE = "SELECT count(*) FROM jobs WHERE gshare = 'MC'"
SLOT = {"gshare": "MC"}


async def limited(context: Context, databases: Databases, limit: int, cap: int | None = None) -> Story:
    """A story where so many jobs of a share are always allowed to be queued; a chunk makes a fifth of the cap."""
    async with context.database.read() as connection:
        for key, value in (("NQUEUELIMIT", limit), ("NQUEUECAP", cap)):
            if value is not None:
                await connection.execute(
                    "INSERT INTO parameters (app, component, key, value, type)"
                    " VALUES ('jedi', 'prod_job_throttler', $1, $2, 'int')",
                    key,
                    str(value),
                )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    return await Story.begin(context, databases)


async def test_what_one_task_offered_holds_the_next_task_of_the_share_back(
    context: Context, databases: Databases
) -> None:
    story = await limited(context, databases, 3)
    first, second = await story.task(n_files=4, **SLOT), await story.task(n_files=4, **SLOT)
    elsewhere = await story.task(n_files=4, gshare="Data")
    assert len(await story.ready(first)) == 1
    assert await story.ready(second) == []
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", second)
    assert reason == "nothing runs and 4 queued jobs are more than the limit 3"
    assert len(await story.ready(elsewhere)) == 1


async def test_the_chunks_of_one_task_are_counted_one_after_the_other(context: Context, databases: Databases) -> None:
    story = await limited(context, databases, 3, cap=20)  # a chunk of four jobs
    task_id = await story.task(n_files=4, **SLOT)
    async with story.database.begin(reason="a second master") as work:
        await work.connection.execute(
            "INSERT INTO task_datasets (task_id, dataset_name, type, status, stream_name, n_files, n_files_to_be_used,"
            " n_files_used, n_events_used) VALUES ($1, 'mc.more', 'input', 'ready', 'IN', 0, 0, 0, 0)",
            task_id,
        )
        more = await work.connection.fetchval("SELECT max(dataset_id) FROM task_datasets WHERE task_id = $1", task_id)
        await work.connection.execute(
            "INSERT INTO task_files (dataset_id, task_id, lfn, type, status, max_attempt, n_events, fsize)"
            " SELECT $1, $2, 'more' || n, 'input', 'ready', 3, 10, 1000 FROM generate_series(1, 4) n",
            more,
            task_id,
        )
        await work.connection.execute(
            "UPDATE task_datasets SET n_files = 4, n_files_to_be_used = 4 WHERE dataset_id = $1", more
        )
    assert len(await story.ready(task_id)) == 1


async def test_a_chunk_makes_no_more_jobs_than_its_share_was_allowed(context: Context, databases: Databases) -> None:
    story = await limited(context, databases, 1, cap=15)  # a fifth of the cap: three jobs
    task_id = await story.task(n_files=8, rule={"nFilesPerJob": None, "nGBPerJob": 1, "nMaxFilesPerJob": 1}, **SLOT)
    [chunk_id] = await story.ready(task_id)
    assert await story.value("SELECT max_jobs FROM chunks WHERE chunk_id = $1", chunk_id) == 3
    await story.broker(task_id, chunk_id)
    assert await story.value(OF_SHARE) == 3
    assert (await story.files(task_id)).count("ready") + (await story.files(task_id)).count("picked") == 5


async def test_without_a_configured_limit_it_is_four_bunches(story: Story) -> None:
    task_id = await story.task(**SLOT)
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO queue_statistics VALUES ('Q_ALPHA', 'SCORE', 'MC', 'bob', 'activated', 2001, 2001)"
        )
    assert await story.ready(task_id) == []
    numbers = await story.value("SELECT numbers FROM generation_decisions WHERE task_id = $1", task_id)
    assert (numbers["bunch"], numbers["queue_limit"]) == (500, 2000)
