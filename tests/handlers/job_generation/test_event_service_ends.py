"""JEDI: Final status of Event Service jobs; each state and sub-status, and what becomes of ranges and input."""

from __future__ import annotations

import pytest

from services.task_definition.tasks.policy.range_reports import fatal_line
from services.task_definition.tasks.store.explanations import SQL as EXPLANATIONS
from shared.events import JobsExpired, JobsFailed, JobsMerging
from tests.handlers.job_generation.ranges import attempts, begun, ends, process, ranges
from tests.handlers.job_generation.story import Story, chunks_in, generated_in


async def merged_by(story: Story, **rule: int | bool) -> tuple[int, int, int]:
    """A task whose only job processed everything; task, that job and its merge job."""
    task_id, [job_id] = await begun(story, **rule)
    await process(story, job_id, 5)
    [merge_id] = generated_in(await story.end([job_id], "merging"))
    return task_id, job_id, merge_id


async def test_es_retry_events_are_left_and_another_job_takes_them(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 3)
    [again] = generated_in(await story.end([job_id], "merging"))
    assert await ends(story, job_id) == [("merging", "es_retry")]
    assert await ranges(story, task_id) == ["done"] * 3 + ["ready"] * 2
    await process(story, again, 2)
    [merge_id] = generated_in(await story.end([again], "merging"))
    await story.end([merge_id], "finished")
    assert await ends(story, job_id, again) == [("finished", "es_retry"), ("finished", "es_merge")]
    assert await story.files(task_id) == ["finished"]


async def test_a_job_does_not_end_before_a_report_that_was_taken_while_its_end_waited_for_it(story: Story) -> None:
    _, job_id, merge_id = await merged_by(story)
    reported_at = await story.value(
        "UPDATE jobs SET state_change_time = orrery_now() + interval '1 s', end_time = orrery_now() + interval '1 s'"
        " WHERE job_id = $1 RETURNING end_time", job_id,
    )  # fmt: skip
    await story.end([merge_id], "finished")
    assert await story.value("SELECT end_time FROM jobs WHERE job_id = $1", job_id) >= reported_at


async def test_the_wait_for_a_merge_is_no_part_of_the_time_of_a_job(story: Story) -> None:
    _, job_id, merge_id = await merged_by(story)
    reported_at = await story.value(
        "UPDATE jobs SET start_time = orrery_now() - interval '10 hours', end_time = orrery_now() - interval '9 hours'"
        " WHERE job_id = $1 RETURNING end_time", job_id,
    )  # fmt: skip
    await story.end([merge_id], "finished")
    assert await story.value("SELECT end_time FROM jobs WHERE job_id = $1", job_id) == reported_at


