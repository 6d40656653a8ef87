"""Unmerged outputs and merge jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.job_dispatch.store.jobs import lock_jobs
from services.job_generation import app
from services.job_generation.generating.example_vo import ExampleGeneration
from services.job_generation.generating.plugin import GreedyGeneration
from services.job_generation.store import results as store_results
from shared.events import JobsExpired, JobsFailed, JobsFinished, TaskPrepared
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_site_matches import advertise


async def waiting(story: Story, n_files: int = 4, **values: Any) -> tuple[int, list[int], list[int]]:
    """A task whose jobs all wait to be merged: task, jobs, merge chunks."""
    task_id = await story.task(n_files=n_files, merge=True, **values)
    jobs = await story.jobs_of(task_id)
    outputs = await story.fetch("SELECT lfn, type FROM task_files WHERE type IN ('trn_output', 'trn_log')")
    sizes = {"trn_output": 1000, "trn_log": 0}
    for job_id in jobs:
        await story.move(
            [job_id],
            "merging",
            report={
                "job_status": "finished",
                "outputs": {one["lfn"]: {"fsize": sizes[one["type"]]} for one in outputs},
            },
        )
    from shared.events import JobsMerging

    return task_id, jobs, chunks_in(await story.hear(JobsMerging(job_ids=tuple(jobs))))


async def test_unmerged_outputs_wait_until_all_jobs_at_the_queue_ended(story: Story) -> None:
    task_id = await story.task(n_files=3, merge=True)
    jobs = await story.jobs_of(task_id)
    assert chunks_in(await story.end(jobs[:2], "merging")) == []
    assert await story.files(task_id, "trn_output") == ["ready", "ready", "running"]
    [chunk_id] = chunks_in(await story.end(jobs[2:], "merging"))
    [chunk] = await story.fetch("SELECT kind, queue, priority, n_files FROM chunks WHERE chunk_id = $1", chunk_id)
    assert chunk == {"kind": "merge", "queue": "Q_ALPHA", "priority": 5000, "n_files": 6}


async def test_a_merge_chunk_keeps_what_it_held_of_each_dataset_when_it_is_used(story: Story) -> None:
    task_id, _, [chunk_id] = await waiting(story, n_files=3)
    await story.broker(task_id, chunk_id)
    [chunk] = await story.fetch("SELECT status, inputs FROM chunks WHERE chunk_id = $1", chunk_id)
    held = await story.fetch(
        "SELECT dataset_id, count(*)::int AS n_files, sum(coalesce(fsize, 0))::int AS n_bytes FROM task_files"
        " WHERE task_id = $1 AND type IN ('trn_output', 'trn_log') GROUP BY dataset_id ORDER BY dataset_id",
        task_id,
    )
    assert chunk["status"] == "used" and [one["n_files"] for one in held] == [3, 3]
    assert [{key: one[key] for key in ("dataset_id", "n_files", "n_bytes")} for one in chunk["inputs"]] == held


async def test_a_merge_job_reads_the_unmerged_files_and_writes_the_final_ones(story: Story) -> None:
    task_id, jobs, [chunk_id] = await waiting(story, n_files=2)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", merge_id)
    unmerged = [f"panda.um.output.{task_id}._00000{n}.root" for n in (1, 2)]
    logs = [f"panda.um.log.{task_id}._00000{n}.root" for n in (1, 2)]
    assert spec["jobPars"] == (
        f"-t {','.join(unmerged)}:HITS.{task_id}._000001.root {','.join(logs)}:log.{task_id}._000001.root"
    )
    assert set(spec["inFiles"].split(",")) == {*unmerged, *logs}
    assert spec["processingType"] == "pmerge" and spec["currentPriority"] == 5000
    [job] = await story.fetch("SELECT job_type, core_count FROM jobs WHERE job_id = $1", merge_id)
    assert job == {"job_type": "merge", "core_count": 1}
    assert await story.files(task_id) == ["running"] * 2
    history = await story.fetch("SELECT old_job_id, relation_type FROM job_retry_history ORDER BY old_job_id")
    assert [(row["old_job_id"], row["relation_type"]) for row in history] == [(job, "merge") for job in jobs]


async def blocked(story: Story, process_id: int) -> None:
    """Returns once somebody waits for a lock of this server process."""
    async with story.database.read() as connection:
        question = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND $1 = ANY(pg_blocking_pids(pid)))"
        while not await connection.fetchval(question, process_id):
            await connection.execute("SELECT pg_sleep(0.005)")


async def test_a_kill_that_races_with_the_end_of_a_merge_waits_in_the_same_order_and_nobody_is_thrown_out(
    story: Story,
) -> None:
    """The kill has the lock of the producer, the end of the merge job comes, the kill goes on to the merge job."""
    task_id, [producer], [chunk_id] = await waiting(story, n_files=1)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    await story.move([merge_id], "finished")
    async with asyncio.timeout(60), story.database.begin(reason="kill") as kill:
        await lock_jobs(kill.connection, [producer])
        process_id = await kill.connection.fetchval("SELECT pg_backend_pid()")
        ending = asyncio.create_task(story.hear(JobsFinished(job_ids=(merge_id,))))
        await blocked(story, process_id)
        await lock_jobs(kill.connection, [producer, merge_id])
    await ending
    assert await story.files(task_id) == ["finished"]


async def test_a_finished_merge_finishes_the_jobs_that_waited_and_their_input(story: Story) -> None:
    task_id, jobs, [chunk_id] = await waiting(story)
    merge_ids = generated_in(await story.broker(task_id, chunk_id))
    said = await story.end(merge_ids, "finished")
    [finished] = [event for event in said if isinstance(event, JobsFinished)]
    assert finished.job_ids == tuple(jobs)
    [move] = finished.moves
    assert (move.from_status, move.to_status, move.n_jobs) == ("merging", "finished", 4)
    assert await story.files(task_id) == ["finished"] * 4
    assert await story.files(task_id, "trn_output") == ["finished"] * 4
    assert await story.files(task_id, "output") == ["finished"]
    assert any(isinstance(event, TaskPrepared) for event in said)
    assert await story.hear(finished) == ()  # it is told to us as well


async def test_groups_end_at_the_number_of_files_of_a_merge_job(story: Story) -> None:
    task_id, _, [chunk_id] = await waiting(story, n_files=5, rule={"nFilesPerMergeJob": 2})
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 3


async def test_full_groups_do_not_wait_for_the_other_jobs(story: Story) -> None:
    task_id = await story.task(n_files=5, merge=True, rule={"nFilesPerMergeJob": 2})
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs[:3], "merging"))
    assert await story.files(task_id, "trn_output") == ["picked", "picked", "ready", "running", "running"]
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 1


async def test_a_failed_merge_is_tried_three_times_then_the_input_is_processed_again(story: Story) -> None:
    task_id, jobs, [chunk_id] = await waiting(story, n_files=2)
    for attempt in range(3):
        merge_ids = generated_in(await story.broker(task_id, chunk_id))
        said = await story.end(merge_ids, "failed", source="payload")
        if attempt < 2:
            [chunk_id] = chunks_in(said)
    [failed] = [event for event in said if isinstance(event, JobsFailed)]
    assert failed.job_ids == tuple(jobs)
    assert [(move.from_status, move.to_status) for move in failed.moves] == [("merging", "cancelled")]
    assert await story.files(task_id, "trn_output") == ["failed"] * 2
    assert await story.files(task_id) == ["picked"] * 2
    inputs = await story.fetch("SELECT attempt_nr, failed_attempt FROM task_files WHERE type = 'input'")
    assert inputs == [{"attempt_nr": 1, "failed_attempt": 0}] * 2
    [chunk_id] = chunks_in(said)
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 2


async def test_the_outputs_of_a_job_killed_while_it_waited_are_not_merged(story: Story) -> None:
    task_id, jobs, [chunk_id] = await waiting(story, n_files=3)
    await story.move(jobs[:1], "cancelled", source="user")
    await story.hear(JobsFailed(job_ids=(jobs[0],)))
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    assert await story.files(task_id, "trn_output") == ["cancelled", "running", "running"]
    await story.end([merge_id], "finished")
    assert await story.files(task_id) == ["picked", "finished", "finished"]


async def test_a_job_killed_while_its_outputs_are_merged_ends_as_the_merge_does(story: Story) -> None:
    task_id, jobs, [chunk_id] = await waiting(story, n_files=2)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    await story.move(jobs[:1], "cancelled", source="user")
    await story.hear(JobsFailed(job_ids=(jobs[0],)))
    assert await story.files(task_id) == ["running"] * 2
    await story.end([merge_id], "finished")
    assert await story.files(task_id) == ["finished"] * 2
    assert await story.status(task_id) == "prepared"


async def test_a_job_that_waited_too_long_for_a_merge_fails_and_its_input_is_processed_again(story: Story) -> None:
    task_id = await story.task(n_files=3, merge=True)
    jobs = await story.jobs_of(task_id)
    assert chunks_in(await story.end(jobs[:1], "merging")) == []
    async with story.database.begin(reason="the test plays the watchdog") as work:
        await work.connection.execute(
            "UPDATE jobs SET status = 'failed', error_source = 'watchdog', state_change_time = orrery_now()"
            " WHERE job_id = $1",
            jobs[0],
        )
    said = await story.hear(JobsExpired(job_ids=(jobs[0],), reason="merging for too long"))
    assert await story.files(task_id, "trn_output") == ["cancelled", "running", "running"]
    assert await story.files(task_id) == ["picked", "running", "running"]
    [chunk_id] = chunks_in(said)
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 1


async def test_when_a_merge_for_nobody_is_taken_back_the_input_of_those_that_were_killed_is_processed_again(
    story: Story,
) -> None:
    task_id, jobs, [chunk_id] = await waiting(story, n_files=2)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    await story.move(jobs, "cancelled", source="user")
    await story.hear(JobsFailed(job_ids=tuple(jobs)))
    assert await story.files(task_id) == ["running"] * 2
    await story.move([merge_id], "closed", source="watchdog")
    said = await story.hear(JobsExpired(job_ids=(merge_id,), reason="nobody waits for it"))
    assert await story.files(task_id, "trn_output") == ["cancelled"] * 2
    assert await story.files(task_id) == ["picked"] * 2
    [chunk_id] = chunks_in(said)
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 2


async def test_an_unplaceable_merge_waits_and_is_offered_again(story: Story) -> None:
    task_id, _, [chunk_id] = await waiting(story, n_files=2)
    await story.unplaceable(task_id, chunk_id)
    assert await story.files(task_id, "trn_output") == ["ready"] * 2
    assert await story.status(task_id) == "running"
    assert len(chunks_in(await story.released(task_id))) == 1


async def test_a_merge_job_is_a_match_of_its_site_and_what_does_not_fit_waits_for_the_next_advertisement(
    story: Story,
) -> None:
    task_id, _, [chunk_id] = await waiting(story, n_files=5, rule={"nFilesPerMergeJob": 2})
    await advertise(story, max_jobs=4)
    said = await story.broker(task_id, chunk_id)
    assert len(generated_in(said)) == 2 and chunks_in(said) == []
    assert await story.files(task_id, "trn_output") == ["running"] * 4 + ["ready"]
    assert await story.value("SELECT current_matches FROM site_adverts") == 4
    [told] = await story.fetch(
        "SELECT outcome, reason, retry_at = expires_at AS at_expiry FROM generation_decisions, site_adverts"
    )
    assert (told["outcome"], told["at_expiry"]) == ("unplaceable", True)
    assert told["reason"] == (
        "merge jobs wait: site ALPHA did not take 1 jobs by its advertisement:"
        " site ALPHA asks for (CurMatches < MaxJobs) (CurMatches 4, MaxJobs 4)"
    )
    assert await looked_at(story) == []
    async with story.database.read() as connection:  # five minutes later the site has advertised again
        await connection.execute("UPDATE chunks SET retry_at = orrery_now() WHERE retry_at IS NOT NULL")
        await connection.execute("UPDATE site_adverts SET current_jobs = 3, current_matches = 3")
    [chunk_id] = await looked_at(story)
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 1
    assert await story.files(task_id, "trn_output") == ["running"] * 5
    assert await story.value("SELECT current_matches FROM site_adverts") == 4


async def test_a_site_that_takes_no_merge_job_loses_none(story: Story) -> None:
    task_id, _, [chunk_id] = await waiting(story, n_files=2)
    await advertise(story, max_jobs=2)
    assert generated_in(await story.broker(task_id, chunk_id)) == []
    assert await story.files(task_id, "trn_output") == ["ready"] * 2
    assert await story.value("SELECT current_matches FROM site_adverts") == 2
    assert await story.status(task_id) == "running"
    [chunk_id] = chunks_in(await story.released(task_id))
    async with story.database.read() as connection:
        await connection.execute("UPDATE site_adverts SET expires_at = orrery_now()")
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    await story.end([merge_id], "finished")
    assert await story.files(task_id) == ["finished"] * 2


async def test_a_task_without_anything_to_merge_counts_no_match(story: Story) -> None:
    task_id, _, [chunk_id] = await waiting(story, n_files=2)
    async with story.database.read() as connection:
        await connection.execute("UPDATE task_datasets SET stream_name = 'TRN_OTHER' WHERE type LIKE 'trn_%'")
    await advertise(story, max_jobs=9)
    assert generated_in(await story.broker(task_id, chunk_id)) == []
    assert await story.value("SELECT current_matches FROM site_adverts") == 2


async def looked_at(story: Story) -> list[int]:
    """The periodic look at merges whose time has come; chunks that were offered."""
    [periodic] = [one for one in story.service.periodic if one.name == "look-at-merges"]
    async with story.database.begin(reason="test") as work:
        await periodic.run(work)
        offered = chunks_in(work.emitted)
    await story.check()
    return offered


async def test_scouts_that_wait_to_be_merged_count_as_succeeded(story: Story) -> None:
    task_id = await story.task(n_files=20, opened=4, merge=True, rule={"skipScout": False})
    jobs = await story.jobs_of(task_id)
    await story.end(jobs[:2], "merging")
    assert await story.status(task_id) == "running"


async def test_a_merge_job_may_take_as_long_as_the_parameter_of_its_label_says(story: Story) -> None:
    await configured(story, "MERGE_JOB_MAX_WALLTIME_managed", "3")
    await configured(story, "MERGE_JOB_MAX_WALLTIME_user", "7")
    task_id, _, [chunk_id] = await waiting(story, n_files=1)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    assert await walltimes(story, merge_id) == (3 * 3600, 3 * 3600)


async def test_a_merge_job_that_was_measured_shorter_asks_for_no_more_than_that(story: Story) -> None:
    await configured(story, "MERGE_JOB_MAX_WALLTIME_managed", "3")
    task_id, _, [chunk_id] = await waiting(story, n_files=1, merge_walltime=7200)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    assert await walltimes(story, merge_id) == (2 * 3600, 2 * 3600)


@pytest.mark.parametrize(
    ("rule", "token"),
    [
        ({}, "NULL"),
        ({"useLocalIO": True}, "local"),
        ({"mergeUseLocalIO": True}, "local"),
        ({"useLocalIO": True, "mergeUseLocalIO": False}, "NULL"),
    ],
)
async def test_a_merge_job_copies_its_input_as_merge_spec_says_or_else_as_its_task(
    story: Story, rule: dict[str, bool], token: str
) -> None:
    task_id, _, [chunk_id] = await waiting(story, n_files=1, rule=rule)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", merge_id)
    assert spec["prodDBlockToken"] == f"{token},{token}"


async def configured(story: Story, key: str, value: str) -> None:
    """A runtime parameter of job generation is set."""
    async with story.database.read() as connection:
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type) VALUES ('jobgen', $1, $2, 'int')", key, value
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    for one in story.service.on_start:
        await one()


async def walltimes(story: Story, job_id: int) -> tuple[int, int]:
    """Seconds that the pilot is told, and that it must offer."""
    told = await story.value("SELECT (spec ->> 'maxWalltime')::int FROM job_specs WHERE job_id = $1", job_id)
    asked = await story.value(
        "SELECT s.walltime_s FROM jobs j JOIN requirement_shapes s USING (shape_id) WHERE j.job_id = $1", job_id
    )
    return told, asked


@pytest.mark.parametrize(
    ("line", "merges_logs"), [("-t ${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG}", True), ("-t ${TRN_OUTPUT:OUTPUT}", False)]
)
async def test_with_log_merge_the_log_of_a_merge_job_goes_to_a_dataset_of_its_own(
    story: Story, line: str, merges_logs: bool
) -> None:
    task_id = await story.task(n_files=2, merge=True)
    async with story.database.read() as connection:
        await story._output(connection, task_id, "LOG_MERGE", "log", "own")
        await connection.execute(
            "UPDATE task_datasets SET dataset_name = 'mc.merge.log' WHERE stream_name = 'LOG_MERGE'"
        )
        await connection.execute(
            "UPDATE job_parameters_templates SET job_parameters_template = job_parameters_template || $2"
            " WHERE task_id = $1",
            task_id,
            {"merge": line},
        )
    jobs = await story.jobs_of(task_id)
    before = await story.fetch("SELECT spec ->> 'logFile' AS log FROM job_specs ORDER BY job_id")
    assert [one["log"] for one in before] == [f"panda.um.log.{task_id}._00000{n}.root" for n in (1, 2)]
    [chunk_id] = chunks_in(await story.end(jobs, "merging"))
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", merge_id)
    merged = [f"HITS.{task_id}._000001.root", *([f"log.{task_id}._000001.root"] if merges_logs else [])]
    assert spec["logFile"] == f"own.{task_id}._000001.root"
    assert spec["outFiles"].split(",") == [*merged, spec["logFile"]]
    assert len(spec["scopeOut"].split(",")) == len(merged)
    assert all(name in spec["jobPars"] for name in merged)
    await story.end([merge_id], "finished")
    assert await story.files(task_id) == ["finished"] * 2 and await story.status(task_id) == "prepared"
    assert await story.files(task_id, "log") == ["finished"] * len(merged)


async def test_a_log_merge_that_is_an_output_holds_the_logs_and_the_merge_job_writes_the_task_s_log(
    story: Story,
) -> None:
    task_id = await story.task(n_files=2, merge=True)
    async with story.database.read() as connection:
        await story._output(connection, task_id, "LOG_MERGE", "output", "merge_log")
        await connection.execute(
            "UPDATE task_datasets SET dataset_name = 'mc.merge.log' WHERE stream_name = 'LOG_MERGE'"
        )
        await connection.execute(
            "UPDATE job_parameters_templates SET job_parameters_template = job_parameters_template || $2"
            " WHERE task_id = $1",
            task_id,
            {"merge": "${TRN_OUTPUT:OUTPUT} ${TRN_LOG_MERGE:LOG_MERGE}"},
        )
    jobs = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end(jobs, "merging"))
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", merge_id)
    logs = ",".join(f"panda.um.log.{task_id}._00000{n}.root" for n in (1, 2))
    assert spec["jobPars"].endswith(f" {logs}:merge_log.{task_id}._000001.root")
    assert spec["logFile"] == f"log.{task_id}._000001.root"
    named = {f"{name}.{task_id}._000001.root" for name in ("HITS", "log", "merge_log")}
    assert set(spec["outFiles"].split(",")) == named
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"
    assert await story.files(task_id, "output") == ["finished"] * 2


async def test_no_more_outputs_are_read_than_a_chunk_of_merge_jobs_takes_and_all_are_merged_in_the_end(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    await story.fetch(
        "INSERT INTO parameters (app, component, key, value, type)"
        " VALUES ('jedi', 'jobgen', 'MAX_MERGE_JOBS_PER_CHUNK', '2', 'int')"
    )
    await story.fetch("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    for start in story.service.on_start:
        await start()
    read: list[int] = []
    on_hold = store_results.on_hold

    async def noted(*asked: Any) -> Any:
        found = await on_hold(*asked)
        read.extend(len({unit.boundary_id for unit in units}) for units in found.values())
        return found

    monkeypatch.setattr(store_results, "on_hold", noted)
    task_id, _, chunks = await waiting(story, n_files=11, rule={"nFilesPerMergeJob": 2})
    made = []
    while chunks:
        said = [await story.broker(task_id, chunk_id) for chunk_id in chunks]
        made.append([len(generated_in(one)) for one in said])
        chunks = [new for one in said for new in chunks_in(one)]
    assert max(read) == 5, "two merge jobs of two files each, and one job more"
    assert made == [[2], [2], [2]] and len(set(await story.files(task_id, "trn_output"))) == 1


async def test_the_merge_jobs_of_a_vo_are_those_of_its_own_plugin(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 5 outputs, at most 4 in a merge job, everybody else would merge 4 and 1."""
    plugins: dict[str, type[GreedyGeneration]] = {"example": ExampleGeneration}
    monkeypatch.setattr(app, "find", lambda group, vo, label: plugins.get(vo, GreedyGeneration))
    app.find_plugin.cache_clear()
    merged = {}
    for vo in ("example", "demo"):
        task_id, _, chunks = await waiting(story, n_files=5, vo=vo, rule={"nFilesPerMergeJob": 4})
        jobs = [job_id for chunk_id in chunks for job_id in generated_in(await story.broker(task_id, chunk_id))]
        merged[vo] = [
            await story.value("SELECT count(*) FROM job_files WHERE job_id = $1 AND type = 'trn_output'", job_id)
            for job_id in jobs
        ]
    app.find_plugin.cache_clear()
    assert merged == {"example": [3, 2], "demo": [4, 1]}
