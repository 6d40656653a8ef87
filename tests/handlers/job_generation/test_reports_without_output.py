"""A task whose output may be absent (allowNoOutput): pilots' reports, registration, settling and merging in one run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from services.job_dispatch.api.report_fields import read_report
from services.job_dispatch.app import Parts, build_parts
from services.task_definition.app import build as build_definition
from shared.catalogue import BuiltInCatalogue
from shared.events import Event, JobsFailed, JobsFinished, JobsMerging, OutputsProduced, OutputsRegistered, TaskPrepared
from shared.runtime.service import Context, Service
from tests.handlers.events import deliver
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_merging_without_output import a_task, names, spec_of, states

ON_THE_WAY = (OutputsProduced, OutputsRegistered, JobsMerging, JobsFinished, JobsFailed)


@pytest.fixture
async def dispatch(context: Context) -> AsyncIterator[Parts]:
    parts = build_parts(replace(context, metrics=CollectorRegistry()))
    for action in parts.service.on_start:
        await action()
    yield parts
    await parts.close()


@pytest.fixture
def definition(context: Context) -> Service:
    return build_definition(replace(context, metrics=CollectorRegistry()))


async def finish(
    story: Story, dispatch: Parts, definition: Service, job_id: int, streams: Collection[str]
) -> Sequence[Event]:
    """A pilot reports success with these streams, and everybody hears what follows; what was said."""
    listed = (await names(story, [job_id], streams))["outputs"]
    report = read_report({"jobId": job_id, "state": "finished", "xml": orjson.dumps(listed).decode()})
    assert (await dispatch.reporting.report(report)).command == "NULL"
    body = await story.value(
        "SELECT body FROM outbox WHERE routing_key = $1 ORDER BY event_id DESC", OutputsProduced.routing_key()
    )
    waiting: list[Event] = [OutputsProduced.model_validate_json(body)]
    said: list[Event] = []
    while waiting:
        event = waiting.pop(0)
        said.append(event)
        for service in (definition, dispatch.service, story.service):
            if isinstance(event, ON_THE_WAY) and type(event) in dict(service.work):
                waiting += await deliver(story.database, service, event)
    return said


async def test_an_output_that_no_pilot_lists_is_absent_from_the_reports_to_the_merge_job_and_the_end(
    story: Story, dispatch: Parts, definition: Service
) -> None:
    task_id = await a_task(story)
    async with story.database.read() as connection:
        datasets = await connection.fetch(
            "SELECT DISTINCT dataset_name FROM task_datasets WHERE task_id = $1 AND type <> 'input'", task_id
        )
        for row in datasets:
            await BuiltInCatalogue().create(connection, row["dataset_name"], scope="mc")
    jobs = await story.jobs_of(task_id)
    said: list[Any] = []
    for job_id in jobs:
        await story.move([job_id], "running")
        said += await finish(story, dispatch, definition, job_id, ("TRN_OUTPUT0", "TRN_LOG0"))
    assert await states(story, task_id, "TRN_OUTPUT1") == ["nooutput"] * 2
    [chunk_id] = chunks_in(said)
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    assert "RDO" not in (await spec_of(story, merge_id))["outFiles"]
    await story.move([merge_id], "running")
    said = list(await finish(story, dispatch, definition, merge_id, ("OUTPUT0", "LOG0")))
    assert await states(story, task_id, "OUTPUT0") == ["finished"]
    assert await states(story, task_id, "OUTPUT1") == ["nooutput"]
    assert await story.files(task_id) == ["finished"] * 2
    assert await story.status(task_id) == "prepared" and any(isinstance(one, TaskPrepared) for one in said)
    await story.check()