async def test_es_inaction_nothing_was_processed_and_another_job_tries(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    assert len(generated_in(await story.end([job_id], "merging"))) == 1
    assert await ends(story, job_id) == [("merging", "es_inaction")]
    assert await attempts(story, task_id) == [10] * 5  # they were given to nobody


async def test_es_noevent_the_other_jobs_have_all_ranges(story: Story) -> None:
    task_id, [first, second] = await begun(story, nEsConsumers=2)
    await process(story, first, 5, "running")
    said = await story.end([second], "merging")
    assert await ends(story, second) == [("closed", "es_noevent")] and generated_in(said) == []
    assert await story.files(task_id) == ["running"]


async def test_es_killed_and_es_unused_jobs_that_still_look_for_ranges_are_taken_back(story: Story) -> None:
    _, [first, running, unused] = await begun(story, runs=False, nEsConsumers=3)
    await story.move([running], "running")
    await process(story, first, 5)
    await story.end([first], "merging")
    assert await ends(story, running, unused) == [("closed", "es_killed"), ("closed", "es_unused")]


async def test_es_aborted_a_range_without_attempts_fails_the_jobs_of_its_set(story: Story) -> None:
    task_id, [first, second] = await begun(story, nEsConsumers=2, maxAttemptES=1)
    await story.move([second], "running")
    await process(story, first, 2, "running")
    said = await story.end([first], "merging")
    assert await ends(story, first, second) == [("failed", None), ("closed", "es_aborted")]
    assert set(await ranges(story, task_id)) == {"cancelled"}
    assert len(chunks_in(said)) == 1 and await story.files(task_id) == ["picked"]  # it is tried again


async def test_pilot_failed_what_was_processed_stays_done(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 2)
    await process(story, job_id, 1, "running")
    [again] = generated_in(await story.end([job_id], "failed", source="pilot"))
    assert await ends(story, job_id) == [("failed", "pilot_failed")]
    assert await ranges(story, task_id) == ["done"] * 2 + ["ready"] * 3
    assert await attempts(story, task_id) == [9, 10, 10]
    assert await story.value("SELECT attempt_number FROM jobs WHERE job_id = $1", again) == 1


async def test_es_heartbeat_a_job_was_lost_without_a_processed_range(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 2, "running")
    await story.move([job_id], "failed", source="watchdog")
    async with story.database.read() as connection:
        await connection.execute("UPDATE jobs SET error_code = 300 WHERE job_id = $1", job_id)
    said = await story.hear(JobsFailed(job_ids=(job_id,)))
    assert await ends(story, job_id) == [("failed", "es_heartbeat")] and len(generated_in(said)) == 1
    assert await ranges(story, task_id) == ["ready"] * 5


async def test_es_retry_a_job_was_lost_after_it_processed_some_ranges(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 2)
    async with story.database.begin(reason="the test plays the watchdog") as work:
        await work.connection.execute(
            "UPDATE jobs SET status = 'merging', error_source = 'watchdog', error_code = 300 WHERE job_id = $1", job_id
        )
    [again] = generated_in(await story.hear(JobsExpired(job_ids=(job_id,), reason="lost heartbeat")))
    assert await ends(story, job_id) == [("merging", "es_retry")]
    await process(story, again, 3)
    [merge_id] = generated_in(await story.end([again], "merging"))
    await story.end([merge_id], "finished")
    assert await ends(story, job_id) == [("finished", "es_retry")] and await story.status(task_id) == "prepared"


async def test_the_job_of_the_last_attempt_fails_the_set_and_the_input_is_tried_again(story: Story) -> None:
    task_id, [job_id] = await begun(story, maxAttemptEsJob=2)
    await process(story, job_id, 1)
    [again] = generated_in(await story.end([job_id], "merging"))
    said = await story.end([again], "merging")
    assert await ends(story, job_id, again) == [("failed", "es_discard"), ("failed", None)]
    assert await ranges(story, task_id) == ["discarded"] + ["cancelled"] * 4
    [chunk_id] = chunks_in(said)
    [third] = generated_in(await story.broker(task_id, chunk_id))
    assert await ranges(story, task_id) == ["ready"] * 5
    assert await story.value("SELECT count(*) FROM event_ranges_past WHERE task_id = $1", task_id) == 5
    await process(story, third, 5)
    [merge_id] = generated_in(await story.end([third], "merging"))
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"


async def test_with_not_discard_events_what_was_processed_is_not_processed_again(story: Story) -> None:
    task_id, [job_id] = await begun(story, maxAttemptEsJob=1, notDiscardEvents=True)
    await process(story, job_id, 2)
    [chunk_id] = chunks_in(await story.end([job_id], "merging"))
    [again] = generated_in(await story.broker(task_id, chunk_id))
    assert await ranges(story, task_id) == ["done"] * 2 + ["ready"] * 3
    await process(story, again, 3)
    [merge_id] = generated_in(await story.end([again], "merging"))
    await story.end([merge_id], "finished")
    assert await ranges(story, task_id) == ["merged"] * 5


async def test_with_not_discard_events_no_event_is_left_out_when_the_width_of_ranges_changes(story: Story) -> None:
    task_id, [job_id] = await begun(story, maxAttemptEsJob=1, notDiscardEvents=True)
    await process(story, job_id, 2)
    [chunk_id] = chunks_in(await story.end([job_id], "merging"))
    rule = {"nEventsPerWorker": 25, "maxAttemptEsJob": 1, "notDiscardEvents": True}
    await story.fetch("UPDATE tasks SET split_rule = $2 WHERE task_id = $1", task_id, rule)
    [again] = generated_in(await story.broker(task_id, chunk_id))
    await process(story, again, 100)
    [merge_id] = generated_in(await story.end([again], "merging"))
    await story.end([merge_id], "finished")
    merged = await story.fetch(
        "SELECT def_min_event_id AS first, def_max_event_id AS last FROM event_ranges WHERE task_id = $1 AND status = 9"
        " ORDER BY first", task_id,
    )  # fmt: skip
    assert [(one["first"], one["last"]) for one in merged] == [(1, 10), (11, 20), (21, 45), (46, 50)]
    assert await story.files(task_id) == ["finished"]


async def test_es_merge_failed_after_three_merge_jobs(story: Story) -> None:
    task_id, job_id, merge_id = await merged_by(story)
    for _ in range(2):
        [merge_id] = generated_in(await story.end([merge_id], "failed", source="pilot"))
        assert await ends(story, job_id) == [("merging", "es_merge")]
    said = await story.end([merge_id], "failed", source="pilot")
    assert await ends(story, job_id) == [("failed", "es_merge_failed")]
    assert await ranges(story, task_id) == ["discarded"] * 5 and len(chunks_in(said)) == 1


@pytest.mark.parametrize("code", [1103, 1145, 1171, 1175])
async def test_events_of_a_bad_file_are_processed_again(story: Story, code: int) -> None:
    task_id, _, merge_id = await merged_by(story)
    await story.move([merge_id], "failed", source="pilot")
    async with story.database.read() as connection:
        await connection.execute("UPDATE jobs SET error_code = $2 WHERE job_id = $1", merge_id, code)
    [again] = generated_in(await story.hear(JobsFailed(job_ids=(merge_id,))))
    assert await ranges(story, task_id) == ["corrupted", "ready"] * 5
    assert await attempts(story, task_id) == [9] * 5
    await process(story, again, 5)
    [merge_id] = generated_in(await story.end([again], "merging"))
    await story.end([merge_id], "finished")
    assert await ranges(story, task_id) == ["corrupted", "merged"] * 5


async def test_a_merge_job_that_was_taken_back_is_made_again_and_does_not_count(story: Story) -> None:
    task_id, _, merge_id = await merged_by(story)
    for _ in range(4):
        [merge_id] = generated_in(await story.end([merge_id], "closed", source="watchdog"))
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"


async def test_a_job_killed_by_a_person_loses_what_it_processed(story: Story) -> None:
    task_id, [first, second] = await begun(story, nEsConsumers=2)
    await process(story, first, 2)
    await process(story, second, 1, "running")
    await story.end([first], "cancelled", source="user")
    assert await ends(story, first) == [("cancelled", None)]
    assert (await ranges(story, task_id)).count("discarded") == 2 and len(await attempts(story, task_id)) == 4


async def test_a_job_killed_while_its_events_are_merged_stops_the_merge(story: Story) -> None:
    task_id, job_id, merge_id = await merged_by(story)
    async with story.database.begin(reason="killed") as work:
        await work.connection.execute(
            "UPDATE jobs SET status = 'cancelled', error_source = 'user' WHERE job_id = $1", job_id
        )
    said = await story.hear(JobsFailed(job_ids=(job_id,)))
    assert await ends(story, job_id, merge_id) == [("cancelled", None), ("closed", "es_killed")]
    assert len(generated_in(said)) == 1 and (await ranges(story, task_id)).count("discarded") == 5


@pytest.mark.parametrize("n_processed", [2, 5])
async def test_a_job_that_processed_events_of_a_task_that_was_killed_meanwhile_is_failed(
    story: Story, n_processed: int
) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, n_processed)
    async with story.database.begin(reason="killed") as work:
        await work.connection.execute("UPDATE tasks SET status = 'aborting' WHERE task_id = $1", task_id)
    assert generated_in(await story.end([job_id], "merging")) == []
    assert await ends(story, job_id) == [("failed", None)]
    assert await story.value("SELECT status FROM job_sets WHERE task_id = $1", task_id) == "failed"


