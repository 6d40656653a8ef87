"""Jobs that a user describes in XML (loadXML), from the submission to what their pilots are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from shared.auth import Authority
from shared.runtime.service import Context, Service
from tests.handlers.events import started
from tests.handlers.job_generation.story import Story, chunks_in
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define
from tests.handlers.task_definition.world import an_input, import_world, output, production

ITEMS = [
    an_input(),
    an_input("mc.minbias", "MINBIAS"),
    output("hists", hidden=True),
    {"type": "constant", "value": '-o "${XML_OUTMAP}" -p "${XML_EXESTR}"'},
]


def evnt(*serials: int) -> str:
    files = "".join(f"<file>EVNT._{serial:06d}.root</file>" for serial in serials)
    return f"<inds><name>mc.evnt</name>{files}</inds>"


def minbias(*serials: int) -> str:
    files = "".join(f"<file>HITS._{serial:06d}.root</file>" for serial in serials)
    return f"<inds><name>mc.minbias</name>{files}</inds>"


def submission(*jobs: str) -> str:
    described = "".join(f"<job>{job}</job>" for job in jobs)
    return f"<submission><command>run.sh --all</command><output>hist.root</output>{described}</submission>"


JOBS = submission(
    evnt(7, 3, 11) + minbias(2) + '<option name="cut" forward="true" prepend="true">5</option>',
    evnt(1) + "<command>check.sh</command><output>tree.root</output>",
    evnt(20, 19) + minbias(1, 3),
)


class Defined:
    """task_definition beside the story's job generation, on one database."""

    def __init__(self, story: Story, service: Service, client: httpx.AsyncClient) -> None:
        self.story, self._service, self._client = story, service, client

    async def task(self, text: str, **changes: Any) -> int:
        """A task whose jobs are described by this XML."""
        rules = {"jobParameters": ITEMS, "nFilesPerJob": None, "nucleus": "ALPHA", "coreCount": 1, **changes}
        return await self.define(production(loadXML=text, **rules))

    async def define(self, given: dict[str, Any]) -> int:
        """A task as it is submitted, with its rows."""
        task_id, _ = await define(self.story.database, self._service, self._client, given)
        return task_id

    async def specs(self, task_id: int) -> list[dict[str, Any]]:
        rows = await self.story.fetch("SELECT spec FROM job_specs WHERE task_id = $1 ORDER BY job_id", task_id)
        return [row["spec"] for row in rows]


@pytest.fixture
async def defined(story: Story, context: Context, authority: Authority) -> AsyncIterator[Defined]:
    await import_world(story.database)
    service = await started(build(replace(context, metrics=CollectorRegistry())))
    async with client_of(service, authority, "prodteam", "production") as client:
        yield Defined(story, service, client)


async def test_each_job_reads_writes_and_executes_what_its_element_says(defined: Defined) -> None:
    task_id = await defined.task(JOBS)
    await defined.story.jobs_of(task_id)
    first, second, third = await defined.specs(task_id)
    assert first["inFiles"] == "EVNT._000007.root,EVNT._000003.root,EVNT._000011.root,HITS._000002.root"
    assert second["inFiles"] == "EVNT._000001.root"
    assert third["inFiles"] == "EVNT._000020.root,EVNT._000019.root,HITS._000001.root,HITS._000003.root"
    stored = f"hists.{task_id}._000001.root.cut5.hist.root"
    assert first["outFiles"].split(",")[0] == stored and first["outFiles"].count(",") == 1
    assert f"-o \"{{'hist.root': '{stored}'}}\"" in first["jobPars"]
    assert f'-p "{quote("cut=5 run.sh --all")}"' in first["jobPars"]
    assert second["outFiles"].split(",")[:2] == [
        f"hists.{task_id}._000002.root.hist.root",
        f"hists.{task_id}._000002.root.tree.root",
    ]
    assert '-p "check.sh"' in second["jobPars"] and "--MINBIAS= " in second["jobPars"]
    for spec in (first, second, third):
        assert len(spec["outFiles"].split(",")) == len(spec["realDatasets"].split(","))
        assert len(spec["ddmEndPointOut"].split(",")) == len(spec["outFiles"].split(","))
        assert spec["logFile"] in spec["outFiles"]


