"""Outputs of a task without logs, and of one with fields of input names in theirs, are merged like others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from shared.auth import Authority
from shared.runtime.service import Context
from tests.handlers.events import started
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_described_jobs import Defined
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.world import an_input, import_world, output, production


@pytest.fixture
async def defined(story: Story, context: Context, authority: Authority) -> AsyncIterator[Defined]:
    await import_world(story.database)
    service = await started(build(replace(context, metrics=CollectorRegistry())))
    async with client_of(service, authority, "prodteam", "production") as client:
        yield Defined(story, service, client)


async def test_the_outputs_of_a_task_without_log_are_merged(defined: Defined) -> None:
    story = defined.story
    given = production(
        inputs=[an_input()], log=None, mergeOutput=True,
        mergeSpec={"jobParameters": "${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG}"},
        nFiles=2, nFilesPerJob=1, nucleus="ALPHA", skipScout=True, coreCount=1,
    )  # fmt: skip
    task_id = await defined.define(given)
    jobs = await story.jobs_of(task_id)
    names = [f"simulation.{task_id}._00000{n}.root.1" for n in (1, 2)]
    assert [spec["outFiles"] for spec in await defined.specs(task_id)] == [f"panda.um.{name}" for name in names]
    [chunk_id] = chunks_in(await story.end(jobs, "merging"))
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    spec = await story.value("SELECT spec FROM job_specs WHERE job_id = $1", merge_id)
    assert spec["jobPars"].rstrip() == f"panda.um.{names[0]},panda.um.{names[1]}:{names[0]}"
    assert spec["inFiles"].split(",") == [f"panda.um.{name}" for name in names]
    assert spec["outFiles"] == names[0]
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"
    assert await story.files(task_id, "output") == ["finished"]


@pytest.mark.parametrize("at_end", [False, True])
async def test_outputs_with_different_fields_of_input_names_are_merged_apart(defined: Defined, at_end: bool) -> None:
    story = defined.story
    given = production(
        jobParameters=[an_input(), output("x", value="--out=x${MIDDLENAME}.$JEDITASKID._${SN/P}.root")], log=None,
        mergeOutput=True, mergeSpec={"jobParameters": "${TRN_OUTPUT0} > ${OUTPUT0}"}, umNameAtEnd=at_end,
        addNthFieldToLFN="2", useFileAsSourceLFN=True, nFiles=4, nFilesPerJob=1, nucleus="ALPHA", skipScout=True,
        coreCount=1,
    )  # fmt: skip
    task_id = await defined.define(given)
    async with story.database.begin(reason="the input has such names") as work:
        await work.connection.execute(
            "UPDATE task_files SET lfn = 'run.' || 1 + file_id % 2 || '._' || file_id || '.root' WHERE task_id = $1",
            task_id,
        )
    jobs = await story.jobs_of(task_id)
    chunks = chunks_in(await story.end(jobs, "merging"))
    merges = [job for chunk_id in chunks for job in generated_in(await story.broker(task_id, chunk_id))]
    specs = [await story.value("SELECT spec FROM job_specs WHERE job_id = $1", merge_id) for merge_id in sorted(merges)]
    assert len(specs) == 2
    for spec in specs:
        [written], read = spec["outFiles"].split(","), spec["inFiles"].split(",")
        middle = written.partition(f".{task_id}._")[0]
        assert middle in ("x.1", "x.2") and len(read) == 2 and all(f"{middle}.{task_id}" in name for name in read)
        assert spec["jobPars"].endswith(f"> {written}")
    assert len({spec["outFiles"].partition(f".{task_id}._")[0] for spec in specs}) == 2