@pytest.mark.parametrize("end", ["cancelled", "finished"])
async def test_the_end_of_a_merge_job_decides_nothing_once_the_events_that_it_merged_were_taken_back(
    story: Story, end: str
) -> None:
    task_id, job_id, merge_id = await merged_by(story)
    await story.move([merge_id], end)
    async with story.database.begin(reason="killed") as work:
        await work.connection.execute(
            "UPDATE jobs SET status = 'cancelled', error_source = 'user' WHERE job_id = $1", job_id
        )
    [again] = generated_in(await story.hear(JobsFailed(job_ids=(job_id, merge_id))))
    assert await ends(story, merge_id) == [(end, "es_killed")]
    assert await story.value("SELECT role FROM job_set_jobs WHERE job_id = $1", again) == "consumer"
    assert (await ranges(story, task_id)).count("ready") == 5 and await story.files(task_id) == ["running"]
    await process(story, again, 5)
    [merge_id] = generated_in(await story.end([again], "merging"))
    await story.end([merge_id], "finished")
    assert (await ranges(story, task_id)).count("merged") == 5 and await story.files(task_id) == ["finished"]
    assert await story.status(task_id) == "prepared"


async def test_the_last_job_taken_back_before_it_ran_gives_the_input_back(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    said = await story.end([job_id], "closed", source="watchdog")
    assert await ends(story, job_id) == [("closed", "es_unused")]
    assert len(chunks_in(said)) == 1 and generated_in(said) == []
    row = await story.fetch(
        "SELECT attempt_nr, max_attempt FROM task_files WHERE task_id = $1 AND type = 'input'", task_id
    )
    assert [tuple(one.values()) for one in row] == [(1, 4)]  # forgiven


@pytest.mark.parametrize(("rule", "left"), [(False, [9, 9]), (True, [10, 10])])
async def test_with_dec_att_on_failed_es_a_job_that_ended_well_costs_its_ranges_no_attempt(
    story: Story, rule: bool, left: list[int]
) -> None:
    task_id, [job_id] = await begun(story, decAttOnFailedES=rule)
    await process(story, job_id, 3)
    await process(story, job_id, 2, "running")
    await story.end([job_id], "merging")
    assert await attempts(story, task_id) == left


@pytest.mark.parametrize(("rule", "n_jobs"), [(False, 1), (True, 3)])
async def test_with_resurrect_consumers_a_retry_makes_as_many_jobs_as_at_first(
    story: Story, rule: bool, n_jobs: int
) -> None:
    _, jobs = await begun(story, nEsConsumers=3, resurrectConsumers=rule)
    await story.end(jobs[1:], "closed", source="watchdog")
    await process(story, jobs[0], 1)
    assert len(generated_in(await story.end(jobs[:1], "merging"))) == n_jobs


async def test_a_fatal_range_fails_its_set_and_the_explanation_says_so(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 4)
    await process(story, job_id, 1, "fatal")
    await story.end([job_id], "merging")
    assert await ends(story, job_id) == [("failed", None)]
    dialog = await story.value("SELECT error_dialog FROM jobs WHERE job_id = $1", job_id)
    assert dialog == "0 ranges have no attempt left, 1 failed for good"
    async with story.database.read() as connection:
        [row] = await EXPLANATIONS.rows(connection, "fatal_ranges_of_task", task_id=task_id)
    assert fatal_line(dict(row)) == (
        "1 range of events failed for good, in 1 job set; 1 of these failed (0 ranges have no attempt left, "
        "1 failed for good): its input is tried again while it has attempts"
    )


async def test_a_task_that_is_to_finish_merges_what_was_processed(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 3)
    async with story.database.begin(reason="finish") as work:
        await work.connection.execute(
            "UPDATE tasks SET status = 'finishing', old_status = 'running' WHERE task_id = $1", task_id
        )
    [merge_id] = generated_in(await story.end([job_id], "merging"))
    assert await ranges(story, task_id) == ["done"] * 3 + ["fatal"] * 2
    await story.end([merge_id], "finished")
    assert await ranges(story, task_id) == ["merged"] * 3 + ["fatal"] * 2
    assert await story.files(task_id) == ["finished"]


async def test_the_end_of_a_job_said_twice_changes_nothing(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 3)
    await story.end([job_id], "merging")
    before = await ranges(story, task_id)
    assert generated_in(await story.hear(JobsMerging(job_ids=(job_id,)))) == []
    assert await ranges(story, task_id) == before


async def test_files_of_events_can_be_deleted_when_they_are_merged_and_not_before(story: Story) -> None:
    task_id, job_id, merge_id = await merged_by(story)
    await written_to_store(story, job_id, n_ranges=3)
    assert await deletable(story, task_id) == [None] * 5
    await story.end([merge_id], "finished")
    assert await deletable(story, task_id) == ["Y"] * 3 + [None] * 2  # two ranges named no store


async def test_files_of_events_that_are_discarded_can_be_deleted(story: Story) -> None:
    task_id, job_id, merge_id = await merged_by(story)
    await written_to_store(story, job_id, n_ranges=5)
    for _ in range(2):
        [merge_id] = generated_in(await story.end([merge_id], "failed", source="pilot"))
        assert await deletable(story, task_id) == [None] * 5
    await story.end([merge_id], "failed", source="pilot")
    assert await ranges(story, task_id) == ["discarded"] * 5 and await deletable(story, task_id) == ["Y"] * 5


async def written_to_store(story: Story, job_id: int, *, n_ranges: int) -> None:
    """The pilot said in which object store the first ranges of a job are."""
    async with story.database.begin(reason="the test plays a pilot") as work:
        await work.connection.execute(
            "UPDATE event_ranges SET obj_store_id = 7 WHERE event_range_id IN (SELECT event_range_id FROM event_ranges"
            " WHERE job_id = $1 ORDER BY event_range_id LIMIT $2)",
            job_id,
            n_ranges,
        )


async def deletable(story: Story, task_id: int) -> list[str | None]:
    """Column file_not_deleted of a task's ranges, in order."""
    found = await story.fetch(
        "SELECT file_not_deleted FROM event_ranges WHERE task_id = $1 ORDER BY event_range_id", task_id
    )
    return [row["file_not_deleted"] for row in found]


async def test_of_a_task_that_is_to_finish_no_job_follows_one_that_was_taken_back_where_events_can_be_merged(
    story: Story,
) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 3)
    [again] = generated_in(await story.end([job_id], "merging"))
    async with story.database.begin(reason="finish") as work:
        await work.connection.execute("UPDATE tasks SET status = 'finishing' WHERE task_id = $1", task_id)
    [merge_id] = generated_in(await story.end([again], "closed", source="user"))
    assert await ends(story, again) == [("closed", "es_unused")]
    assert await story.value("SELECT role FROM job_set_jobs WHERE job_id = $1", merge_id) == "merge"
    assert await ranges(story, task_id) == ["done"] * 3 + ["fatal"] * 2
    await story.end([merge_id], "finished")
    assert await story.files(task_id) == ["finished"]


async def test_with_allow_partial_finish_what_was_processed_is_merged_without_what_failed_for_good(
    story: Story,
) -> None:
    task_id, [job_id] = await begun(story, allowPartialFinish=True)
    await process(story, job_id, 4)
    await process(story, job_id, 1, "fatal")
    [merge_id] = generated_in(await story.end([job_id], "merging"))
    await story.end([merge_id], "finished")
    assert await ranges(story, task_id) == ["merged"] * 4 + ["fatal"]
    assert await story.files(task_id) == ["finished"]
