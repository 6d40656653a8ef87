"""JEDI: Final status of Event Service jobs: those that test_event_service_ends has not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.events import Event, JobsExpired, JobsMerging
from tests.handlers.job_generation.ranges import begun, ends, process, ranges
from tests.handlers.job_generation.story import Story, generated_in


async def test_es_wait_the_other_jobs_have_the_rest_of_the_ranges(story: Story) -> None:
    _, [first, second] = await begun(story, nEsConsumers=2)
    await process(story, first, 3)
    await process(story, second, 2, "running")
    await story.end([first], "merging")
    assert await ends(story, first) == [("merging", "es_wait")]


async def test_es_merge_the_job_that_processed_the_last_range(story: Story) -> None:
    _, [job_id] = await begun(story)
    await process(story, job_id, 5)
    await story.end([job_id], "merging")
    assert await ends(story, job_id) == [("merging", "es_merge")]


async def test_es_discard_jobs_that_waited_fail_with_the_set(story: Story) -> None:
    _, [first, second] = await begun(story, nEsConsumers=2)
    await process(story, first, 3)
    await process(story, second, 2, "running")
    await story.end([first], "merging")
    async with story.database.begin(reason="the pilot reports") as work:
        await work.connection.execute("UPDATE event_ranges SET status = 8 WHERE status = 2")
    await story.end([second], "merging")
    assert (await ends(story, first))[0] == ("failed", "es_discard")


async def test_all_failed_a_set_of_which_no_range_was_processed_fails(story: Story) -> None:
    _, [job_id] = await begun(story)
    async with story.database.begin(reason="the pilot reports") as work:
        await work.connection.execute("UPDATE event_ranges SET status = 8, job_id = $1", job_id)
    await story.end([job_id], "merging")
    assert (await ends(story, job_id))[0][0] == "failed"


async def test_es_toolong_the_ranges_that_it_processed_are_kept_and_another_job_goes_on(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 2)
    [after] = generated_in(await too_long(story, job_id))
    assert await ends(story, job_id) == [("closed", "es_toolong")] and await files_of(story, after) == ["running"]
    assert sorted(await ranges(story, task_id)) == ["done"] * 2 + ["ready"] * 3


async def test_es_toolong_a_merge_job_counts_as_an_attempt_to_merge(story: Story) -> None:
    _, [job_id] = await begun(story)
    await process(story, job_id, 5)
    [merge] = generated_in(await story.end([job_id], "merging"))
    for _ in range(2):
        await story.move([merge], "running")
        [merge] = generated_in(await too_long(story, merge))
    await story.move([merge], "running")
    assert generated_in(await too_long(story, merge)) == []
    assert await ends(story, job_id, merge) == [("failed", "es_merge_failed"), ("closed", "es_toolong")]


async def test_es_toolong_a_job_that_its_pilot_had_for_too_long_while_its_set_is_merged(story: Story) -> None:
    _, [first, second] = await begun(story, nEsConsumers=2)
    await process(story, first, 5)
    await story.move([first], "merging")
    async with story.database.begin(reason="24 h") as work:
        await work.connection.execute(
            "UPDATE jobs SET status = 'closed', end_time = orrery_now(), error_source = 'watchdog', error_code = 102,"
            " worker = 'pilot' WHERE job_id = $1",
            second,
        )
    await story.hear(JobsMerging(job_ids=(first,)))
    await story.hear(JobsExpired(job_ids=(second,), reason="24 h"))
    assert (await ends(story, second)) == [("closed", "es_toolong")]


async def too_long(story: Story, job_id: int) -> Sequence[Event]:
    """The watchdog ends a job that its pilot has had for a day."""
    async with story.database.begin(reason="24 h") as work:
        await work.connection.execute(
            "UPDATE jobs SET status = 'closed', end_time = orrery_now(), error_source = 'watchdog', error_code = 102,"
            " worker = 'pilot' WHERE job_id = $1",
            job_id,
        )
    return await story.hear(JobsExpired(job_ids=(job_id,), reason="24 h"))


async def files_of(story: Story, job_id: int) -> list[str]:
    """States of the input that a job owns."""
    rows = await story.fetch("SELECT status FROM task_files WHERE job_id = $1", job_id)
    return [row["status"] for row in rows]


async def test_es_badstatus_a_job_that_ends_well_while_its_set_is_merged(story: Story) -> None:
    _, [first, second] = await begun(story, nEsConsumers=2)
    await process(story, first, 5)
    await story.move([first, second], "merging")
    await story.hear(JobsMerging(job_ids=(first,)))
    await story.hear(JobsMerging(job_ids=(second,)))
    assert await ends(story, first, second) == [("merging", "es_merge"), ("closed", "es_badstatus")]


@pytest.mark.parametrize(("n_processed", "sub_status"), [(5, "fg_done"), (3, "fg_partial"), (0, "fg_stumble")])
async def test_fine_grained_jobs_say_how_much_of_their_events_they_processed(
    story: Story, n_processed: int, sub_status: str
) -> None:
    task_id, [job_id] = await begun(story, fineGrainedProc=True)
    await process(story, job_id, n_processed)
    [after] = generated_in(await story.end([job_id], "merging"))
    assert await ends(story, job_id) == [("merging", sub_status)]
    if n_processed < 5:  # another job processes the rest
        await story.move([after], "running")
        await process(story, after, 5 - n_processed)
        [after] = generated_in(await story.end([after], "merging"))
    await story.end([after], "finished")
    assert await ranges(story, task_id) == ["merged"] * 5 and (await ends(story, job_id))[0] == ("finished", sub_status)
