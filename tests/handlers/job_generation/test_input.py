"""What job generation makes of the state of its input."""

from __future__ import annotations

import pytest

from shared.events import TaskPrepared, TaskReleased
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.rows import change

_MASTER = "SELECT status FROM task_datasets WHERE task_id = $1 AND type = 'input'"


async def alter(story: Story, statement: str, *arguments: object) -> None:
    async with story.database.read() as connection:
        await change(connection, statement, *arguments)


async def test_a_closed_dataset_is_done_as_soon_as_its_last_file_is_processed(story: Story) -> None:
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:1], "finished")
    assert await story.value(_MASTER, task_id) == "ready"
    await story.end(jobs[1:], "finished")
    assert await story.value(_MASTER, task_id) == "done"


async def test_an_open_dataset_is_not_done_whatever_was_processed(story: Story) -> None:
    task_id = await story.task(n_files=1, rule={"runUntilClosed": True})
    await alter(story, "UPDATE task_datasets SET state = 'open' WHERE task_id = $1 AND type = 'input'", task_id)
    await story.end(await story.jobs_of(task_id), "finished")
    assert await story.value(_MASTER, task_id) == "ready"


async def test_a_dataset_with_files_that_were_given_up_is_not_done(story: Story) -> None:
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    for _ in range(3):
        said = await story.end(jobs, "failed", source="payload")
        for chunk_id in chunks_in(said):
            jobs = generated_in(await story.broker(task_id, chunk_id))
    assert await story.files(task_id) == ["failed"]
    assert await story.value(_MASTER, task_id) == "ready"


@pytest.mark.parametrize("rule", ["runUntilClosed", "noWaitParent"])
async def test_a_task_whose_open_input_is_worked_on_is_defined_again(story: Story, rule: str) -> None:
    task_id = await story.task(n_files=1, rule={rule: True})
    await alter(story, "UPDATE task_datasets SET state = 'open' WHERE task_id = $1 AND type = 'input'", task_id)
    await story.end(await story.jobs_of(task_id), "finished")
    assert await story.status(task_id) == "defined"


async def test_a_task_whose_input_is_being_read_is_not_prepared_before_that_ended(story: Story) -> None:
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    await alter(story, "INSERT INTO input_readings (task_id) VALUES ($1)", task_id)
    await alter(story, "UPDATE task_datasets SET status = 'toupdate' WHERE task_id = $1 AND type = 'input'", task_id)
    await story.end(jobs, "finished")
    assert await story.status(task_id) == "running"
    await alter(story, "DELETE FROM input_readings WHERE task_id = $1", task_id)
    await alter(story, "UPDATE task_datasets SET status = 'ready' WHERE task_id = $1 AND type = 'input'", task_id)
    said = await story.hear(TaskReleased(task_id=task_id, status="running", reason="its input was read again"))
    assert [event for event in said if isinstance(event, TaskPrepared)]
    assert await story.value(_MASTER, task_id) == "done"


@pytest.mark.parametrize("status", ["lost", "broken", "missing"])
async def test_jobs_are_made_without_files_that_cannot_be_used_and_the_task_ends_without_them(
    story: Story, status: str
) -> None:
    task_id = await story.task(n_files=3)
    unusable = (
        "UPDATE task_files SET status = $2 WHERE file_id = (SELECT min(file_id) FROM task_files WHERE task_id = $1"
        " AND type = 'input')"
    )
    await alter(story, unusable, task_id, status)
    await alter(
        story,
        "INSERT INTO transition_log (at, entity, entity_ids, task_id, from_status, to_status, actor, reason)"
        " SELECT orrery_now(), 'file', ARRAY[min(file_id)], task_id, 'ready', $2, 'test', 'planted' FROM task_files"
        " WHERE task_id = $1 AND type = 'input' GROUP BY task_id",
        task_id,
        status,
    )
    jobs = await story.jobs_of(task_id)
    assert len(jobs) == 2
    said = await story.end(jobs, "finished")
    assert [event.task_id for event in said if isinstance(event, TaskPrepared)] == [task_id]
    assert chunks_in(said) == []
    assert await story.value(_MASTER, task_id) == "ready"


async def test_scouts_are_judged_without_the_files_that_were_lost_meanwhile(story: Story) -> None:
    task_id = await story.task(n_files=20, opened=2, status="scouting", rule={"nFilesPerJob": 1})
    jobs = await story.jobs_of(task_id)
    assert len(jobs) == 2
    await alter(
        story,
        "UPDATE task_files SET status = 'lost' WHERE task_id = $1 AND type = 'input' AND status = 'ready'",
        task_id,
    )
    await alter(
        story,
        "INSERT INTO transition_log (at, entity, entity_ids, task_id, from_status, to_status, actor, reason)"
        " SELECT orrery_now(), 'file', array_agg(file_id), task_id, 'ready', 'lost', 'test', 'planted' FROM task_files"
        " WHERE task_id = $1 AND status = 'lost' GROUP BY task_id",
        task_id,
    )
    await alter(
        story, "UPDATE task_datasets SET n_files_to_be_used = 10 WHERE task_id = $1 AND type = 'input'", task_id
    )
    await story.end(jobs, "finished")
    assert await story.status(task_id) == "prepared"


async def test_a_task_whose_input_is_all_lost_before_its_scouts_ran_is_broken_with_the_reason(story: Story) -> None:
    task_id = await story.task(n_files=2, status="scouting", rule={"nFilesPerJob": 1})
    await alter(
        story,
        "WITH lost AS (UPDATE task_files SET status = 'lost' WHERE task_id = $1 AND type = 'input'"
        " RETURNING file_id, task_id)"
        " INSERT INTO transition_log (at, entity, entity_ids, task_id, from_status, to_status, actor, reason)"
        " SELECT orrery_now(), 'file', array_agg(file_id), task_id, 'ready', 'lost', 'test', 'planted' FROM lost"
        " GROUP BY task_id",
        task_id,
    )
    await story.hear(TaskReleased(task_id=task_id, status="scouting", reason="its input was read again"))
    assert await story.status(task_id) == "tobroken"
    assert "all input is lost" in await story.value("SELECT error_dialog FROM tasks WHERE task_id = $1", task_id)


async def test_files_by_physical_name_are_in_the_command_line_and_the_pilot_moves_none(story: Story) -> None:
    task_id = await story.task(n_files=3, rule={"nFilesPerJob": 2}, command_line='-i "${IN/T}" -o ${OUTPUT0}')
    async with story.database.begin(reason="as definition leaves it") as work:
        await work.connection.execute("UPDATE task_datasets SET type = 'pseudo_input' WHERE type = 'input'")
        await work.connection.execute(
            "UPDATE task_files SET type = 'pseudo_input', lfn = 'root://a/' || lfn WHERE type = 'input'"
        )
    first, _ = await story.jobs_of(task_id)
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", first)
    names = [f"root://a/mc.input._{number:05d}.root" for number in (0, 1)]
    assert spec["jobPars"].startswith(f"-i \"['{names[0]}','{names[1]}']\"") and spec["inFiles"] == ""
