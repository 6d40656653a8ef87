"""Copies of jobs (useJobCloning): the first that starts, or stores its output, counts; the others end as jc_unlock."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_generation.store.scouts import progress
from shared.events import JobsFailed, JobsFinished, JobsStarted, JobsTransferring
from tests import rows
from tests.handlers.events import deliver
from tests.handlers.job_generation.ranges import ends
from tests.handlers.job_generation.story import Story, chunks_in, generated_in


async def begun(story: Story, mode: str, *queues: str, n_files: int = 1, **rule: Any) -> tuple[int, list[int]]:
    """A task and the copies of its jobs."""
    task_id = await story.task(n_files=n_files, rule={"useJobCloning": mode, **rule}, event_service=3)
    [chunk_id] = await story.ready(task_id)
    return task_id, generated_in(await story.broker(task_id, chunk_id, *(queues or ("Q_ALPHA", "Q_BETA"))))


async def start(story: Story, *job_ids: int) -> None:
    await story.move(job_ids, "running")
    await story.hear(JobsStarted(job_ids=job_ids))


async def outputs(story: Story, task_id: int) -> list[str]:
    return sorted(await story.files(task_id, "output"))


async def test_copies_go_to_two_sites_and_have_outputs_of_their_own(story: Story) -> None:
    task_id, jobs = await begun(story, "runonce", n_files=2)
    found = await story.fetch("SELECT queue FROM jobs WHERE job_id = ANY($1::bigint[]) ORDER BY queue", jobs)
    assert [row["queue"] for row in found] == ["Q_ALPHA"] * 2 + ["Q_BETA"] * 2
    names = await story.fetch("SELECT DISTINCT lfn FROM task_files WHERE task_id = $1 AND type = 'output'", task_id)
    assert len(names) == 4 and await story.files(task_id) == ["running"] * 2


async def test_runonce_the_first_copy_that_starts_takes_the_others_back(story: Story) -> None:
    task_id, [first, second] = await begun(story, "runonce")
    await start(story, second)
    assert await ends(story, first, second) == [("closed", "jc_unlock"), ("running", None)]
    assert await story.value("SELECT error_code FROM jobs WHERE job_id = $1", first) == 200
    await story.end([second], "finished")
    assert await story.files(task_id) == ["finished"] and await outputs(story, task_id) == ["cancelled", "finished"]
    assert await story.status(task_id) == "prepared"


async def test_runonce_of_two_copies_that_start_at_once_one_goes_on(story: Story) -> None:
    _, [first, second] = await begun(story, "runonce")
    await start(story, second, first)
    await story.hear(JobsStarted(job_ids=(first,)))
    assert await ends(story, first, second) == [("closed", "jc_unlock"), ("running", None)]


async def test_storeonce_all_copies_run_until_one_stores_its_output(story: Story) -> None:
    task_id, [first, second, third] = await begun(story, "storeonce", "Q_ALPHA", nEsConsumers=3)
    await start(story, first, second, third)
    assert {status for status, _ in await ends(story, first, second, third)} == {"running"}
    await story.end([second], "finished")
    assert await ends(story, first, second, third) == [
        ("closed", "jc_unlock"), ("finished", None), ("closed", "jc_unlock"),
    ]  # fmt: skip
    assert await story.files(task_id) == ["finished"] and await story.status(task_id) == "prepared"


@pytest.mark.parametrize("at_once", [True, False])
async def test_storeonce_of_two_copies_that_finish_one_counts(story: Story, at_once: bool) -> None:
    task_id, [first, second] = await begun(story, "storeonce")
    await story.move([first, second], "finished")
    for job_ids in [(first, second)] if at_once else [(second,), (first,)]:
        await story.hear(JobsFinished(job_ids=job_ids))
    assert sorted(sub or "" for _, sub in await ends(story, first, second)) == ["", "jc_unlock"]
    assert await story.files(task_id) == ["finished"] and await outputs(story, task_id) == ["cancelled", "finished"]
    assert await story.status(task_id) == "prepared"


async def step(story: Story, status: str, *job_ids: int) -> None:
    """What dispatch does with jobs, without telling anybody."""
    async with story.database.begin(reason="the test plays dispatch") as work:
        await work.connection.execute("UPDATE jobs SET status = $2 WHERE job_id = ANY($1::bigint[])", job_ids, status)


async def store(story: Story, job_id: int) -> None:
    """What task_definition notes: the outputs of a copy are registered."""
    async with story.database.begin(reason="the test plays task_definition") as work:
        await work.connection.execute(
            "INSERT INTO stored_copies SELECT job_set_id, job_id FROM job_set_jobs WHERE job_id = $1", job_id
        )
        query = "SELECT file_id FROM task_files WHERE out_job_id = $1 AND type IN ('output', 'log')"
        for row in await work.connection.fetch(query, job_id):
            await rows.register(work.connection, row["file_id"])


@pytest.mark.parametrize("loser", ["running", "holding", "transferring"])
@pytest.mark.parametrize("mode", ["runonce", "storeonce"])
async def test_when_a_copy_has_stored_its_output_the_others_end_as_jc_unlock_whatever_they_do(
    story: Story, mode: str, loser: str
) -> None:
    task_id, [first, second] = await begun(story, mode)
    await story.move([first, second], "running")
    if loser != "running":
        await step(story, "holding", first)
        await step(story, loser, first)
    await step(story, "holding", second)
    await store(story, second)
    await step(story, "transferring", second)
    await story.hear(JobsTransferring(job_ids=(second,)))
    assert await ends(story, first, second) == [("closed", "jc_unlock"), ("transferring", None)]
    assert await story.value("SELECT error_code FROM jobs WHERE job_id = $1", first) == 200
    await step(story, "finished", second)
    await story.hear(JobsFinished(job_ids=(second,)))
    assert await outputs(story, task_id) == ["cancelled", "finished"] and await story.status(task_id) == "prepared"


async def test_the_files_of_a_copy_that_fails_after_it_stored_them_are_failed_and_new_copies_are_made(
    story: Story,
) -> None:
    task_id, [first, second] = await begun(story, "storeonce")
    await story.move([first, second], "running")
    await step(story, "holding", second)
    await store(story, second)
    await step(story, "transferring", second)
    await story.hear(JobsTransferring(job_ids=(second,)))
    await step(story, "failed", second)
    [chunk_id] = chunks_in(await story.hear(JobsFailed(job_ids=(second,))))
    # what is failed or cancelled leaves the catalogue when its task ends
    assert await outputs(story, task_id) == ["cancelled", "failed"] and await story.files(task_id) == ["picked"]
    third, fourth = generated_in(await story.broker(task_id, chunk_id, "Q_ALPHA", "Q_BETA"))
    await story.end([fourth], "finished")
    assert await ends(story, third, fourth) == [("closed", "jc_unlock"), ("finished", None)]
    assert await outputs(story, task_id) == ["cancelled", "cancelled", "failed", "finished"]


async def test_runonce_a_copy_that_has_stored_its_output_goes_before_one_whose_start_is_told_first(
    story: Story,
) -> None:
    _, [first, second] = await begun(story, "runonce")
    await story.move([first, second], "running")
    await step(story, "holding", second)
    await store(story, second)
    await story.hear(JobsStarted(job_ids=(first,)))
    assert await ends(story, first, second) == [("closed", "jc_unlock"), ("holding", None)]


async def test_the_start_of_jobs_without_copies_costs_one_look_up_and_locks_nothing(story: Story) -> None:
    task_id = await story.task(n_files=3)
    jobs = await story.jobs_of(task_id)
    async with story.database.begin(reason="another holds the task") as work:
        await work.connection.execute("SELECT FROM tasks WHERE task_id = $1 FOR UPDATE", task_id)
        assert list(await deliver(story.database, story.service, JobsStarted(job_ids=tuple(jobs)))) == []


@pytest.mark.parametrize(
    ("ends_of_copies", "counted"),
    [(("failed", "finished"), (1, 0)), (("finished", None), (1, 0)), (("failed", "failed"), (0, 1))],
)
async def test_copies_of_a_scout_count_as_one_scout(
    story: Story, ends_of_copies: tuple[str | None, ...], counted: tuple[int, int]
) -> None:
    task_id, jobs = await begun(story, "storeonce", skipScout=False)
    for job_id, status in zip(jobs, ends_of_copies, strict=True):
        if status is not None:
            await story.move([job_id], status)
    async with story.database.begin(reason="the test reads") as work:
        found = await progress(work, task_id)
    assert (found["ok_jobs"], found["failed_jobs"], found["ok_files"], found["live_jobs"]) == (*counted, counted[0], 0)


@pytest.mark.parametrize("mode", ["runonce", "storeonce"])
async def test_a_copy_that_fails_leaves_the_input_to_the_others_and_the_last_one_ends_the_attempt(
    story: Story, mode: str
) -> None:
    task_id, [first, second] = await begun(story, mode)
    await story.end([first], "failed", source="pilot")
    assert await story.files(task_id) == ["running"]
    await story.end([second], "failed", source="pilot")
    assert await story.files(task_id) == ["picked"]  # tried again
    assert await story.value("SELECT attempt_nr FROM task_files WHERE task_id = $1 AND type = 'input'", task_id) == 1


async def test_a_copy_that_started_and_failed_is_tried_again_with_new_copies(story: Story) -> None:
    task_id, [first, second] = await begun(story, "runonce")
    await start(story, first)
    await story.end([first], "failed", source="pilot")
    [chunk] = await story.fetch("SELECT chunk_id FROM chunks WHERE task_id = $1 AND status = 'offered'", task_id)
    again = generated_in(await story.broker(task_id, chunk["chunk_id"], "Q_ALPHA", "Q_BETA"))
    assert len(again) == 2
    await story.end([again[0]], "finished")
    assert await story.files(task_id) == ["finished"] and await ends(story, second) == [("closed", "jc_unlock")]
