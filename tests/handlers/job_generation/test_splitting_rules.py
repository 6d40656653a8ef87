"""Rules of splitting that show between chunks: what is held back, left out or released together."""

from __future__ import annotations

from typing import Any

from tests.handlers.job_generation.story import Story, chunks_in
from tests.rows import change

_SIZES = (
    "SELECT count(*) FROM job_files jf JOIN task_files f USING (file_id) WHERE jf.is_master AND f.task_id = $1"
    " GROUP BY jf.job_id ORDER BY jf.job_id"
)


async def sizes(story: Story, task_id: int) -> list[int]:
    return [row["count"] for row in await story.fetch(_SIZES, task_id)]


async def alter(story: Story, statement: str, *arguments: Any) -> None:
    async with story.database.read() as connection:
        await change(connection, statement, *arguments)


async def chunks_of_files(story: Story, n_files: int) -> None:
    """Chunks take so many files at most."""
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO parameters (app, component, key, value, type) VALUES ('jedi', 'jobgen', 'NFILES', $1, 'int')",
            str(n_files),
        )
        await work.connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")


async def test_n_files_per_job_is_exact_over_the_borders_of_chunks(story: Story) -> None:
    await chunks_of_files(story, 7)
    task_id = await story.task(n_files=20, rule={"nFilesPerJob": 3})
    await story.jobs_of(task_id)
    assert await sizes(story, task_id) == [3, 3, 3, 3, 3, 3, 2]


async def test_jobs_of_so_many_gb_are_not_cut_short_by_the_border_of_a_chunk(story: Story) -> None:
    await chunks_of_files(story, 7)
    task_id = await story.task(n_files=20, rule={"nFilesPerJob": None, "nMaxFilesPerJob": 5})
    await story.jobs_of(task_id)
    assert await sizes(story, task_id) == [5, 5, 5, 5]


async def test_fewer_files_than_a_job_has_wait_for_those_that_are_still_staged(story: Story) -> None:
    task_id = await story.task(n_files=5, rule={"nFilesPerJob": 3})
    some = "(SELECT file_id FROM task_files WHERE task_id = $1 AND type = 'input' ORDER BY file_id DESC LIMIT $2)"
    await alter(story, f"UPDATE task_files SET status = 'staging' WHERE file_id IN {some}", task_id, 1)
    await story.jobs_of(task_id)
    assert await sizes(story, task_id) == [3]
    assert await story.files(task_id) == ["running"] * 3 + ["ready", "staging"]
    await alter(story, "UPDATE task_files SET status = 'ready' WHERE task_id = $1 AND status = 'staging'", task_id)
    await story.jobs_of(task_id)
    assert await sizes(story, task_id) == [3, 2]


async def test_no_input_pooling_makes_a_job_as_soon_as_one_input_is_ready(story: Story) -> None:
    task_id = await story.task(n_files=5, rule={"nFilesPerJob": 3, "noInputPooling": True})
    await alter(
        story,
        "UPDATE task_files SET status = 'staging' WHERE task_id = $1 AND type = 'input' AND file_id NOT IN"
        " (SELECT min(file_id) FROM task_files WHERE task_id = $1 AND type = 'input')",
        task_id,
    )
    await story.jobs_of(task_id)
    assert await sizes(story, task_id) == [1]


async def test_release_per_lb_waits_for_all_files_of_a_luminosity_block(story: Story) -> None:
    task_id = await story.task(n_files=4, rule={"nFilesPerJob": 2, "respectLB": True, "releasePerLB": True})
    await alter(
        story,
        "UPDATE task_files f SET lumi_block_nr = 1 + (n.place - 1) / 2, status = CASE n.place WHEN 2 THEN 'staging'"
        " ELSE 'ready' END FROM (SELECT file_id, row_number() OVER (ORDER BY file_id) AS place FROM task_files"
        " WHERE task_id = $1 AND type = 'input') n WHERE n.file_id = f.file_id",
        task_id,
    )
    await story.jobs_of(task_id)
    assert await story.files(task_id) == ["ready", "staging", "running", "running"]
    await alter(story, "UPDATE task_files SET status = 'ready' WHERE task_id = $1 AND status = 'staging'", task_id)
    await story.jobs_of(task_id)
    assert await sizes(story, task_id) == [2, 2]


async def test_skip_short_output_leaves_out_what_fills_no_job_and_says_so(story: Story) -> None:
    task_id = await story.task(n_files=5, rule={"nFilesPerJob": 3, "skipShortOutput": True})
    jobs = await story.jobs_of(task_id)
    assert await sizes(story, task_id) == [3]
    assert await story.files(task_id) == ["running"] * 3 + ["failed"] * 2
    reasons = {
        row["reason"]
        for row in await story.fetch(
            "SELECT reason FROM transition_log WHERE entity = 'file' AND to_status = 'failed' AND task_id = $1", task_id
        )
    }
    assert len(reasons) == 1 and "2 files from mc.input._00003.root on are fewer than 3 per job" in reasons.pop()
    said = await story.end(jobs, "finished")
    assert await story.status(task_id) == "prepared" and not chunks_in(said)


async def test_skip_short_output_leaves_out_a_task_that_is_short_as_a_whole(story: Story) -> None:
    task_id = await story.task(n_files=2, rule={"nFilesPerJob": 3, "skipShortOutput": True})
    assert await story.jobs_of(task_id) == []
    assert await story.files(task_id) == ["failed", "failed"]
