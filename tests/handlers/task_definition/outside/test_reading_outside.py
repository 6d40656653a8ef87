"""Input is read from a catalogue outside, which may be down, slow, or lie."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from services.task_definition.data.cataloguing.working import RequestWorker
from services.task_definition.data.importing.files import import_catalogue
from services.task_definition.tasks.defining import reading_outside
from services.task_definition.tasks.policy import refine
from shared.auth import Authority
from shared.catalogue import built_in
from shared.catalogue.outside import DataName, NewCollection
from shared.db import Database
from shared.events import (
    TaskDefined,
    TaskRegistered,
)
from shared.runtime.service import Service
from tests.catalogues.conformance import new_file
from tests.catalogues.faulty import FILES_LIES, FaultyCatalogue
from tests.handlers.events import deliver
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.outside.steps import (
    due_again,
    explained,
    has,
    kept,
    registered,
    sent,
    work_off,
)
from tests.handlers.task_definition.steps import put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import an_input, analysis, production, small_catalogue
from tests.rows import change


async def test_a_task_waits_until_its_input_was_read_and_is_defined_with_it(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    task_id = await registered(database, service, producer, production())
    assert (await task_row(database, task_id))["status"] == "registered"
    assert "the catalogue of demo is to read mc.evnt" in await explained(producer, task_id)
    await work_off(worker)
    assert "task.registered.v1" in await sent(database)
    assert await deliver(database, service, TaskRegistered(task_id=task_id)) == (TaskDefined(task_id=task_id),)
    assert await kept(database, "mc.evnt") == await has(outside, "mc.evnt") != []
    copies = await rows_of(
        database, "SELECT storage, n_files, complete FROM catalogue.dataset_replicas ORDER BY storage"
    )
    assert [tuple(one) for one in copies] == [("ALPHA_DATADISK", 20, True)]
    assert await value_of(database, "SELECT n_files FROM task_datasets WHERE dataset_name = 'mc.evnt'") == 20


async def test_a_name_with_wildcards_is_read_as_the_datasets_that_the_catalogue_lists(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    listed = [one.name for one in await outside.matching(DataName("mc", "mc.*"), 9)]
    assert len(listed) > 1
    task_id = await registered(database, service, producer, production(inputs=[an_input("mc.*")]))
    assert "the catalogue of demo is to read mc.*" in await explained(producer, task_id)
    async with database.begin(reason="read before") as work:
        await work.connection.execute(
            "INSERT INTO catalogue.datasets (scope, name, kind, vo) VALUES ('mc', 'mc.z', 'dataset', 'demo')"
        )
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    rows = await rows_of(database, "SELECT dataset_name FROM task_datasets WHERE type = 'input' ORDER BY dataset_name")
    assert [row["dataset_name"] for row in rows] == listed, "mc.z was kept, and is gone from the catalogue"
    for name in listed:
        assert await kept(database, name) == await has(outside, name)


async def test_the_latest_database_release_is_the_last_that_the_catalogue_lists(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    releases = [DataName("ddo", f"ddo.000001.Atlas.Ideal.DBRelease.v{number}") for number in ("31", "05")]
    for name in releases:
        await outside.create([NewCollection(name)])
        await outside.add_files(name, [new_file(7, "ALPHA_DATADISK")])
    inputs = [an_input(), an_input("DBR_LATEST", "DBR", attributes="nosplit,repeat")]
    task_id = await registered(database, service, producer, production(inputs=inputs))
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    name = await value_of(database, "SELECT dataset_name FROM task_datasets WHERE stream_name = 'DBR'")
    assert name == releases[0].name


async def test_a_name_that_stands_for_too_many_datasets_is_refused(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for module in (reading_outside, refine, built_in):
        monkeypatch.setattr(module, "MOST_STOOD_FOR", 1)
    task_id = await registered(database, service, producer, production(inputs=[an_input("mc.*")]))
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    assert (row["status"], row["error_dialog"]) == ("broken", "mc.* stands for more than 1 datasets")


@pytest.mark.parametrize("name", ["m*", "user.*"])
async def test_a_name_with_wildcards_needs_the_scope_in_which_it_is_looked_for(
    database: Database, service: Service, producer: httpx.AsyncClient, name: str
) -> None:
    task_id = await registered(database, service, producer, production(inputs=[an_input(name)]))
    row = await task_row(database, task_id)
    assert row["status"] == "broken"
    told = f"{name}: the data of demo is in a catalogue that is asked for the datasets of one scope: begin the name"
    assert row["error_dialog"].startswith(told)


async def test_a_container_comes_with_its_datasets_and_partial_copies_with_their_files(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    task_id = await registered(database, service, producer, analysis("user.alice-demo.histograms", userName="alice"))
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    assert (await task_row(database, task_id))["status"] == "ready"
    for name in ("data.a", "data.b"):
        assert await kept(database, name) == await has(outside, name) != []
    partly = await rows_of(
        database,
        "SELECT f.lfn FROM catalogue.file_replicas r JOIN catalogue.files f USING (file_id)"
        " WHERE r.storage = 'BETA_DATADISK' ORDER BY f.lfn",
    )
    assert len(partly) == 3


async def test_reading_again_writes_nothing_that_did_not_change_and_takes_out_what_is_gone(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    task_id = await registered(database, service, producer, production())
    await work_off(worker)
    rows = "SELECT f.xmin::text, f.lfn FROM catalogue.files f ORDER BY f.lfn"
    before = [tuple(row) for row in await rows_of(database, rows)]
    async with database.read() as connection:
        await connection.execute("UPDATE catalogue_requests SET done_at = done_at - interval '1 hour'")
    await deliver(database, service, TaskRegistered(task_id=task_id))
    await work_off(worker)
    assert [tuple(row) for row in await rows_of(database, rows)] == before
    async with database.read() as connection:
        await connection.execute("UPDATE catalogue_requests SET done_at = done_at - interval '1 hour'")
    name = DataName("mc", "mc.evnt")
    await outside.reopen([name])
    await outside.remove_files(name, [DataName("mc", "EVNT._000001.root")])
    await outside.add_files(name, [new_file(99, "ALPHA_DATADISK")])
    await deliver(database, service, TaskRegistered(task_id=task_id))
    await work_off(worker)
    assert await kept(database, "mc.evnt") == await has(outside, "mc.evnt")
    assert len(await kept(database, "mc.evnt")) == 20
    found = await rows_of(database, "SELECT state, n_files FROM catalogue.datasets WHERE name = 'mc.evnt'")
    assert [tuple(one) for one in found] == [("open", 20)]


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ("a file twice", "EVNT._000001.root twice"),
        ("a file twice, far apart", "EVNT._000001.root twice"),
        ("a negative size", "-1 bytes"),
        ("a size that is no number", "'many' bytes"),
        ("a file without a name", "without a name"),
        ("negative events", "-5 events"),
        ("a negative number of files", "-3 files"),
        ("a negative number of bytes of a copy", "-1 bytes at ALPHA_DATADISK"),
        ("a copy with more files than there are", "has 25 files at ALPHA_DATADISK, and 20 in all"),
        ("a copy of files that do not exist", "has 20 files at ALPHA_DATADISK, of which 0 exist"),
    ],
)
async def test_a_catalogue_that_lies_holds_the_task_with_the_reason_and_the_task_goes_on_when_it_does_not(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient,
    outside: FaultyCatalogue, lie: str, told: str,
) -> None:  # fmt: skip
    outside.lie = lie
    task_id = await registered(database, service, producer, production())
    await work_off(worker)
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"]) == ("pending", "registered")
    assert told in row["error_dialog"]
    assert told in await explained(producer, task_id)
    outside.lie = None
    await due_again(database)
    await work_off(worker)
    assert (await task_row(database, task_id))["retry_at"] <= await value_of(database, "SELECT orrery_now()")
    await put(database, task_id, "registered")
    assert TaskDefined(task_id=task_id) in await deliver(database, service, TaskRegistered(task_id=task_id))


def test_every_lie_about_files_is_tried() -> None:
    marks = test_a_catalogue_that_lies_holds_the_task_with_the_reason_and_the_task_goes_on_when_it_does_not.pytestmark
    assert FILES_LIES.keys() <= {lie for mark in marks for lie, _ in mark.args[1]}


async def test_a_container_in_itself_holds_the_task(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    outside.lie = "a container in itself"
    task_id = await registered(database, service, producer, analysis("user.alice-demo.histograms", userName="alice"))
    await work_off(worker)
    row = await task_row(database, task_id)
    assert row["status"] == "pending" and "container data:data.all is in itself" in row["error_dialog"]
    assert "container data:data.all is in itself" in await explained(producer, task_id)


async def test_a_catalogue_that_is_down_holds_its_tasks_only_and_is_asked_again_ever_later(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    outside.is_down = True
    task_id = await registered(database, service, producer, production())
    waits = []
    for _ in range(3):
        await work_off(worker)
        waits.append(
            await value_of(database, "SELECT extract(epoch FROM next_at - orrery_now())::float FROM catalogue_requests")
        )
        await due_again(database)
    assert waits == sorted(waits) and waits[0] > 3 and waits[2] > 15
    row = await task_row(database, task_id)
    assert row["status"] == "pending" and "cannot be reached" in row["error_dialog"]
    assert "cannot be reached" in await explained(producer, task_id)
    elsewhere = production("elsewhere", [], vo="other", noInput=True, nFiles=2, nFilesPerJob=None)
    elsewhere["jobParameters"][0]["dataset"], elsewhere["log"]["dataset"] = "mc2.elsewhere", "mc2.log"
    async with database.pool.acquire() as connection:
        known = "INSERT INTO catalogue.scopes (scope, vo, claimed_by) VALUES ('mc2', 'other', 'operator')"
        await connection.execute(known)
    other = await submit(producer, elsewhere)
    assert TaskDefined(task_id=other) in await deliver(database, service, TaskRegistered(task_id=other))
    [request] = (await producer.get("/api/v1/catalogue/requests")).json()["data"]
    assert request["task_id"] == task_id and "cannot be reached" in request["text"]


async def test_a_catalogue_that_does_not_answer_keeps_no_transaction_open_and_no_row_locked(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    outside.hangs = asyncio.Event()
    task_id = await registered(database, service, producer, production())
    running = asyncio.create_task(worker.work_off())
    await outside.is_hanging.wait()
    open_ = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in trans%'"
    assert await value_of(database, open_) == 0
    async with database.read() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM catalogue_requests FOR UPDATE NOWAIT")
        await connection.execute("SELECT 1 FROM tasks FOR UPDATE NOWAIT")
    outside.hangs.set()
    await running
    assert await value_of(database, "SELECT status FROM catalogue_requests") == "done"
    assert (await task_row(database, task_id))["status"] == "registered"


async def test_a_catalogue_that_is_too_slow_is_given_up_and_holds_its_task_with_the_reason(
    database: Database,
    service: Service,
    worker: RequestWorker,
    producer: httpx.AsyncClient,
    outside: FaultyCatalogue,
) -> None:
    impatient = RequestWorker(
        database, worker._catalogues, worker._wishes, worker._carry_out, worker._hold, lease_s=0.2
    )  # fmt: skip
    outside.hangs = asyncio.Event()
    task_id = await registered(database, service, producer, production())
    assert await impatient.work_off() == 1
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"]) == ("pending", "registered")
    assert row["error_dialog"] == "the catalogue of demo: the catalogue took too long"
    assert "the catalogue took too long" in await explained(producer, task_id)
    outside.hangs = None
    await due_again(database)
    await work_off(worker)
    await put(database, task_id, "registered")
    assert TaskDefined(task_id=task_id) in await deliver(database, service, TaskRegistered(task_id=task_id))


async def test_copies_at_storages_that_the_grid_does_not_have_are_none(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    async with outside._inner._database.read() as connection:
        await connection.execute(
            "UPDATE catalogue.dataset_replicas SET storage = 'ATLANTIS_DATADISK' WHERE storage = 'ALPHA_DATADISK'"
        )
    task_id = await registered(database, service, producer, production())
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    assert row["status"] == "pending"
    assert row["error_dialog"] == "none of 20 units of input can be used: 20 missing"
    assert row["error_dialog"] in await explained(producer, task_id)


async def test_input_that_the_catalogue_does_not_know_ends_the_task_as_it_would_inside(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient
) -> None:
    task_id = await registered(database, service, producer, production("lost", [an_input("mc.nothing")]))
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    assert row["status"] == "broken" and "unknown to the catalogue: mc.nothing" in row["error_dialog"]


async def test_a_name_that_another_vo_has_is_not_overwritten(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient
) -> None:
    async with database.begin(reason="test") as work:
        await import_catalogue(work.connection, small_catalogue())
        await change(work.connection, "UPDATE catalogue.files SET size_bytes = 7")
    task_id = await registered(database, service, producer, production())
    await work_off(worker)
    row = await task_row(database, task_id)
    assert row["status"] == "pending" and "taken by a dataset of the built-in catalogue" in row["error_dialog"]
    assert await value_of(database, "SELECT DISTINCT size_bytes FROM catalogue.files") == 7


async def test_a_name_in_the_scope_of_another_vo_is_not_taken_by_what_a_catalogue_outside_has(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient
) -> None:
    async with database.begin(reason="test") as work:
        await change(
            work.connection, "INSERT INTO catalogue.scopes (scope, vo, claimed_by) VALUES ('mc', 'atlas', 'prod')"
        )
    parameters = production()
    parameters["jobParameters"][-1]["dataset"], parameters["log"]["dataset"] = "sim.out", "sim.log"
    task_id = await registered(database, service, producer, parameters)
    await work_off(worker)
    row = await task_row(database, task_id)
    assert row["status"] == "pending"
    assert "the scope of the name mc.evnt belongs to another VO" in row["error_dialog"]
    assert await value_of(database, "SELECT count(*) FROM catalogue.datasets WHERE name = 'mc.evnt'") == 0


async def test_requests_are_told_to_members_of_the_vo_and_messages_taken_from_its_production(
    database: Database,
    service: Service,
    producer: httpx.AsyncClient,
    authority: Authority,
) -> None:
    task_id = await registered(database, service, producer, production())
    async with database.begin(reason="test") as work:
        await change(work.connection, "UPDATE catalogue_requests SET rule_id = 'r1', status = 'moving'")
    message = {"event_type": "rule_ok", "payload": {"rule_id": "r1"}}
    for vo, known in (("cms", 0), ("demo", 1)):
        async with client_of(service, authority, "prod", "production", groups=[f"{vo}/production"]) as client:
            for query in ({}, {"vo": "demo"}):
                told = (await client.get("/api/v1/catalogue/requests", params=query)).json()["data"]
                assert [one["task_id"] for one in told] == [task_id] * known
            reply = (await client.post("/api/v1/catalogue/messages", json=message)).json()
            assert reply["data"]["waited_for"] == known
