"""A task with preproSpec: one job before its definition, whose metadata define the task; again, or given up."""

from __future__ import annotations

from typing import Any

import pytest

from shared.events import TaskCommanded, TaskPrepared, TaskProgressed, TaskReleased
from tests import rows
from tests.handlers.job_generation.story import Story, chunks_in, generated_in

RETURNED = {"taskParameters": {"nFilesPerJob": 4}}


async def to_preprocess(story: Story, *, status: str = "topreprocess", max_attempt: int = 2, **values: Any) -> int:
    """A task as its definition leaves it before its pre-processing job."""
    async with story.database.read() as connection:
        task_id: int = await rows.task(
            connection, status=status, split_rule={"usePrePro": 1}, trans_path="Sim_tf.py", resource_type="SCORE",
            core_count=1, ram_count=1000, ram_unit="MBPerCore", **values,
        )  # fmt: skip
        await rows.insert(connection, "task_parameters", {"task_id": task_id, "task_parameters": {}})
        lines = {"preprocess": "--find ${TASKID}", "preprocess_trans_path": "find.sh", "preprocess_label": "panda"}
        template = {"task_id": task_id, "job_parameters_template": lines}
        await rows.insert(connection, "job_parameters_templates", template)
        dataset_id = await rows.dataset(
            connection, task_id, dataset_name=f"preprocess_{task_id}", type="pp_input", stream_name="PREPROCESS",
            n_files=1, n_files_to_be_used=1,
        )  # fmt: skip
        name = f"preprocess_{task_id}"
        await rows.file(connection, task_id, dataset_id, lfn=name, type="pp_input", max_attempt=max_attempt)
    return task_id


async def offered(story: Story, task_id: int) -> int:
    status = await story.status(task_id)
    said = await story.hear(TaskReleased(task_id=task_id, status=status, reason="test"))
    [chunk_id] = chunks_in(said)
    return chunk_id


async def a_job(story: Story, task_id: int) -> int:
    [job_id] = generated_in(await story.broker(task_id, await offered(story, task_id)))
    return job_id


async def rule(story: Story, task_id: int) -> Any:
    return await story.value("SELECT split_rule -> 'usePrePro' FROM tasks WHERE task_id = $1", task_id)


async def unit(story: Story, task_id: int) -> list[str]:
    return await story.files(task_id, "pp_input")


async def test_the_pre_processing_job_is_made_once_and_the_task_is_preprocessing(story: Story) -> None:
    task_id = await to_preprocess(story)
    job_id = await a_job(story, task_id)
    assert (await story.status(task_id), await rule(story, task_id)) == ("preprocessing", 2)
    [job] = await story.fetch("SELECT job_type, queue FROM jobs WHERE job_id = $1", job_id)
    assert job == {"job_type": "preprocess", "queue": "Q_ALPHA"}
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", job_id)
    assert spec["jobPars"] == f"--find {task_id}"
    assert (spec["transformation"], spec["prodSourceLabel"]) == ("find.sh", "panda")
    assert (spec["inFiles"], spec["outFiles"]) == ("", "")
    said = await story.hear(TaskReleased(task_id=task_id, status="preprocessing", reason="test"))
    assert chunks_in(said) == [] and await unit(story, task_id) == ["running"]


async def test_a_pre_processing_job_that_succeeds_sends_the_task_back_to_its_definition(story: Story) -> None:
    task_id = await to_preprocess(story)
    said = await story.end([await a_job(story, task_id)], "finished", report={"meta_data": RETURNED})
    assert (await story.status(task_id), await rule(story, task_id)) == ("registered", 3)
    assert "registered" in [one.status for one in said if isinstance(one, TaskProgressed)]
    [kept] = await story.fetch("SELECT returned FROM preprocessing_results WHERE task_id = $1", task_id)
    assert kept["returned"] == RETURNED and await unit(story, task_id) == ["finished"]


async def test_a_pre_processing_job_that_reported_no_metadata_returned_nothing(story: Story) -> None:
    task_id = await to_preprocess(story)
    await story.end([await a_job(story, task_id)], "finished")
    assert await story.value("SELECT returned FROM preprocessing_results WHERE task_id = $1", task_id) == {}