async def test_files_have_the_number_of_their_job_as_boundary_and_others_are_not_read(defined: Defined) -> None:
    task_id = await defined.task(JOBS)
    rows = await defined.story.fetch(
        "SELECT f.lfn, f.boundary_id FROM task_files f JOIN task_datasets d USING (dataset_id)"
        " WHERE f.task_id = $1 AND d.dataset_name = 'mc.evnt' ORDER BY file_id",
        task_id,
    )
    read = [(int(row["lfn"][6:12]), row["boundary_id"]) for row in rows]
    assert read == [(7, 1), (3, 1), (11, 1), (1, 2), (20, 3), (19, 3)]
    [rule] = await defined.story.fetch("SELECT split_rule FROM tasks WHERE task_id = $1", task_id)
    assert rule["split_rule"]["groupBoundaryID"] == 4


async def test_all_files_are_opened_at_once_and_no_job_is_a_scout(defined: Defined) -> None:
    items = [one for one in ITEMS if one.get("dataset") != "mc.minbias"]
    task_id = await defined.task(submission(*(evnt(serial) for serial in range(1, 21))), jobParameters=items)
    assert len(await defined.story.jobs_of(task_id)) == 20
    kinds = await defined.story.fetch("SELECT DISTINCT kind FROM chunks WHERE task_id = $1", task_id)
    assert kinds == [{"kind": "normal"}] and await defined.story.status(task_id) == "running"


async def test_a_job_that_names_a_file_that_is_not_there_keeps_the_task_with_the_name_of_the_file(
    defined: Defined,
) -> None:
    task_id = await defined.task(submission(evnt(1), evnt(2, 77)))
    assert await defined.story.status(task_id) == "pending"
    told = await defined.story.value("SELECT error_dialog FROM tasks WHERE task_id = $1", task_id)
    assert "files that were named are not in mc.evnt: EVNT._000077.root" in told


async def test_a_job_waits_while_one_of_its_files_is_not_ready_and_the_others_are_made(defined: Defined) -> None:
    task_id = await defined.task(JOBS)
    async with defined.story.database.begin(reason="a file waits for tape") as work:
        await work.connection.execute("UPDATE task_files SET status = 'staging' WHERE lfn = 'HITS._000003.root'")
    await defined.story.jobs_of(task_id)
    assert len(await defined.specs(task_id)) == 2
    told = await defined.story.fetch(
        "SELECT reason FROM generation_decisions WHERE task_id = $1 AND reason LIKE '%HITS%'", task_id
    )
    assert "job 3 of loadXML waits for HITS._000003.root of mc.minbias, which is not ready" in told[0]["reason"]


async def test_a_job_that_failed_is_tried_again_with_the_same_files(defined: Defined) -> None:
    task_id = await defined.task(JOBS)
    [first, *_] = await defined.story.jobs_of(task_id)
    [chunk_id] = chunks_in(await defined.story.end([first], "failed", source="payload"))
    await defined.story.broker(task_id, chunk_id)
    specs = await defined.specs(task_id)
    assert [spec["inFiles"] for spec in specs[3:]] == [specs[0]["inFiles"]]
    assert f"hists.{task_id}._000004.root.cut5.hist.root" in specs[3]["outFiles"]


async def test_a_task_whose_jobs_all_finished_has_all_their_outputs(defined: Defined) -> None:
    task_id = await defined.task(JOBS)
    jobs = await defined.story.jobs_of(task_id)
    await defined.story.end(jobs, "finished")
    n_outputs = await defined.story.value(
        "SELECT count(*) FROM task_files WHERE task_id = $1 AND type = 'output' AND status = 'finished'", task_id
    )
    assert n_outputs == 4
