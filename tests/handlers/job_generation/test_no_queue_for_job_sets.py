"""Facts of the event service: a job that must go on, but for which no queue is left, fails (no ES queue)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.job_generation.store import jobs as store_jobs
from shared.events import JobsFailed
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.job_generation.ranges import begun, ends, process, ranges
from tests.handlers.job_generation.story import Story, chunks_in, generated_in

OFFLINE = {"status": "offline"}


async def grid_is(story: Story, **changes: dict[str, Any] | None) -> None:
    """The small grid where these queues differ; None: it is not there."""
    grid = small_grid()
    for name, record in list(grid["queues"].items()):
        record["jobseed"] = "all"
        change = changes.get(name, {})
        if change is None:
            del grid["queues"][name]
        else:
            record.update(change)
    await load_grid(story.database, grid)


async def decision(story: Story, task_id: int) -> str:
    """Why, as the explanation of the task says it."""
    return str(await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id))


async def attempts_of_file(story: Story, task_id: int) -> tuple[int, int]:
    [row] = await story.fetch(
        "SELECT attempt_nr, max_attempt FROM task_files WHERE task_id = $1 AND type = 'input'", task_id
    )
    return row["attempt_nr"], row["max_attempt"]


@pytest.mark.parametrize(
    ("change", "why"),
    [(None, "Q_ALPHA/SCORE is not in the grid"),
     ({"jobseed": "std"}, "Q_ALPHA/SCORE takes no event service (jobseed std)")],
)  # fmt: skip
async def test_es_noqueue_a_job_that_must_go_on_fails_when_its_queue_is_gone_and_its_input_is_tried_elsewhere(
    story: Story, change: dict[str, Any] | None, why: str
) -> None:
    task_id, [job_id] = await begun(story, "Q_ALPHA")
    await process(story, job_id, 3)
    await grid_is(story, Q_ALPHA=change)
    said = await story.end([job_id], "merging")
    assert generated_in(said) == [] and await ends(story, job_id) == [("failed", "es_noqueue")]
    assert await ranges(story, task_id) == ["discarded"] * 3 + ["cancelled"] * 2
    reason = await story.value("SELECT error_dialog FROM jobs WHERE job_id = $1", job_id)
    assert reason == await decision(story, task_id) and reason.endswith(f"wants a consumer job: no ES queue: {why}")
    assert await attempts_of_file(story, task_id) == (1, 4)  # the attempt was not the payload's
    [chunk_id] = chunks_in(said)
    [again] = generated_in(await story.broker(task_id, chunk_id, "Q_BETA"))
    await process(story, again, 5)
    [merge_id] = generated_in(await story.end([again], "merging"))
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared" and await story.files(task_id) == ["finished"]


async def test_a_set_whose_only_job_had_failed_is_given_up_as_well_and_its_input_goes_on(story: Story) -> None:
    task_id, [job_id] = await begun(story, "Q_ALPHA")
    await process(story, job_id, 2)
    await grid_is(story, Q_ALPHA=None)
    said = await story.end([job_id], "failed", source="pilot")
    assert await ends(story, job_id) == [("failed", "pilot_failed")]  # as it had ended itself
    assert await ranges(story, task_id) == ["discarded"] * 2 + ["cancelled"] * 3
    assert len(chunks_in(said)) == 1 and await attempts_of_file(story, task_id) == (1, 4)


async def test_with_not_discard_events_what_was_processed_goes_over_to_the_next_set(story: Story) -> None:
    task_id, [job_id] = await begun(story, "Q_ALPHA", notDiscardEvents=True)
    await process(story, job_id, 2)
    await grid_is(story, Q_ALPHA=None)
    [chunk_id] = chunks_in(await story.end([job_id], "merging"))
    await story.broker(task_id, chunk_id, "Q_BETA")
    assert await ranges(story, task_id) == ["done"] * 2 + ["ready"] * 3


async def test_a_set_that_can_be_merged_nowhere_fails_its_jobs(story: Story) -> None:
    task_id, [job_id] = await begun(story, "Q_ALPHA")
    await process(story, job_id, 5)
    await grid_is(story, Q_ALPHA=None)
    await story.end([job_id], "merging")
    assert await ends(story, job_id) == [("failed", "es_noqueue")]
    assert "wants a merge job: no ES queue" in await decision(story, task_id)


async def test_other_jobs_of_the_set_go_on_although_no_further_one_can_be_made(story: Story) -> None:
    task_id, [first, second] = await begun(story, "Q_ALPHA", nEsConsumers=2)
    await process(story, first, 1)
    await grid_is(story, Q_ALPHA=None)
    assert generated_in(await story.end([first], "merging")) == []
    assert await ends(story, first) == [("merging", "es_retry")] and await story.files(task_id) == ["running"]
    await process(story, second, 2)
    await story.end([second], "merging")
    assert await ends(story, first, second) == [("failed", "es_noqueue")] * 2


async def taken_back(story: Story, job_id: int, code: int = 105) -> list[int]:
    """The watchdog closes a job (105: its time to wait for a pilot is over); the jobs that are made then."""
    await story.move([job_id], "closed", source="watchdog")
    async with story.database.begin(reason="the test plays the watchdog") as work:
        await work.connection.execute("UPDATE jobs SET error_code = $2 WHERE job_id = $1", job_id, code)
    return generated_in(await story.hear(JobsFailed(job_ids=(job_id,))))


async def queue_of(story: Story, job_id: int) -> str:
    return str(await story.value("SELECT queue FROM jobs WHERE job_id = $1", job_id))


async def test_a_short_outage_of_a_queue_fails_nothing_the_job_waits_there(story: Story) -> None:
    task_id, [job_id] = await begun(story, "Q_ALPHA")
    await process(story, job_id, 3)
    await grid_is(story, Q_ALPHA=OFFLINE)
    [again] = generated_in(await story.end([job_id], "merging"))
    assert await ends(story, job_id) == [("merging", "es_retry")]
    await grid_is(story)
    await story.end([again], "closed", source="watchdog")  # it was taken back, but the queue is there again
    [third] = await live(story, task_id)
    await process(story, third, 2)
    [merge_id] = generated_in(await story.end([third], "merging"))
    await story.end([merge_id], "finished")
    assert await story.files(task_id) == ["finished"]


async def test_a_queue_that_stays_offline_until_its_job_is_taken_back_is_gone(story: Story) -> None:
    task_id, [job_id] = await begun(story, "Q_ALPHA")
    await process(story, job_id, 3)
    await grid_is(story, Q_ALPHA=OFFLINE)
    [again] = generated_in(await story.end([job_id], "merging"))
    await taken_back(story, again)
    assert await ends(story, job_id, again) == [("failed", "es_noqueue"), ("closed", "es_unused")]
    assert "Q_ALPHA/SCORE is offline, and a job waited for it in vain" in await decision(story, task_id)


@pytest.mark.parametrize("code", [130, None])
async def test_a_job_that_was_rebrokered_or_reassigned_did_not_wait_in_vain_for_its_offline_queue(
    story: Story, code: int | None
) -> None:
    task_id, [job_id] = await begun(story, "Q_ALPHA")
    await process(story, job_id, 3)
    [again] = generated_in(await story.end([job_id], "merging"))
    await grid_is(story, Q_ALPHA=OFFLINE)
    if code is None:
        [third] = generated_in(await story.end([again], "closed"))
    else:
        [third] = await taken_back(story, again, code)
    assert await queue_of(story, third) == "Q_ALPHA" and await story.files(task_id) == ["running"]
    assert await ends(story, job_id, again) == [("merging", "es_retry"), ("closed", "es_unused")]


async def test_a_set_is_given_up_only_after_a_job_waited_at_each_of_its_offline_queues(story: Story) -> None:
    task_id, [job_id] = await begun(story, "Q_ALPHA", "Q_BETA")
    await process(story, job_id, 3)
    await grid_is(story, Q_ALPHA=OFFLINE, Q_BETA=OFFLINE)
    [second] = generated_in(await story.end([job_id], "merging"))
    [third] = await taken_back(story, second)
    assert {await queue_of(story, second), await queue_of(story, third)} == {"Q_ALPHA", "Q_BETA"}
    await archive(story, second)  # which it is by the time that the third is taken back
    assert await taken_back(story, third) == []
    assert await ends(story, job_id) == [("failed", "es_noqueue")]
    told = await decision(story, task_id)
    assert all(f"{name}/SCORE is offline, and a job waited for it in vain" in told for name in ("Q_ALPHA", "Q_BETA"))


async def archive(story: Story, job_id: int) -> None:
    """The archive takes a job that was counted."""
    async with story.database.begin(reason="the test plays the archive") as work:
        await store_jobs.archive(work, work.now + timedelta(days=1), 100)
    assert await story.value("SELECT count(*) FROM jobs_archive WHERE job_id = $1", job_id) == 1


async def test_another_attempt_goes_to_a_queue_of_the_set_that_is_not_offline(story: Story) -> None:
    _, [job_id] = await begun(story, "Q_ALPHA", "Q_BETA", "Q_GAMMA")
    at = await story.value("SELECT queue FROM jobs WHERE job_id = $1", job_id)
    others = [name for name in ("Q_ALPHA", "Q_BETA", "Q_GAMMA") if name != at]
    await grid_is(story, **{at: OFFLINE, others[0]: None})
    [again] = generated_in(await story.end([job_id], "merging"))
    assert await story.value("SELECT queue FROM jobs WHERE job_id = $1", again) == others[1]


async def live(story: Story, task_id: int) -> list[int]:
    rows = await story.fetch(
        "SELECT job_id FROM jobs WHERE task_id = $1 AND status = 'defined' ORDER BY job_id", task_id
    )
    return [row["job_id"] for row in rows]
