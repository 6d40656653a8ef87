"""The end of jobs, counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from services.job_generation.store import results as store_results
from shared.db.unit_of_work import UnitOfWork
from shared.events import JobsExpired, JobsFailed, JobsFinished, JobsMerging, TaskPrepared, TaskProgressed, TaskReleased
from tests import rows
from tests.handlers.events import deliver
from tests.handlers.job_generation.story import Story, chunks_in, generated_in


async def test_finished_jobs_finish_their_files_and_the_task_is_prepared(story: Story) -> None:
    task_id = await story.task(n_files=3)
    jobs = await story.jobs_of(task_id)
    said = await story.end(jobs, "finished")
    assert await story.files(task_id) == ["finished"] * 3
    assert await story.files(task_id, "output") == ["finished"] * 3
    assert await story.status(task_id) == "prepared"
    assert [event.task_id for event in said if isinstance(event, TaskPrepared)] == [task_id]
    [progress] = [event for event in said if isinstance(event, TaskProgressed)]
    assert (progress.files_finished, progress.files_failed, progress.files_total, progress.live_jobs) == (3, 0, 3, 0)


async def test_files_of_jobs_that_ended_well_are_not_read_one_by_one(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement finishes them; those of a job that failed are judged."""
    task_id = await story.task(n_files=3)
    first, *others = await story.jobs_of(task_id)
    read: list[int] = []
    files_of_jobs = store_results.files_of_jobs

    async def noted(work: UnitOfWork, job_ids: Sequence[int]) -> list[store_results.JobFile]:
        read.extend(job_ids)
        return await files_of_jobs(work, job_ids)

    monkeypatch.setattr(store_results, "files_of_jobs", noted)
    await story.move([first], "failed", source="payload")
    await story.move(others, "finished")
    await story.hear(JobsFinished(job_ids=(first, *others)))
    assert read == [first]
    assert sorted(await story.files(task_id)) == ["finished", "finished", "picked"]
    await story.check()


async def test_sizes_names_and_checksums_of_outputs_come_from_the_pilots_report(story: Story) -> None:
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    lfn = f"HITS.{task_id}._000001.root"
    outputs = {lfn: {"guid": "abc", "fsize": 77, "adler32": "0123abcd"}}
    await story.end(jobs, "finished", report={"job_status": "finished", "outputs": outputs})
    [file] = await story.fetch("SELECT fsize, guid, checksum, n_events FROM task_files WHERE lfn = $1", lfn)
    assert file == {"fsize": 77, "guid": "abc", "checksum": "ad:0123abcd", "n_events": 100}


async def test_the_same_end_told_twice_counts_once(story: Story) -> None:
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:1], "finished")
    before = await story.fetch("SELECT * FROM task_datasets WHERE task_id = $1 ORDER BY dataset_id", task_id)
    assert await story.hear(JobsFinished(job_ids=(jobs[0],))) == ()
    assert await story.fetch("SELECT * FROM task_datasets WHERE task_id = $1 ORDER BY dataset_id", task_id) == before


async def test_core_seconds_of_a_task_are_counted_by_queue_and_end(story: Story) -> None:
    task_id = await story.task(n_files=4)
    jobs = await story.jobs_of(task_id)
    for job_id, cores, queue, to in zip(
        jobs, (1, 8, 2, 1), ("Q_ALPHA", "Q_ALPHA", "Q_BETA", "Q_BETA"), ("finished", "failed", "finished", "closed"),
        strict=True,
    ):  # fmt: skip
        await story.move([job_id], to, source="payload")
        await story.fetch(
            "UPDATE jobs SET core_count = $2, queue = $3, end_time = start_time + interval '100 s' WHERE job_id = $1"
            " RETURNING job_id",
            job_id, cores, queue,
        )  # fmt: skip
    for _ in range(2):
        await story.hear(JobsFinished(job_ids=tuple(jobs)))
    found = await story.fetch(
        "SELECT queue, finished_core_s, failed_core_s FROM task_usage WHERE task_id = $1 ORDER BY queue", task_id
    )
    assert [tuple(row.values()) for row in found] == [("Q_ALPHA", 100, 800), ("Q_BETA", 200, 0)]


