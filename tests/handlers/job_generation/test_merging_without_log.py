"""Outputs of a task without logs are merged like others (PanDA client: --mergeOutput and no log)."""

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
from tests.handlers.task_definition.world import an_input, import_world, production


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
