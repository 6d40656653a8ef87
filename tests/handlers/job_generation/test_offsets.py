"""Offsets of inputs and of the numbers of jobs (PanDA client: --nSkipFiles, %RNDM), down to what jobs are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from shared.auth import Authority
from shared.runtime.service import Context
from tests.handlers.events import started
from tests.handlers.job_generation.story import Story, chunks_in
from tests.handlers.job_generation.test_described_jobs import Defined
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.world import an_input, import_world, output, production

COUNTER = {
    "type": "template", "param_type": "pseudo_input", "value": "${SEQNUMBER}", "dataset": "seq_number",
    "offset": 100, "hidden": True,
}  # fmt: skip
COMMAND = {"type": "constant", "value": "--seed=${SEQNUMBER}"}


@pytest.fixture
async def defined(story: Story, context: Context, authority: Authority) -> AsyncIterator[Defined]:
    await import_world(story.database)
    service = await started(build(replace(context, metrics=CollectorRegistry())))
    async with client_of(service, authority, "prodteam", "production") as client:
        yield Defined(story, service, client)


async def seeds(defined: Defined, task_id: int) -> list[str]:
    return [spec["jobPars"].partition("--seed=")[2].split()[0] for spec in await defined.specs(task_id)]


def with_items(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return production(
        jobParameters=[*items, output("offsets")], nucleus="ALPHA", skipScout=True, coreCount=1,
        **{"nFilesPerJob": 1, **changes},
    )  # fmt: skip


async def test_the_first_files_of_an_input_and_of_a_secondary_are_left_out(defined: Defined) -> None:
    inputs = [an_input(offset=15), an_input("mc.minbias", "MINBIAS", offset=2)]
    task_id = await defined.define(with_items(*inputs))
    await defined.story.jobs_of(task_id)
    assert [spec["inFiles"] for spec in await defined.specs(task_id)] == [
        f"EVNT._{15 + n:06d}.root,HITS._{2 + n:06d}.root" for n in range(1, 6)
    ]


@pytest.mark.parametrize("items", [(COUNTER, COMMAND), (COMMAND, COUNTER)])
async def test_jobs_without_input_are_numbered_from_behind_the_offset(
    defined: Defined, items: tuple[dict[str, Any], ...]
) -> None:
    task_id = await defined.define(with_items(*items, nFilesPerJob=None, noInput=True, nFiles=3))
    await defined.story.jobs_of(task_id)
    assert await seeds(defined, task_id) == ["101", "102", "103"]


@pytest.mark.parametrize("items", [(COUNTER, COMMAND), (COMMAND, COUNTER)])
async def test_jobs_with_input_are_numbered_and_what_a_failed_job_had_is_given_again(
    defined: Defined, items: tuple[dict[str, Any], ...]
) -> None:
    task_id = await defined.define(with_items(an_input(), *items, nFiles=3))
    jobs = await defined.story.jobs_of(task_id)
    assert await seeds(defined, task_id) == ["101", "102", "103"]
    [chunk_id] = chunks_in(await defined.story.end([jobs[1]], "failed", source="payload"))
    await defined.story.broker(task_id, chunk_id)
    assert await seeds(defined, task_id) == ["101", "102", "103", "102"]
