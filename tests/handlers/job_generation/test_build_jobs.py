"""A task with buildSpec: one build job for each site, the others wait for it and read what it made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from services.job_generation import app
from services.job_generation.generating.plugin import GreedyGeneration
from services.job_generation.specification.building import BuildRequest, NewJob
from shared.events import Event
from shared.model.dataset_types import SOURCES_STREAM
from tests import rows
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_preprocessing import a_job, to_preprocess


async def to_build(story: Story, *, merge: bool = False, status: str = "ready", **rule: Any) -> int:
    """A task whose sources must be compiled."""
    line = "-l ${LIB} -i ${IN} -o ${OUTPUT0}"
    task_id = await story.task(
        n_files=2, command_line=line, merge=merge, status=status, rule={"useBuild": True, **rule}
    )
    async with story.database.read() as connection:
        dataset_id = await rows.dataset(
            connection, task_id, dataset_name=f"t.lib.{task_id}", type="output", stream_name="LIB",
            attributes={"reusable": True},
        )  # fmt: skip
        name = f"t.lib._${{SN}}.{task_id}.lib.tgz"
        template = {
            "task_id": task_id, "dataset_id": dataset_id, "stream_name": "LIB", "out_type": "output",
            "file_name_template": name,
        }  # fmt: skip
        await rows.insert(connection, "output_templates", template)
        build = {"build": "-i sources.1.tar.gz -o ${LIB}", "build_trans_path": "buildGen", "build_label": "panda"}
        merged = {"merge": "-l ${LIB} -t ${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG}"} if merge else {}
        await connection.execute(
            "UPDATE job_parameters_templates SET job_parameters_template = job_parameters_template || $2"
            " WHERE task_id = $1",
            task_id,
            build | merged,
        )
    return task_id


async def spec_of(story: Story, job_id: int) -> dict[str, Any]:
    return dict(await story.value("SELECT spec FROM job_specs WHERE job_id = $1", job_id))


async def built(story: Story, task_id: int, *queues: str) -> tuple[int, Sequence[Event]]:
    """The first build job, and what was said when it was finished."""
    [chunk_id] = await story.ready(task_id)
    [job_id] = generated_in(await story.broker(task_id, chunk_id, *queues))
    return job_id, await story.end([job_id], "finished")


async def test_the_first_chunk_makes_a_build_job_and_waits_for_it(story: Story) -> None:
    task_id = await to_build(story)
    [chunk_id] = await story.ready(task_id)
    [job_id] = generated_in(await story.broker(task_id, chunk_id))
    [job] = await story.fetch("SELECT job_type, current_priority, queue FROM jobs WHERE job_id = $1", job_id)
    priority = await story.value("SELECT current_priority FROM tasks WHERE task_id = $1", task_id)
    assert job == {"job_type": "build", "current_priority": priority + 1000, "queue": "Q_ALPHA"}
    spec = await spec_of(story, job_id)
    assert spec["jobPars"] == f"-i sources.1.tar.gz -o t.lib._000001.{task_id}.lib.tgz"
    assert (spec["transformation"], spec["prodSourceLabel"], spec["inFiles"]) == ("buildGen", "panda", "")
    assert await story.files(task_id) == ["ready"] * 2 and await story.ready(task_id) != []
    [decision] = await story.fetch("SELECT outcome, reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert "waits for the build at" in decision["reason"]


async def test_jobs_read_the_library_once_it_is_made(story: Story) -> None:
    task_id = await to_build(story)
    _, said = await built(story, task_id)
    [chunk_id] = chunks_in(said)
    jobs = generated_in(await story.broker(task_id, chunk_id))
    assert len(jobs) == 2
    for job_id in jobs:
        spec = await spec_of(story, job_id)
        assert f"-l t.lib._000001.{task_id}.lib.tgz" in spec["jobPars"]
        assert f"t.lib._000001.{task_id}.lib.tgz" in spec["inFiles"].split(",")
        assert "lib" not in spec["outFiles"]
    await story.end(jobs, "finished")
    assert await story.status(task_id) == "prepared"
    assert await story.value("SELECT count(*) FROM jobs WHERE job_type = 'build'") == 1


async def test_an_archive_in_a_dataset_is_read_by_build_jobs_alone(story: Story) -> None:
    task_id = await to_build(story)
    async with story.database.read() as connection:
        master = await connection.fetchval(
            "SELECT dataset_id FROM task_datasets WHERE task_id = $1 AND stream_name = 'IN'", task_id
        )
        archive = await rows.dataset(
            connection, task_id, dataset_name="user.ada.code", type="input", stream_name=SOURCES_STREAM,
            master_id=master, n_files=1, n_files_to_be_used=1, attributes={"nosplit": True, "repeat": True},
        )  # fmt: skip
        await rows.file(connection, task_id, archive, lfn="code.tgz", type="input", status="ready")
    job_id, said = await built(story, task_id)
    spec = await spec_of(story, job_id)
    assert (spec["inFiles"], spec["realDatasetsIn"], spec["prodDBlockToken"]) == ("code.tgz", "user.ada.code", "local")
    assert await story.value("SELECT dataset_id FROM job_files WHERE job_id = $1", job_id) == archive
    [chunk_id] = chunks_in(said)
    jobs = generated_in(await story.broker(task_id, chunk_id))
    for one in [await spec_of(story, made) for made in jobs]:
        assert "code.tgz" not in one["inFiles"]
        assert "local" in one["prodDBlockToken"].split(","), "the library"
    await story.end(jobs, "finished")
    assert await story.status(task_id) == "prepared"


async def test_a_second_chunk_for_the_same_site_waits_for_the_same_build(story: Story) -> None:
    task_id = await to_build(story)
    [first] = await story.ready(task_id)
    await story.broker(task_id, first)
    [again] = await story.ready(task_id)
    assert generated_in(await story.broker(task_id, again)) == []
    assert await story.value("SELECT count(*) FROM jobs WHERE job_type = 'build'") == 1


async def test_another_site_has_a_build_of_its_own(story: Story) -> None:
    task_id = await to_build(story)
    await built(story, task_id)
    [chunk_id] = [one["chunk_id"] for one in await story.fetch("SELECT chunk_id FROM chunks WHERE status = 'offered'")]
    [job_id] = generated_in(await story.broker(task_id, chunk_id, "Q_BETA"))
    assert await story.value("SELECT job_type FROM jobs WHERE job_id = $1", job_id) == "build"
    sites = await story.fetch("SELECT site, job_id, file_id IS NOT NULL AS is_built FROM builds ORDER BY site")
    assert [(one["job_id"], one["is_built"]) for one in sites] == [(None, True), (job_id, False)]


async def test_a_library_is_made_at_each_chosen_site_and_the_other_jobs_wait_for_theirs(story: Story) -> None:
    task_id = await to_build(story, nFilesPerJob=1)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id, "Q_ALPHA", "Q_BETA", max_jobs=1)
    builds = await story.fetch("SELECT job_id, queue FROM jobs WHERE job_type = 'build' ORDER BY queue")
    assert [one["queue"] for one in builds] == ["Q_ALPHA", "Q_BETA"]
    [chunk_id] = chunks_in(await story.end([builds[0]["job_id"]], "finished"))
    [first] = generated_in(await story.broker(task_id, chunk_id, "Q_ALPHA", "Q_BETA", max_jobs=1))
    assert await story.value("SELECT queue FROM jobs WHERE job_id = $1", first) == "Q_ALPHA"
    assert sorted(await story.files(task_id)) == ["ready", "running"]
    reason = await story.value("SELECT reason FROM generation_decisions ORDER BY decided_at DESC LIMIT 1")
    assert reason == f"waits for the build at BETA (job {builds[1]['job_id']})"
    [chunk_id] = chunks_in(await story.end([builds[1]["job_id"]], "finished"))
    [second] = generated_in(await story.broker(task_id, chunk_id, "Q_BETA", max_jobs=1))
    names = [(await spec_of(story, one))["inFiles"] for one in (first, second)]
    assert f"t.lib._000001.{task_id}" in names[0] and f"t.lib._000002.{task_id}" in names[1]


async def test_build_jobs_and_pre_processing_jobs_are_those_of_the_plugin_of_their_vo(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Recording(GreedyGeneration):
        def build(self, request: BuildRequest) -> list[NewJob]:
            asked.append(request.kind.name)
            return super().build(request)

    monkeypatch.setattr(app, "find", lambda group, vo, label: Recording)
    app.find_plugin.cache_clear()
    await built(story, await to_build(story))
    await a_job(story, await to_preprocess(story))
    app.find_plugin.cache_clear()
    assert asked == ["build", "preprocess"]


async def test_the_third_failed_build_breaks_a_task_that_scouts(story: Story) -> None:
    task_id = await to_build(story)
    [chunk_id] = await story.ready(task_id)
    for n_failed in (1, 2, 3):
        [job_id] = generated_in(await story.broker(task_id, chunk_id))
        said = await story.end([job_id], "failed", source="payload")
        if n_failed < 3:
            assert await story.status(task_id) == "ready"
            [chunk_id] = chunks_in(said)
    assert await story.status(task_id) == "tobroken"
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert "3 build jobs failed while the task was scouting" in reason


async def test_a_task_whose_build_failed_three_times_at_all_its_sites_is_pending_once_nothing_of_it_runs(
    story: Story,
) -> None:
    task_id = await to_build(story, status="running", nFilesPerJob=1)
    _, said = await built(story, task_id, "Q_ALPHA")
    [chunk_id] = chunks_in(said)
    for _ in range(3):
        [job_id] = generated_in(await story.broker(task_id, chunk_id, "Q_BETA"))
        [chunk_id] = chunks_in(await story.end([job_id], "failed", source="payload"))
    assert await story.status(task_id) == "running", "its input may be brokered to Q_ALPHA"
    assert generated_in(await story.broker(task_id, chunk_id, "Q_BETA")) == []
    [task] = await story.fetch("SELECT status, retry_at, error_dialog FROM tasks WHERE task_id = $1", task_id)
    assert task["status"] == "pending" and task["retry_at"] is not None
    assert "the build failed 3 times at" in task["error_dialog"]


async def test_a_task_that_waits_for_its_build_is_not_pending(story: Story) -> None:
    task_id = await to_build(story, status="running")
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    assert await story.status(task_id) == "running" and await story.files(task_id) == ["ready"] * 2


async def test_a_build_that_was_killed_is_no_failure(story: Story) -> None:
    task_id = await to_build(story)
    [chunk_id] = await story.ready(task_id)
    for _ in range(4):
        [job_id] = generated_in(await story.broker(task_id, chunk_id))
        [chunk_id] = chunks_in(await story.end([job_id], "closed", source="user"))
    assert await story.status(task_id) == "ready"
    assert await story.value("SELECT n_failures FROM builds WHERE task_id = $1", task_id) == 0


async def test_a_build_job_may_take_as_long_as_the_parameter_says(story: Story) -> None:
    async with story.database.read() as connection:
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type)"
            " VALUES ('jobgen', 'BUILD_JOB_MAX_WALLTIME', '3', 'int')"
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    for one in story.service.on_start:
        await one()
    task_id = await to_build(story)
    [chunk_id] = await story.ready(task_id)
    [job_id] = generated_in(await story.broker(task_id, chunk_id))
    assert (await spec_of(story, job_id))["maxWalltime"] == 3 * 3600


async def test_merge_jobs_read_the_library_too(story: Story) -> None:
    task_id = await to_build(story, merge=True)
    _, said = await built(story, task_id)
    [chunk_id] = chunks_in(said)
    jobs = generated_in(await story.broker(task_id, chunk_id))
    [merge_chunk] = chunks_in(await story.end(jobs, "merging"))
    [merge_id] = generated_in(await story.broker(task_id, merge_chunk))
    spec = await spec_of(story, merge_id)
    assert spec["jobPars"].startswith(f"-l t.lib._000001.{task_id}.lib.tgz -t panda.um.")
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"