async def test_a_pre_processing_job_that_fails_is_made_again_while_it_has_attempts(story: Story) -> None:
    task_id = await to_preprocess(story)
    said = await story.end([await a_job(story, task_id)], "failed", source="payload")
    assert await story.status(task_id) == "preprocessing"
    [chunk_id] = chunks_in(said)
    [second] = generated_in(await story.broker(task_id, chunk_id))
    await story.end([second], "finished", report={"meta_data": RETURNED})
    assert await story.status(task_id) == "registered"


async def test_a_task_whose_pre_processing_job_has_no_attempts_left_is_prepared_for_its_end(story: Story) -> None:
    task_id = await to_preprocess(story, max_attempt=1)
    said = await story.end([await a_job(story, task_id)], "failed", source="payload")
    assert await story.status(task_id) == "prepared"
    assert TaskPrepared(task_id=task_id) in said
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert reason == "its pre-processing job failed in 1 attempts"


async def test_a_lost_pre_processing_job_is_made_again(story: Story) -> None:
    task_id = await to_preprocess(story)
    said = await story.end([await a_job(story, task_id)], "failed", source="lost")
    assert len(chunks_in(said)) == 1 and await story.status(task_id) == "preprocessing"


@pytest.mark.parametrize("status", ["topreprocess", "preprocessing"])
async def test_a_pre_processing_job_without_a_queue_makes_its_task_wait_with_the_reason(
    story: Story, status: str
) -> None:
    task_id = await to_preprocess(story, status=status)
    await story.unplaceable(task_id, await offered(story, task_id))
    [row] = await story.fetch("SELECT status, old_status, error_dialog FROM tasks WHERE task_id = $1", task_id)
    assert row == {"status": "pending", "old_status": status, "error_dialog": "no queue is online"}
    assert await unit(story, task_id) == ["ready"]


async def test_queues_that_are_gone_when_the_pre_processing_job_is_made_hold_the_task_back(story: Story) -> None:
    task_id = await to_preprocess(story)
    assert generated_in(await story.broker(task_id, await offered(story, task_id), "Q_GONE")) == []
    assert (await story.status(task_id), await unit(story, task_id)) == ("topreprocess", ["ready"])
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert reason == "its pre-processing job waits: none of the ranked queues exists any more"
    assert await story.value("SELECT retry_at > orrery_now() FROM tasks WHERE task_id = $1", task_id)


async def command(story: Story, task_id: int, name: str, status: str, old_status: str | None = None) -> list[int]:
    async with story.database.begin(reason="the test plays definition") as work:
        await work.connection.execute(
            "UPDATE tasks SET status = $2, old_status = $3 WHERE task_id = $1", task_id, status, old_status
        )
    return chunks_in(await story.hear(TaskCommanded(task_id=task_id, command=name, status=status)))


async def test_a_kill_takes_the_offered_pre_processing_job_back(story: Story) -> None:
    task_id = await to_preprocess(story)
    await offered(story, task_id)
    assert await command(story, task_id, "kill", "aborting") == []
    assert await unit(story, task_id) == ["ready"]


async def test_a_paused_task_makes_no_pre_processing_job_before_it_is_resumed(story: Story) -> None:
    task_id = await to_preprocess(story)
    chunk_id = await offered(story, task_id)
    assert await command(story, task_id, "pause", "paused", "topreprocess") == []
    assert generated_in(await story.broker(task_id, chunk_id)) == []
    assert len(await command(story, task_id, "resume", "topreprocess")) == 1


async def test_a_pre_processing_job_that_ends_while_its_task_is_paused_counts_when_it_is_resumed(story: Story) -> None:
    task_id = await to_preprocess(story)
    job_id = await a_job(story, task_id)
    await command(story, task_id, "pause", "paused", "preprocessing")
    await story.end([job_id], "finished", report={"meta_data": RETURNED})
    assert await story.status(task_id) == "paused"
    await command(story, task_id, "resume", "preprocessing")
    assert await story.status(task_id) == "registered"


async def test_no_pre_processing_job_is_made_while_job_submission_is_off(story: Story) -> None:
    task_id = await to_preprocess(story)
    async with story.database.begin(reason="switched off") as work:
        await work.connection.execute(
            "INSERT INTO parameters (component, key, value, type) VALUES ('jobgen', 'JOB_SUBMISSION', 'false', 'bool')"
        )
        await work.connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    for one in story.service.on_start:
        await one()
    assert chunks_in(await story.hear(TaskReleased(task_id=task_id, status="topreprocess", reason="test"))) == []
