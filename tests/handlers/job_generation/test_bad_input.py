"""Input that no job can be made of: each ends in a stated reason on the task, and nobody tries it over and over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_boundaries import bounded

TERABYTE = 2**40


async def told(story: Story, task_id: int, chunk_id: int) -> str:
    """Why no job was made of a chunk: the task waits for a time, its input is free, and nothing is offered before."""
    said = await story.broker(task_id, chunk_id, "Q_ALPHA", "Q_BETA")
    assert generated_in(said) == [] and chunks_in(said) == []
    [task] = await story.fetch("SELECT status, error_dialog, retry_at FROM tasks WHERE task_id = $1", task_id)
    assert task["status"] == "pending" and task["retry_at"] is not None
    assert set(await story.files(task_id)) == {"ready"}
    assert chunks_in(await story.look_at_idle_tasks()) == []
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert reason == task["error_dialog"]
    return str(reason)


async def sized(story: Story, size_bytes: int, **rule: Any) -> int:
    """A task of two files of this size, which are copied to the worker node."""
    task_id = await story.task(n_files=2, rule={"useLocalIO": True, **rule})
    await altered(story, "UPDATE task_files SET fsize = $1 WHERE type = 'input'", size_bytes)
    return task_id


async def altered(story: Story, statement: str, *arguments: Any) -> None:
    async with story.database.begin(reason="the test says what the catalogue has") as work:
        await work.connection.execute(statement, *arguments)


@pytest.mark.parametrize("n_events", [100, 0, None])
async def test_a_file_of_size_0_is_processed_as_any_other(story: Story, n_events: int | None) -> None:
    task_id = await sized(story, 0)
    await altered(story, "UPDATE task_files SET n_events = $1 WHERE type = 'input'", n_events)
    await story.end(await story.jobs_of(task_id), "finished")
    assert await story.files(task_id) == ["finished"] * 2 and await story.status(task_id) == "prepared"


async def test_a_file_that_is_larger_than_any_disk_is_told(story: Story) -> None:
    task_id = await sized(story, TERABYTE)
    [chunk_id] = await story.ready(task_id)
    reason = await told(story, task_id, chunk_id)
    assert "mc.input._00000.root fits no queue" in reason
    assert reason.endswith("nor does 1 other") and "_00001" not in reason
    assert "bytes of scratch space, Q_ALPHA has" in reason and "bytes of scratch space, Q_BETA has" in reason


async def test_a_boundary_that_is_larger_than_a_job_may_be_is_told_whole(story: Story) -> None:
    task_id = await bounded(story, 4, 4, 4, opened=3)
    await altered(story, "UPDATE task_files SET fsize = $1 WHERE type = 'input'", TERABYTE // 8)
    await altered(story, """UPDATE tasks SET split_rule = split_rule || '{"useLocalIO": true}'""")
    [chunk_id] = await story.ready(task_id)
    assert "boundary 4 (3 units from mc.input._00000.root on) fits no queue" in await told(story, task_id, chunk_id)


async def test_a_boundary_that_breaks_only_rules_about_sizes_is_one_job(story: Story) -> None:
    task_id = await bounded(story, 4, 4, 4, opened=3)
    await altered(story, """UPDATE tasks SET split_rule = split_rule || '{"nMaxFilesPerJob": 2, "nGBPerJob": 1}'""")
    [chunk_id] = await story.ready(task_id)
    [job_id] = generated_in(await story.broker(task_id, chunk_id))
    assert await story.value("SELECT count(*) FROM job_files WHERE job_id = $1 AND is_master", job_id) == 3


async def test_a_secondary_dataset_without_a_file_for_the_first_job_is_told(story: Story) -> None:
    task_id = await story.task(n_files=2, secondary={"n_files": 1, "ratio": 2}, command_line="${IN} ${IN_MINBIAS/L}")
    [chunk_id] = await story.ready(task_id)
    reason = await told(story, task_id, chunk_id)
    assert f"secondary dataset mc.minbias.{task_id} has not enough unused files for another job" in reason


async def test_memory_that_was_raised_above_every_queue_is_told_and_the_other_input_goes_on(story: Story) -> None:
    task_id = await story.task(n_files=2)
    await altered(
        story, "UPDATE task_files SET ram_count = 900000 WHERE file_id = (SELECT min(file_id) FROM task_files)"
    )
    await altered(story, "INSERT INTO raised_memory (task_id, ram_mb, n_files) VALUES ($1, 900000, 1)", task_id)
    first, second = await story.ready(task_id)
    assert generated_in(await story.broker(task_id, first)) == []
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert "MB of memory, Q_ALPHA has" in reason
    assert len(generated_in(await story.broker(task_id, second))) == 1


async def test_a_job_that_would_run_longer_than_any_queue_lets_it_is_told(story: Story) -> None:
    task_id = await story.task(n_files=1, cpu_time=10**9, cpu_time_unit="HS06sPerEvent")
    [chunk_id] = await story.ready(task_id)
    assert "s are allowed at Q_ALPHA" in await told(story, task_id, chunk_id)