async def test_the_wait_for_a_merge_does_not_count_as_used(story: Story) -> None:
    """Two jobs of an hour that waited nine hours for their merge, which takes an hour as well."""
    task_id = await story.task(n_files=2, merge=True)
    jobs = await story.jobs_of(task_id)
    await story.move(jobs, "merging")
    await story.fetch(
        "UPDATE jobs SET start_time = orrery_now() - interval '10 hours', end_time = orrery_now() - interval '9 hours'"
        " WHERE job_id = ANY($1::bigint[]) RETURNING job_id",
        jobs,
    )
    [chunk_id] = chunks_in(await story.hear(JobsMerging(job_ids=tuple(jobs))))
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    said = await story.end([merge_id], "finished")
    await story.hear(next(event for event in said if isinstance(event, JobsFinished)))
    used = await story.value("SELECT sum(finished_core_s) FROM task_usage WHERE task_id = $1", task_id)
    assert used == pytest.approx(3 * 3600, abs=60)


async def test_two_replicas_that_count_the_same_jobs_at_once_count_them_once(story: Story) -> None:
    task_id = await story.task(n_files=8)
    jobs = await story.jobs_of(task_id)
    await story.move(jobs, "finished")
    events = [JobsFinished(job_ids=tuple(jobs[start::2])) for start in (0, 1)] + [JobsFinished(job_ids=tuple(jobs))]
    await asyncio.gather(*(deliver(story.database, story.service, event) for event in events))
    await story.check()
    assert await story.files(task_id) == ["finished"] * 8
    assert await story.status(task_id) == "prepared"


async def test_what_counts_is_the_state_of_the_job_and_not_the_name_of_the_event(story: Story) -> None:
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    assert await story.hear(JobsFinished(job_ids=tuple(jobs))) == ()  # it has not ended
    await story.move(jobs, "failed", source="payload")
    await story.hear(JobsFinished(job_ids=tuple(jobs)))
    assert await story.value("SELECT failed_attempt FROM task_files WHERE type = 'input'") == 1


async def test_a_failed_payload_counts_as_attempt_and_failure_and_the_file_is_tried_again(story: Story) -> None:
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    said = await story.end(jobs, "failed", source="payload")
    [file] = await story.fetch("SELECT attempt_nr, failed_attempt, max_attempt FROM task_files WHERE type = 'input'")
    assert file == {"attempt_nr": 1, "failed_attempt": 1, "max_attempt": 3}
    assert await story.files(task_id, "output") == ["failed"]
    assert len(chunks_in(said)) == 1


async def test_a_file_that_failed_three_times_is_given_up_and_the_task_is_prepared(story: Story) -> None:
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    for attempt in range(3):
        said = await story.end(jobs, "failed", source="payload")
        for chunk_id in chunks_in(said):
            jobs = generated_in(await story.broker(task_id, chunk_id))
        assert len(chunks_in(said)) == (1 if attempt < 2 else 0)
    assert await story.files(task_id) == ["failed"]
    assert await story.status(task_id) == "prepared"


async def test_a_failure_of_the_pilot_is_an_attempt_but_no_failed_attempt(story: Story) -> None:
    task_id = await story.task(n_files=1)
    await story.end(await story.jobs_of(task_id), "failed", source="pilot")
    [file] = await story.fetch("SELECT attempt_nr, failed_attempt, max_attempt FROM task_files WHERE type = 'input'")
    assert file == {"attempt_nr": 1, "failed_attempt": 0, "max_attempt": 3}


async def test_a_job_that_we_took_back_costs_nothing_and_one_whose_pilot_was_lost_an_attempt(story: Story) -> None:
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    await story.move(jobs[:1], "closed", source="watchdog")
    await story.move(jobs[1:], "failed", source="watchdog")
    said = await story.hear(JobsExpired(job_ids=tuple(jobs), reason="heartbeat lost"))
    found = await story.fetch(
        "SELECT attempt_nr, failed_attempt, max_attempt FROM task_files WHERE type = 'input' ORDER BY file_id"
    )
    assert found == [{"attempt_nr": 1, "failed_attempt": 0, "max_attempt": most} for most in (4, 3)]
    assert await story.files(task_id, "output") == ["cancelled", "failed"]
    assert len(chunks_in(said)) == 1


