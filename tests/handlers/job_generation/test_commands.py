"""Commands, restarts and periodic work."""

from __future__ import annotations

import pytest

from services.job_generation.kinds.event_service.store.event_ranges import discard_if_wanted
from shared.events import TaskCommanded, TaskProgressed, TaskReleased
from shared.states.event_range import CODES
from tests.handlers.job_generation.story import Story, chunks_in
from tests.rows import insert


async def set_status(story: Story, task_id: int, *statuses: str) -> None:
    async with story.database.begin(reason="the test plays task_definition") as work:
        for status in statuses:
            await work.connection.execute("UPDATE tasks SET status = $2 WHERE task_id = $1", task_id, status)


async def test_a_killed_tasks_offered_chunk_is_withdrawn_and_live_jobs_are_told(story: Story) -> None:
    task_id = await story.task(n_files=3)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id, max_jobs=1)
    await set_status(story, task_id, "aborting")
    said = await story.hear(TaskCommanded(task_id=task_id, command="kill", status="aborting"))
    [progress] = [event for event in said if isinstance(event, TaskProgressed)]
    assert (progress.status, progress.live_jobs) == ("aborting", 1)
    assert await story.files(task_id) == ["running", "ready", "ready"]
    [job_id] = [row["job_id"] for row in await story.fetch("SELECT job_id FROM jobs")]
    [progress] = [one for one in await story.end([job_id], "cancelled") if isinstance(one, TaskProgressed)]
    assert progress.live_jobs == 0
    assert await story.files(task_id) == ["ready"] * 3


async def test_a_paused_task_makes_nothing_and_goes_on_when_it_is_resumed(story: Story) -> None:
    task_id = await story.task(n_files=3)
    await story.ready(task_id)
    await set_status(story, task_id, "paused")
    await story.hear(TaskCommanded(task_id=task_id, command="pause", status="paused"))
    assert await story.files(task_id) == ["ready"] * 3
    await set_status(story, task_id, "ready")
    said = await story.hear(TaskCommanded(task_id=task_id, command="resume", status="ready"))
    assert len(chunks_in(said)) == 1


async def test_a_kill_that_arrives_after_the_resume_withdraws_nothing(story: Story) -> None:
    task_id = await story.task(n_files=3)
    await story.ready(task_id)
    said = await story.hear(TaskCommanded(task_id=task_id, command="pause", status="paused"))
    assert await story.files(task_id) == ["picked"] * 3
    assert chunks_in(said) == []


async def test_a_released_task_offers_its_input_again(story: Story) -> None:
    task_id = await story.task(n_files=2)
    [chunk_id] = await story.ready(task_id)
    await story.unplaceable(task_id, chunk_id)
    await set_status(story, task_id, "ready")
    said = await story.hear(TaskReleased(task_id=task_id, status="ready", reason="waited"))
    assert len(chunks_in(said)) == 1
    assert await story.value("SELECT retry_at FROM tasks WHERE task_id = $1", task_id) is None


async def test_a_task_that_was_held_back_is_looked_at_again_when_its_time_comes(story: Story) -> None:
    task_id = await story.task(n_files=2)
    async with story.database.begin(reason="test") as work:
        await work.connection.execute("UPDATE tasks SET retry_at = orrery_now() - interval '1 s'")
    periodic = next(one for one in story.service.periodic if one.name == "look-at-idle-tasks")
    async with story.database.begin(reason="periodic") as work:
        await periodic.run(work)
        assert len(chunks_in(work.emitted)) == 1
    assert await story.files(task_id) == ["picked"] * 2
    await story.check()


async def test_a_task_that_runs_until_its_input_is_closed_does_not_end_while_it_is_open(story: Story) -> None:
    task_id = await story.task(n_files=1, rule={"runUntilClosed": True})
    async with story.database.read() as connection:
        await connection.execute("UPDATE task_datasets SET state = 'open' WHERE type = 'input'")
    said = await story.end(await story.jobs_of(task_id), "finished")
    assert await story.status(task_id) == "defined"
    assert [event.status for event in said if isinstance(event, TaskProgressed)] == ["defined"]
    async with story.database.read() as connection:
        await connection.execute("UPDATE task_datasets SET state = 'frozen' WHERE type = 'input'")
    await set_status(story, task_id, "ready")
    await story.ready(task_id)
    assert await story.status(task_id) == "prepared"


@pytest.mark.parametrize(("details", "left"), [({"discard_events": True}, 0), ({}, 2)])
async def test_a_retry_that_discards_events_throws_away_what_was_processed_and_not_merged(
    story: Story, details: dict[str, bool], left: int
) -> None:
    task_id = await story.task(n_files=1)
    file = (await story.fetch("SELECT file_id, dataset_id FROM task_files WHERE task_id = $1", task_id))[0]
    codes = [CODES[status] for status in ("finished", "done", "merged", "failed", "ready")]
    async with story.database.begin(reason="the test plays the event service") as work:
        for number, code in enumerate(codes):
            events = {"job_process_id": number, "def_min_event_id": number}
            row = {"task_id": task_id, **dict(file), "status": code, **events}
            await insert(work.connection, "event_ranges", row)
        await work.connection.execute(
            "UPDATE tasks SET command = 'retry', command_details = $2 WHERE task_id = $1", task_id, details
        )
    if details:
        await story.hear(TaskCommanded(task_id=task_id, command="retry", status="ready"))
    else:
        async with story.database.begin(reason="a retry that discards nothing") as work:
            assert await discard_if_wanted(work, task_id) == 0
    found = [row["status"] for row in await story.fetch("SELECT status FROM event_ranges ORDER BY event_range_id")]
    discarded = CODES["discarded"] if not left else None
    assert found == [discarded or codes[0], discarded or codes[1], *codes[2:]]
    logged = await story.fetch("SELECT * FROM transition_log WHERE entity = 'event_range' AND to_status = 'discarded'")
    assert len(logged) == 2 - left
