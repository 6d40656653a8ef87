"""Outputs are registered in a catalogue outside by requests that may be repeated."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from services.task_definition.data.cataloguing.working import RequestWorker
from shared.catalogue.outside import DataName
from shared.db import Database
from shared.events import (
    OutputsProduced,
    OutputsRegistered,
    TaskRegistered,
)
from shared.runtime.service import Service
from tests.catalogues.faulty import FaultyCatalogue
from tests.handlers.events import deliver
from tests.handlers.task_definition.outside.steps import (
    a_job_outside,
    defined,
    due_again,
    has,
    kept,
    registered,
    sent,
    work_off,
)
from tests.handlers.task_definition.steps import rows_of, value_of
from tests.handlers.task_definition.world import production


async def test_output_datasets_are_registered_outside_with_their_task(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    task_id = await defined(database, service, worker, producer)
    names = [DataName("mc", "mc.simulation"), DataName("mc", "mc.simulation.log")]
    found = await outside.collections(names)
    assert [(found[name].is_open, found[name].metadata["task_id"]) for name in names] == [(True, task_id)] * 2


async def test_outputs_are_registered_outside_before_the_dispatcher_is_told(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    await a_job_outside(database, outside, 1)
    for _ in range(2):
        assert await deliver(database, service, OutputsProduced(job_ids=(1,))) == ()
    assert await value_of(database, "SELECT count(*) FROM catalogue_requests") == 1
    assert await value_of(database, "SELECT count(*) FROM catalogue.files") == 0
    await work_off(worker)
    assert await has(outside, "mc.output") == [("output.1", 1000, None, "ad:0a0b0c0d", "g1")]
    assert await kept(database, "mc.output") == await has(outside, "mc.output")
    body = await value_of(database, "SELECT body FROM outbox WHERE routing_key = 'outputs.registered.v1'")
    assert OutputsRegistered.model_validate_json(body).job_ids == (1,)


async def test_a_worker_that_dies_between_call_and_commit_leaves_a_request_that_is_repeated_without_harm(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    await a_job_outside(database, outside, 1)
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    outside.loses = {"add_files"}
    with pytest.raises(asyncio.CancelledError):
        await worker.work_off()
    assert len(await has(outside, "mc.log")) == 1
    assert await sent(database) == []
    assert await worker.work_off() == 0  # others wait until its time is over
    await due_again(database)
    await work_off(worker)
    assert len(await has(outside, "mc.output")) == 1
    assert await sent(database) == ["outputs.registered.v1"]


async def test_a_worker_that_was_too_slow_changes_nothing_any_more(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    await a_job_outside(database, outside, 1)
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    outside.hangs = asyncio.Event()
    slow = asyncio.create_task(worker.work_off())
    await outside.is_hanging.wait()
    await due_again(database)
    [taken] = await worker._take(1)
    outside.hangs.set()
    await slow
    assert await sent(database) == []
    await worker.work_on(taken)
    assert await sent(database) == ["outputs.registered.v1"]


async def test_requests_of_a_task_wait_for_earlier_ones_of_another_kind(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    task_id = await registered(database, service, producer, production())
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO catalogue_requests (vo, task_id, kind, subject, details) VALUES"
            " ('demo', $1, 'close', 'x', '{\"datasets\": []}')",
            task_id,
        )
    outside.is_down = True
    await work_off(worker)
    rows = await rows_of(database, "SELECT kind, attempts FROM catalogue_requests WHERE status = 'open' ORDER BY 1")
    assert [tuple(row) for row in rows] == [("close", 0), ("create", 1)]