async def test_a_job_out_of_memory_asks_for_more_the_next_time(story: Story) -> None:
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    report = {"job_status": "failed", "pilot_error_code": 1212, "max_pss": 2_500 * 1024, "core_count": 1}
    [chunk_id] = chunks_in(await story.end(jobs, "failed", source="payload", report=report))
    [job_id] = generated_in(await story.broker(task_id, chunk_id, resource_type="SCORE_HIMEM"))
    ram = await story.value(
        "SELECT ram_mb FROM requirement_shapes JOIN jobs USING (shape_id) WHERE job_id = $1", job_id
    )
    assert ram == 2700  # 3000 x 0.9


OUT_OF_MEMORY = {"job_status": "failed", "pilot_error_code": 1212, "max_pss": 7_000 * 1024, "core_count": 1}


async def chunks_of(story: Story, task_id: int) -> list[tuple[int, int | None, int, str]]:
    found = await story.fetch(
        "SELECT chunk_id, ram_mb, n_files, status FROM chunks WHERE task_id = $1 ORDER BY chunk_id", task_id
    )
    return [(row["chunk_id"], row["ram_mb"], row["n_files"], row["status"]) for row in found]


async def test_units_whose_memory_was_raised_form_a_chunk_of_their_own(story: Story) -> None:
    task_id = await story.task(n_files=8)
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:2], "failed", source="payload", report=OUT_OF_MEMORY)
    await story.end(jobs[2:4], "failed", source="payload")
    offered = [row[1:] for row in await chunks_of(story, task_id) if row[3] == "offered"]
    assert offered == [(8000, 2, "offered"), (None, 2, "offered")]


async def test_memory_that_no_queue_has_lets_the_other_units_go_on_and_is_tried_again_at_its_time(
    story: Story,
) -> None:
    task_id = await story.task(n_files=4)
    jobs = await story.jobs_of(task_id)
    [raised] = chunks_in(await story.end(jobs[:1], "failed", source="payload", report=OUT_OF_MEMORY))
    await story.unplaceable(task_id, raised)
    assert await story.status(task_id) == "running"
    [ordinary] = chunks_in(await story.end(jobs[1:2], "failed", source="payload"))
    assert [row[1:] for row in await chunks_of(story, task_id)][-1] == (None, 1, "offered"), "the others go on"
    await story.end([*jobs[2:], *generated_in(await story.broker(task_id, ordinary))], "finished")
    assert await story.files(task_id) == ["ready", "finished", "finished", "finished"]
    [task] = await story.fetch("SELECT status, error_dialog, retry_at FROM tasks WHERE task_id = $1", task_id)
    assert (task["status"], task["error_dialog"]) == ("pending", "no queue is online"), "one unit waits for memory"
    assert task["retry_at"] is not None
    await story.released(task_id)
    [(_, ram_mb, n_files, _)] = [row for row in await chunks_of(story, task_id) if row[3] == "offered"]
    assert (ram_mb, n_files) == (8000, 1)


async def test_splitting_leaves_out_a_queue_whose_slots_have_less_memory_than_was_raised(story: Story) -> None:
    task_id = await story.task(n_files=4)
    jobs = await story.jobs_of(task_id)
    [raised] = chunks_in(await story.end(jobs[:1], "failed", source="payload", report=OUT_OF_MEMORY))
    await story.broker(task_id, raised)
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert "needs 7200 MB of memory" in reason
    [(*_, status)] = [row for row in await chunks_of(story, task_id) if row[0] == raised]
    assert status == "returned", "no job was made of it"


async def test_a_chunk_that_was_offered_before_its_task_got_more_memory_is_offered_again_at_once(story: Story) -> None:
    task_id = await story.task(n_files=12)
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs[:1], "failed", source="payload"))
    said = await story.end(jobs[1:5], "failed", source="payload", report=OUT_OF_MEMORY | {"max_pss": 1_500 * 1024})
    assert chunks_in(said) == []  # the chunk is under way
    await story.fetch("UPDATE tasks SET ram_count = 8000 WHERE task_id = $1 RETURNING task_id", task_id)
    [again] = chunks_in(await story.broker(task_id, chunk_id))
    assert await story.status(task_id) == "running"
    assert chunks_in(await story.broker(task_id, again)) == [], "it was offered for what the task asks for now"
    [*_, last] = await chunks_of(story, task_id)
    assert last[0] == again and last[2:] == (5, "returned")


