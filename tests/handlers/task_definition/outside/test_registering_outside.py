"""Outputs are registered in a catalogue outside by requests that may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
import pytest

from services.task_definition.data.cataloguing.working import RequestWorker
from shared.catalogue.outside import DataName, FileFacts, NewCollection
from shared.db import Database
from shared.events import (
    OutputsProduced,
    OutputsRegistered,
    TaskRegistered,
)
from shared.runtime.service import Service
from tests.catalogues.conformance import files_of
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
from tests.handlers.task_definition.test_outputs_by_expression import EXPRESSION, holding
from tests.handlers.task_definition.world import production
from tests.rows import change, insert


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


async def test_each_file_of_an_output_by_expression_is_registered_outside(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    await holding(database, {1: {"a1.root": 10, "a2.root": 20}, 2: {"a2.root": 21}})
    await outside.create([NewCollection(DataName("user.ada", name)) for name in ("user.ada.X", "user.ada.log")])
    told = await deliver(database, service, OutputsProduced(job_ids=(1, 2)))
    assert told == (OutputsRegistered(job_ids=(), names_taken_job_ids=(2,)),)
    await work_off(worker)
    files = await files_of(outside, DataName("user.ada", "user.ada.X"))
    assert [(one.name.name, one.size_bytes) for one in files] == [("a1.root", 10), ("a2.root", 20)]
    assert [one[:2] for one in await kept(database, "user.ada.X")] == [("a1.root", 10), ("a2.root", 20)]


async def test_a_job_whose_file_is_known_outside_as_another_is_told_and_the_others_are_registered(
    database: Database,
    service: Service,
    worker: RequestWorker,
    outside: FaultyCatalogue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Rucio has one file of a name in a scope, in whatever datasets it is."""
    await holding(database, {1: {"a1.root": 10}, 2: {"a2.root": 20}, 3: {"a3.root": 30}})
    names = {name: DataName("user.ada", name) for name in ("a1.root", "a2.root")}
    sizes = (("a1.root", 99, None), ("a2.root", 20, "ad:00000014"))
    known = {names[name]: FileFacts(names[name], size, None, checksum) for name, size, checksum in sizes}
    asked: list[DataName] = []

    async def registered(given: Sequence[DataName]) -> dict[DataName, FileFacts]:
        asked.extend(given)
        return {name: facts for name, facts in known.items() if name in given}

    monkeypatch.setattr(outside, "registered", registered, raising=False)
    await outside.create([NewCollection(DataName("user.ada", name)) for name in ("user.ada.X", "user.ada.log")])
    async with database.read() as connection:
        made = {"task_id": 700, "dataset_id": await connection.fetchval("SELECT min(dataset_id) FROM task_datasets")}
        await insert(connection, "output_templates", {**made, "file_name_template": EXPRESSION})
    await deliver(database, service, OutputsProduced(job_ids=(1, 2, 3)))
    await work_off(worker)
    assert names["a1.root"] in asked
    files = await files_of(outside, DataName("user.ada", "user.ada.X"))
    assert [one.name.name for one in files] == ["a2.root", "a3.root"]
    bodies = await rows_of(
        database, "SELECT body FROM outbox WHERE routing_key = 'outputs.registered.v1' ORDER BY event_id"
    )
    told = [OutputsRegistered.model_validate_json(row["body"]) for row in bodies]
    assert [(one.job_ids, one.names_taken_job_ids) for one in told] == [((2, 3), ()), ((), (1,))]


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


async def a_late_log(database: Database, outside: FaultyCatalogue, *, expires: bool = False) -> None:
    """A job of VO demo was killed, its task has ended, its datasets are closed; then its pilot tells of the log."""
    await a_job_outside(database, outside, 1)
    await outside.close([DataName("mc", "mc.output"), DataName("mc", "mc.log")])
    async with database.read() as connection:
        await change(connection, "UPDATE jobs SET status = 'cancelled'")
        await change(connection, "UPDATE job_reports SET state = 'late'")
        await change(connection, "UPDATE tasks SET status = 'aborted'")
        await change(connection, "UPDATE catalogue.datasets SET state = 'frozen' WHERE name LIKE 'mc.%'")
        if expires:
            await change(connection, "UPDATE catalogue.datasets SET expires_at = orrery_now() WHERE name = 'mc.log'")


async def is_open(outside: FaultyCatalogue, name: str) -> bool:
    [found] = (await outside.collections([DataName("mc", name)])).values()
    return found.is_open


@pytest.mark.parametrize("dies_at", [None, "add_files", "close"])
async def test_the_log_of_a_killed_job_is_registered_outside_after_the_end_of_its_task_which_stays_closed(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue, dies_at: str | None
) -> None:
    await a_late_log(database, outside)
    for _ in range(2):
        assert await deliver(database, service, OutputsProduced(job_ids=(1,))) == ()
    if dies_at is not None:
        outside.loses = {dies_at}
        with pytest.raises(asyncio.CancelledError):
            await worker.work_off()
        await due_again(database)
    await work_off(worker)
    assert [one[:2] for one in await has(outside, "mc.log")] == [("log.1", 10)]
    assert await kept(database, "mc.log") == await has(outside, "mc.log")
    assert await has(outside, "mc.output") == [] and await sent(database) == []
    assert not await is_open(outside, "mc.log")
    assert await value_of(database, "SELECT state FROM catalogue.datasets WHERE name = 'mc.log'") == "frozen"


async def test_a_retry_that_opens_the_dataset_of_a_late_log_has_the_last_word(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    await a_late_log(database, outside)
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    async with database.read() as connection:
        await change(connection, "UPDATE catalogue.datasets SET state = 'open' WHERE name = 'mc.log'")
        await connection.execute(
            "INSERT INTO catalogue_requests (vo, task_id, kind, subject, details) SELECT vo, task_id, 'reopen', 'x',"
            ' \'{"datasets": [{"scope": "mc", "name": "mc.log"}]}\' FROM catalogue_requests'
        )
    for _ in range(3):
        await work_off(worker)
        await due_again(database)
    assert len(await has(outside, "mc.log")) == 1 and await is_open(outside, "mc.log")


async def test_a_late_log_of_a_dataset_that_is_about_to_be_deleted_is_not_registered(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    await a_late_log(database, outside, expires=True)
    await deliver(database, service, OutputsProduced(job_ids=(1,)))
    await work_off(worker)
    assert await has(outside, "mc.log") == [] and await kept(database, "mc.log") == []
    assert await value_of(database, "SELECT count(*) FROM catalogue_requests WHERE status <> 'done'") == 0
