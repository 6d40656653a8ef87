"""Jobs that may end without an output (allowNoOutput), and the merge jobs after them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shared.events import JobsFinished, JobsMerging, TaskPrepared
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_site_matches import advertise

OPTIONS = (
    "--inputHITSFile=${TRN_OUTPUT0/L} --outputHITS_MRGFile=${OUTPUT0}"
    " --inputRDOFile=${TRN_OUTPUT1} --outputRDO_MRGFile=${OUTPUT1} -n 3"
)
#: of the jobs whose outputs are merged
PLAIN = "--in=${IN} --out=${OUTPUT0} --rdo=${OUTPUT1}"


async def a_task(story: Story, *, n_files: int = 2, merge_line: str | None = None, **values: Any) -> int:
    """A task of two outputs that may both be absent, and a log."""
    task_id = await story.task(n_files=n_files, merge=True, **{"command_line": PLAIN, **values})
    async with story.database.read() as connection:
        await story._output(connection, task_id, "OUTPUT1", "output", "RDO")
        await story._output(connection, task_id, "OUTPUT1", "trn_output", "panda.um.RDO")
        may_be_absent = """UPDATE task_datasets SET attributes = '{"allowNoOutput": true}' WHERE type LIKE '%output'"""
        await connection.execute(may_be_absent)
        if merge_line is not None:
            await connection.execute(
                "UPDATE job_parameters_templates SET job_parameters_template"
                " = job_parameters_template || jsonb_build_object('merge', $1::text)",
                merge_line,
            )
    return task_id


async def names(story: Story, jobs: Collection[int], streams: Collection[str]) -> dict[str, Any]:
    """The pilot's report of these jobs if they write these streams only."""
    written = await story.fetch(
        "SELECT f.lfn FROM task_files f JOIN task_datasets d USING (dataset_id)"
        " WHERE f.out_job_id = ANY($1::bigint[]) AND d.stream_name = ANY($2::text[])",
        list(jobs),
        list(streams),
    )
    return {"job_status": "finished", "outputs": {one["lfn"]: {"fsize": 1000} for one in written}}


async def produce(story: Story, task_id: int, *written: Collection[str]) -> tuple[list[int], list[int]]:
    """Each job writes the streams given for it and comes to wait: jobs, merge chunks."""
    jobs = await story.jobs_of(task_id)
    for job_id, streams in zip(jobs, written, strict=True):
        await story.move([job_id], "merging", report=await names(story, [job_id], streams))
    return jobs, chunks_in(await story.hear(JobsMerging(job_ids=tuple(jobs))))


async def end(story: Story, merge_id: int, *streams: str) -> list[Any]:
    """The merge job succeeds with these streams."""
    return list(await story.end([merge_id], "finished", report=await names(story, [merge_id], streams)))


async def states(story: Story, task_id: int, stream: str) -> list[str]:
    found = await story.fetch(
        "SELECT f.status FROM task_files f JOIN task_datasets d USING (dataset_id)"
        " WHERE f.task_id = $1 AND d.stream_name = $2 ORDER BY f.file_id",
        task_id,
        stream,
    )
    return [row["status"] for row in found]


async def spec_of(story: Story, job_id: int) -> dict[str, Any]:
    spec: dict[str, Any] = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", job_id)
    return spec


async def test_a_merge_job_leaves_out_a_stream_that_no_job_of_its_group_wrote(story: Story) -> None:
    task_id = await a_task(story)
    _, [chunk_id] = await produce(story, task_id, *[("TRN_OUTPUT0", "TRN_LOG0")] * 2)
    assert await states(story, task_id, "TRN_OUTPUT1") == ["nooutput"] * 2
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    spec = await spec_of(story, merge_id)
    assert "RDO" not in spec["jobPars"] and "HITS" in spec["jobPars"] and "log" in spec["jobPars"]
    assert spec["outFiles"] == f"HITS.{task_id}._000001.root,log.{task_id}._000001.root"
    assert len(spec["realDatasets"].split(",")) == len(spec["ddmEndPointOut"].split(",")) == 2
    assert len(spec["scopeOut"].split(",")) == 1
    said = await end(story, merge_id, "OUTPUT0", "LOG0")
    assert await states(story, task_id, "OUTPUT0") == ["finished"]
    assert await states(story, task_id, "OUTPUT1") == ["nooutput"]
    assert await story.files(task_id) == ["finished"] * 2
    assert await story.status(task_id) == "prepared" and any(isinstance(one, TaskPrepared) for one in said)


