"""Counting the ends of jobs and settling what follows are two steps."""

from __future__ import annotations

from collections.abc import Sequence

from shared.events import Event, JobsFinished, TaskPrepared, TaskProgressed, TasksCounted
from tests.handlers.job_generation.story import Story

LOCKED = "SELECT FROM tasks WHERE task_id = ANY($1::bigint[]) FOR NO KEY UPDATE"
FINISHED = "SELECT n_files_finished AS n FROM task_datasets WHERE task_id = ANY($1::bigint[]) AND type = 'input'"


async def hear_only(story: Story, event: Event) -> Sequence[Event]:
    """The handler of this event alone, without what job generation tells itself."""
    async with story.database.begin(reason="the test plays the bus") as work:
        await dict(story.service.work)[type(event)](event, work)
        return work.emitted


async def two_tasks(story: Story) -> dict[int, list[int]]:
    """Two tasks of two jobs each, by their ids."""
    return {task_id: await story.jobs_of(task_id) for task_id in [await story.task(n_files=2) for _ in range(2)]}


async def count_dirty(story: Story) -> int:
    return int(await story.value("SELECT count(*) FROM dirty_tasks"))


async def test_finished_jobs_of_several_tasks_are_counted_while_others_hold_the_tasks(story: Story) -> None:
    jobs = await two_tasks(story)
    firsts = [some[0] for some in jobs.values()]
    await story.move(firsts, "finished")
    async with story.database.transaction() as holder:
        await holder.execute(LOCKED, list(jobs))
        said = await hear_only(story, JobsFinished(job_ids=tuple(firsts)))
        assert [type(one) for one in said] == [TasksCounted]
        assert [row["n"] for row in await story.fetch(FINISHED, list(jobs))] == [1, 1]
    await story.check()
    [counted] = said
    told = await hear_only(story, counted)
    assert {type(one) for one in told} == {TaskProgressed}
    assert [one.files_finished for one in told if isinstance(one, TaskProgressed)] == [1, 1]
    assert await count_dirty(story) == 0


async def test_a_job_that_is_told_of_twice_is_counted_once(story: Story) -> None:
    [(task_id, jobs), _] = (await two_tasks(story)).items()
    await story.move(jobs[:1], "finished")
    assert len(await hear_only(story, JobsFinished(job_ids=tuple(jobs[:1])))) == 1
    assert await hear_only(story, JobsFinished(job_ids=tuple(jobs[:1]))) == ()
    assert await story.value("SELECT n_finished FROM task_job_counts WHERE task_id = $1", task_id) == 1


async def test_a_task_whose_last_job_was_counted_has_a_next_step_until_it_is_settled(story: Story) -> None:
    [(task_id, jobs), _] = (await two_tasks(story)).items()
    await story.move(jobs, "finished")
    [counted] = await hear_only(story, JobsFinished(job_ids=tuple(jobs)))
    await story.check()
    assert await story.status(task_id) == "running"
    assert any(isinstance(one, TaskPrepared) for one in await hear_only(story, counted))
    assert await story.status(task_id) == "prepared"
    await story.check()


async def test_a_task_whose_event_was_lost_is_settled_by_who_looks(story: Story) -> None:
    [(task_id, jobs), _] = (await two_tasks(story)).items()
    await story.move(jobs, "finished")
    await hear_only(story, JobsFinished(job_ids=tuple(jobs)))
    look = next(one for one in story.service.periodic if one.name == "settle-left")
    for is_old in (False, True):
        async with story.database.begin(reason="periodic") as work:
            if is_old:
                await work.connection.execute("UPDATE dirty_tasks SET told_at = told_at - interval '10 seconds'")
            await look.run(work)
            told = [one.task_ids for one in work.emitted if isinstance(one, TasksCounted)]
        assert told == ([(task_id,)] if is_old else [])
    await hear_only(story, TasksCounted(task_ids=(task_id,)))
    assert await story.status(task_id) == "prepared"
    assert await count_dirty(story) == 0


async def test_progress_that_people_see_already_is_told_only_of_tasks_with_a_nucleus(story: Story) -> None:
    told = {}
    for nucleus in (None, "ALPHA"):
        task_id = await story.task(
            n_files=200, task_type="anal", prod_source_label="user", nucleus=nucleus, user_name="ada"
        )
        jobs = await story.jobs_of(task_id)
        for number, seen_percent in ((0, 0), (1, 0), (2, 1)):
            seen = "UPDATE tasks SET progress = $2, failure_rate = 0 WHERE task_id = $1 RETURNING 1"
            await story.value(seen, task_id, seen_percent)
            await story.move(jobs[number : number + 1], "finished")
            [counted] = await hear_only(story, JobsFinished(job_ids=(jobs[number],)))
            said = await hear_only(story, counted)
            told[nucleus, number] = [one.files_finished for one in said if isinstance(one, TaskProgressed)]
    assert [told[None, number] for number in range(3)] == [[], [2], []]
    assert [told["ALPHA", number] for number in range(3)] == [[1], [2], [3]]
