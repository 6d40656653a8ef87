"""Hyper-parameter optimisation: jobs evaluate points until each is at its end, or no more jobs are allowed."""

from __future__ import annotations

from shared.events import TaskPointsOpened
from tests.handlers.job_generation.ranges import ranges, spec_of
from tests.handlers.job_generation.searches import begun, draw, evaluate, jobs_of, say, why
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_no_queue_for_job_sets import grid_is


async def test_jobs_of_a_search_are_told_so_and_write_their_own_outputs(story: Story) -> None:
    _, jobs = await begun(story, nEsConsumers=2)
    first, second = [await spec_of(story, one) for one in jobs]
    assert (first["isHPO"], second["isHPO"]) == ("True", "True") and "eventService" not in first
    assert first["outFiles"] != second["outFiles"] and first["jobPars"] != second["jobPars"]
    assert "HITS" in first["outFiles"] and first["jobsetID"] == second["jobsetID"]
    normal = await story.task(n_files=1)
    [job_id] = await story.jobs_of(normal)
    assert "isHPO" not in await spec_of(story, job_id)


async def test_all_points_are_evaluated_by_jobs_one_after_another_and_nobody_merges(story: Story) -> None:
    task_id, [first] = await begun(story)
    assert await evaluate(story, first, 3) == [1, 2, 3]
    [second] = generated_in(await story.end([first], "finished"))
    assert await story.files(task_id) == ["running"]
    await story.move([second], "running")
    assert await evaluate(story, second, 3) == [4]
    assert generated_in(await story.end([second], "finished")) == []
    assert await ranges(story, task_id) == ["done"] * 4
    assert (await story.files(task_id), await story.files(task_id, "output")) == (["finished"], ["finished"] * 2)
    assert await story.status(task_id) == "prepared"
    assert "4 of 4 points were evaluated: every point is at its end" in await why(story, task_id)


async def test_no_more_jobs_are_made_than_there_are_points_or_may_run_at_once(story: Story) -> None:
    _, jobs = await begun(story, nEsConsumers=3)
    assert len(jobs) == 3
    _, jobs = await begun(story, nEsConsumers=30)
    assert len(jobs) == 4
    _, jobs = await begun(story, nEsConsumers=3, maxNumJobs=2)
    assert len(jobs) == 2


async def test_the_search_ends_when_maxNumJobs_jobs_were_made(story: Story) -> None:
    task_id, [first] = await begun(story, maxNumJobs=2)
    await evaluate(story, first, 1)
    [second] = generated_in(await story.end([first], "finished"))
    await story.move([second], "running")
    await evaluate(story, second, 1)
    assert generated_in(await story.end([second], "finished")) == []
    assert await ranges(story, task_id) == ["done", "done", "cancelled", "cancelled"]
    assert (await story.files(task_id), await story.status(task_id)) == (["finished"], "prepared")
    told = "2 of 4 points were evaluated: 2 jobs were made, and no more are allowed (maxNumJobs)"
    assert await why(story, task_id) == told


async def test_a_search_without_any_evaluated_point_fails_whatever_attempts_its_input_has(story: Story) -> None:
    task_id, [first] = await begun(story, maxNumJobs=1)
    assert await draw(story, first, 2) == [1, 2]
    await story.end([first], "failed", source="payload")
    assert (await story.files(task_id), await story.status(task_id)) == (["failed"], "prepared")
    assert "0 of 4 points were evaluated" in await why(story, task_id)


async def test_points_of_a_job_that_ended_have_one_attempt_less_and_fail_without_any(story: Story) -> None:
    task_id, [job_id] = await begun(story, totNumJobs=2, nPointsPerGeneration=2, maxAttemptES=2)
    await evaluate(story, job_id, 1)
    for _ in range(2):
        assert await draw(story, job_id) == [2]
        new = generated_in(await story.end([job_id], "failed", source="payload"))
        if new:
            [job_id] = new
            await story.move([job_id], "running")
    assert await ranges(story, task_id) == ["done", "fatal"]
    assert (await story.files(task_id), await story.status(task_id)) == (["finished"], "prepared")
    assert (await jobs_of(story, task_id))[-2:] == ["failed", "failed"]


async def test_a_point_that_failed_is_evaluated_again_by_whoever_asks(story: Story) -> None:
    task_id, [job_id] = await begun(story, totNumJobs=1, nPointsPerGeneration=1, maxAttemptES=3)
    for _ in range(2):
        await say(story, job_id, await draw(story, job_id), "failed")
    assert await evaluate(story, job_id) == [1] and await draw(story, job_id) == []
    await story.end([job_id], "finished")
    assert sorted(await ranges(story, task_id)) == ["done", "failed", "failed"]
    assert await story.status(task_id) == "prepared"


async def test_a_generation_follows_when_the_one_before_is_evaluated(story: Story) -> None:
    task_id, [first, second] = await begun(story, nEsConsumers=2, nPointsPerGeneration=2)
    assert (await draw(story, first, 5), await draw(story, second, 5)) == ([1, 2], [])
    assert generated_in(await story.end([second], "finished")) == []  # it would find nothing either
    await say(story, first, [1, 2])
    assert await draw(story, first, 1) == [3]
    [third] = generated_in(await story.hear(TaskPointsOpened(task_id=task_id)))
    await story.move([third], "running")
    assert await draw(story, third, 5) == [4]


async def test_killed_and_finished_tasks_make_no_more_jobs(story: Story) -> None:
    task_id, [first] = await begun(story)
    await evaluate(story, first, 1)
    async with story.database.begin(reason="its owner finishes it") as work:
        await work.connection.execute(
            "UPDATE tasks SET status = 'finishing', old_status = 'running' WHERE task_id = $1", task_id
        )
    assert generated_in(await story.end([first], "finished")) == []
    assert await story.files(task_id) == ["finished"]
    assert "no more jobs are made of the task" in await why(story, task_id)


async def test_a_search_without_a_queue_is_brokered_again_and_keeps_its_points_and_the_number_of_its_jobs(
    story: Story,
) -> None:
    task_id, [first] = await begun(story, "Q_ALPHA", maxNumJobs=2)
    await evaluate(story, first, 2)
    await grid_is(story, Q_ALPHA=None)
    [chunk_id] = chunks_in(await story.end([first], "finished"))
    [second] = generated_in(await story.broker(task_id, chunk_id, "Q_BETA"))
    await story.move([second], "running")
    assert await evaluate(story, second, 1) == [3]
    assert generated_in(await story.end([second], "finished")) == []
    assert sorted(await ranges(story, task_id)) == ["cancelled", "done", "done", "done"]
    assert await story.status(task_id) == "prepared" and "2 jobs were made" in await why(story, task_id)
