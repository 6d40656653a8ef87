"""Work on segments of the input (segmentSpecs), from the submission to what pilots are told."""

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
from tests.handlers.job_generation.story import Story
from tests.handlers.job_generation.test_described_jobs import Defined
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.world import an_input, import_world, output, production

SEGMENTS = [
    {"name": "arms", "files": [f"EVNT._{n:06d}.root" for n in (5, 2, 9)], "id": 0},
    {"name": "legs", "files": [f"EVNT._{n:06d}.root" for n in (1, 7)], "id": 1},
]
NAMED = output("metrics", value="--out=${MIDDLENAME}.metrics.$JEDITASKID._${SN/P}.root")


@pytest.fixture
async def defined(story: Story, context: Context, authority: Authority) -> AsyncIterator[Defined]:
    await import_world(story.database)
    service = await started(build(replace(context, metrics=CollectorRegistry())))
    async with client_of(service, authority, "prodteam", "production") as client:
        yield Defined(story, service, client)


def segmented(**changes: Any) -> dict[str, Any]:
    command = {"type": "constant", "value": "--segment=${SEGMENT_NAME} --segmentID=${SEGMENT_ID}"}
    return production(
        segmentSpecs=SEGMENTS, segmentedWork=True, jobParameters=[an_input(), NAMED, command], nucleus="ALPHA",
        **{"skipScout": True, "coreCount": 1, **changes},
    )  # fmt: skip


async def test_jobs_read_one_segment_each_and_are_told_its_name_and_id(defined: Defined) -> None:
    task_id = await defined.define(segmented(nFilesPerJob=2))
    await defined.story.jobs_of(task_id)
    specs = await defined.specs(task_id)
    assert [spec["inFiles"] for spec in specs] == [
        "EVNT._000005.root,EVNT._000002.root", "EVNT._000009.root", "EVNT._000001.root,EVNT._000007.root",
    ]  # fmt: skip
    assert [spec["jobPars"].partition("--segment=")[2] for spec in specs] == [
        "arms --segmentID=0", "arms --segmentID=0", "legs --segmentID=1",
    ]  # fmt: skip
    names = [spec["outFiles"].partition(",")[0] for spec in specs]
    assert names == [f"{name}.metrics.{task_id}._{n:06d}.root.1" for n, name in enumerate(("arms", "arms", "legs"), 1)]


async def test_a_segment_is_one_job_where_boundaries_are_not_split(defined: Defined) -> None:
    task_id = await defined.define(segmented(nFilesPerJob=None, groupBoundaryID=3))
    await defined.story.jobs_of(task_id)
    assert [spec["inFiles"].count("EVNT") for spec in await defined.specs(task_id)] == [3, 2]


async def test_files_of_no_segment_are_not_read(defined: Defined) -> None:
    task_id = await defined.define(segmented(nFilesPerJob=1))
    assert len(await defined.story.jobs_of(task_id)) == 5
    assert len(await defined.story.files(task_id)) == 5