async def test_logs_alone_are_merged_where_merging_reads_logs(story: Story) -> None:
    task_id = await a_task(story)
    jobs, [chunk_id] = await produce(story, task_id, ("TRN_LOG0",), ("TRN_LOG0",))
    await advertise(story, max_jobs=9)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    assert await story.status(task_id) == "running"
    spec = await spec_of(story, merge_id)
    logs = ",".join(f"panda.um.log.{task_id}._00000{n}.root" for n in (1, 2))
    assert spec["jobPars"] == f"-t  {logs}:log.{task_id}._000001.root"
    assert spec["outFiles"] == spec["logFile"] == f"log.{task_id}._000001.root"
    said = await end(story, merge_id, "LOG0")
    assert next(one for one in said if isinstance(one, JobsFinished)).job_ids == tuple(jobs)
    assert await states(story, task_id, "OUTPUT0") == await states(story, task_id, "OUTPUT1") == ["nooutput"]
    assert await states(story, task_id, "LOG0") == ["finished"]
    assert await story.status(task_id) == "prepared"


async def test_each_group_leaves_out_what_it_lacks_and_an_option_goes_with_its_stream(story: Story) -> None:
    task_id = await a_task(story, n_files=4, merge_line=OPTIONS, rule={"nFilesPerMergeJob": 2})
    hits, rdo = ("TRN_OUTPUT0", "TRN_LOG0"), ("TRN_OUTPUT1",)
    _, [chunk_id] = await produce(story, task_id, hits, hits, rdo, rdo)
    first, second = generated_in(await story.broker(task_id, chunk_id))
    assert (await spec_of(story, first))["jobPars"] == (
        f"--inputHITSFile=panda.um.output.{task_id}._000001.root,panda.um.output.{task_id}._000002.root"
        f" --outputHITS_MRGFile=HITS.{task_id}._000001.root -n 3"
    )
    assert (await spec_of(story, second))["jobPars"] == (
        f"--inputRDOFile=panda.um.RDO.{task_id}._[000003,000004].root"
        f" --outputRDO_MRGFile=RDO.{task_id}._000002.root -n 3"
    )
    await end(story, first, "OUTPUT0", "LOG0")
    await end(story, second, "OUTPUT1", "LOG0")
    assert await states(story, task_id, "OUTPUT0") == ["finished", "nooutput"]
    assert await states(story, task_id, "OUTPUT1") == ["nooutput", "finished"]
    assert await story.status(task_id) == "prepared"


async def test_jobs_that_wrote_nothing_that_is_merged_are_finished_without_a_merge_job(story: Story) -> None:
    """Their logs stay as they are: merging of this task reads none."""
    task_id = await a_task(story, merge_line=OPTIONS)
    jobs, chunks = await produce(story, task_id, ("TRN_LOG0",), ("TRN_LOG0",))
    assert chunks == []
    assert await states(story, task_id, "TRN_LOG0") == ["finished"] * 2
    ended = await story.fetch("SELECT status, results_applied_at IS NOT NULL AS counted FROM jobs")
    assert ended == [{"status": "finished", "counted": True}] * len(jobs)
    assert await story.files(task_id) == ["finished"] * 2
    assert await story.status(task_id) == "prepared"


async def test_a_job_that_wrote_nothing_that_is_merged_does_not_hold_up_the_others(story: Story) -> None:
    task_id = await a_task(story, merge_line=OPTIONS)
    _, [chunk_id] = await produce(story, task_id, ("TRN_LOG0",), ("TRN_OUTPUT0", "TRN_LOG0"))
    assert await story.files(task_id) == ["finished", "running"]
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    await end(story, merge_id, "OUTPUT0", "LOG0")
    assert await story.files(task_id) == ["finished"] * 2
    assert await story.status(task_id) == "prepared"