async def test_a_task_whose_last_job_ends_while_its_other_input_waits_says_why(story: Story) -> None:
    task_id = await story.task(n_files=3)
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs[:1], "failed", source="payload"))
    await story.unplaceable(task_id, chunk_id)
    assert await story.status(task_id) == "running"
    await story.end(jobs[1:], "finished")
    [task] = await story.fetch("SELECT status, error_dialog, retry_at FROM tasks WHERE task_id = $1", task_id)
    assert (task["status"], task["error_dialog"]) == ("pending", "no queue is online")
    assert task["retry_at"] is not None
    assert len(chunks_in(await story.released(task_id))) == 1


async def test_ended_and_counted_jobs_leave_the_hot_table(story: Story) -> None:
    task_id = await story.task(n_files=2)
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:1], "finished")
    await story.move(jobs[1:], "finished")  # not counted yet
    archive = next(one for one in story.service.periodic if one.name == "archive-jobs")
    async with story.database.begin(reason="test") as work:
        await work.connection.execute("UPDATE jobs SET results_applied_at = results_applied_at - interval '1 hour'")
    async with story.database.begin(reason="archive") as work:
        await archive.run(work)
    assert await story.fetch("SELECT job_id FROM jobs") == [{"job_id": jobs[1]}]
    assert await story.fetch("SELECT job_id, status FROM jobs_archive") == [{"job_id": jobs[0], "status": "finished"}]
    await story.check()
    await story.hear(JobsFinished(job_ids=tuple(jobs)))
    assert await story.status(task_id) == "prepared"


async def test_finished_and_failed_jobs_of_a_task_are_counted_once_and_others_are_neither(story: Story) -> None:
    task_id = await story.task(n_files=4)
    jobs = await story.jobs_of(task_id)
    counted = "SELECT n_finished, n_failed FROM task_job_counts WHERE task_id = $1"
    await story.end(jobs[:1], "failed", source="payload")
    await story.hear(JobsFailed(job_ids=(jobs[0],)))  # it is said again
    await story.end(jobs[1:2], "closed", source="dispatch")
    assert await story.fetch(counted, task_id) == [{"n_finished": 0, "n_failed": 1}]
    await story.end(jobs[2:], "finished")
    assert await story.fetch(counted, task_id) == [{"n_finished": 2, "n_failed": 1}]


async def test_when_a_job_that_did_not_finish_was_counted_is_written_once_a_minute(story: Story) -> None:
    task_id = await story.task(n_files=5)
    jobs = await story.jobs_of(task_id)
    tried = "SELECT tried_at FROM task_job_counts WHERE task_id = $1"
    await story.end(jobs[:1], "finished")
    assert await story.value(tried, task_id) is None
    await story.end(jobs[1:2], "closed", source="watchdog")
    first = await story.value(tried, task_id)
    assert first is not None, "it was tried, and counts as neither"
    await story.end(jobs[2:3], "failed", source="payload")
    assert await story.value(tried, task_id) == first
    async with story.database.read() as connection:
        await connection.execute("UPDATE task_job_counts SET tried_at = tried_at - interval '61 s'")
    await story.end(jobs[3:4], "finished")
    assert await story.value(tried, task_id) == first - timedelta(seconds=61)
    await story.end(jobs[4:], "failed", source="payload")
    assert await story.value(tried, task_id) >= first


async def test_a_task_whose_last_job_ends_while_a_command_opens_its_input_in_slices_is_not_over(story: Story) -> None:
    task_id = await story.task(n_files=1)
    [job_id] = await story.jobs_of(task_id)
    async with story.database.read() as connection:
        await rows.insert(
            connection,
            "reopenings",
            {"task_id": task_id, "kind": "live", "came_from": "running", "verb": "increase_attempts", "details": {},
             "reason": "more attempts", "by_production": False, "steps": [], "position": {}, "last_file_id": 0,
             "n_reopened": 0, "n_left": 0},
        )  # fmt: skip
    await story.end([job_id], "finished")
    assert await story.status(task_id) == "running"
    async with story.database.read() as connection:
        await connection.execute("DELETE FROM reopenings")
    await story.hear(TaskReleased(task_id=task_id, status="running", reason="the last slice"))
    assert await story.status(task_id) == "prepared"
