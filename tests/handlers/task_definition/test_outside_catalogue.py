from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from services.task_definition.app import build
from services.task_definition.cataloguing.working import RequestWorker
from services.task_definition.importing.files import import_catalogue
from shared.auth import Authority
from shared.catalogue import BuiltInOutside
from shared.catalogue.outside import DataName, NewCollection
from shared.db import Database
from shared.events import (
    OutputsProduced,
    OutputsRegistered,
    TaskDefined,
    TaskPrepared,
    TaskRegistered,
    TransfersCompleted,
    TransfersRequested,
)
from shared.runtime.service import Context, Service
from tests.catalogues.conformance import files_of, new_file
from tests.catalogues.faulty import FILES_LIES, FaultyCatalogue
from tests.databases import Databases
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import end_files, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.test_data import a_holding_job, a_transfer, reported
from tests.handlers.task_definition.world import an_input, analysis, output, production, small_catalogue
from tests.rows import change, dataset, file, insert, job, task


@pytest.fixture
async def outside(databases: Databases) -> AsyncIterator[FaultyCatalogue]:
    """The world's data, in the catalogue of another database."""
    url = await databases.lend()
    other = await Database.connect(url, actor="outside")
    async with other.begin(reason="world") as work:
        await import_catalogue(work.connection, small_catalogue())
    yield FaultyCatalogue(BuiltInOutside(other, moves_s=3600))
    await other.close()
    await databases.take_back(url)


@pytest.fixture
async def service(context: Context, database: Database, outside: FaultyCatalogue) -> Service:
    """task_definition whose VO demo has its data outside; its own catalogue is empty."""
    await load_grid(database)
    return await started(build(context, {"demo": outside}))


@pytest.fixture
def worker(service: Service) -> RequestWorker:
    [run] = service.background
    return run.__self__  # type: ignore[attr-defined]


@pytest.fixture
async def producer(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(service, authority, "prodteam", "production") as client:
        yield client


async def due_again(database: Database) -> None:
    async with database.read() as connection:
        await connection.execute("UPDATE catalogue_requests SET next_at = orrery_now()")


async def work_off(worker: RequestWorker) -> None:
    while await worker.work_off():
        pass


async def sent(database: Database) -> list[str]:
    rows = await rows_of(database, "SELECT routing_key FROM outbox ORDER BY event_id")
    return [row["routing_key"] for row in rows if row["routing_key"] != "grid.changed.v1"]


async def registered(database: Database, service: Service, client: httpx.AsyncClient, parameters: dict) -> int:
    task_id = await submit(client, parameters)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    return task_id


async def explained(client: httpx.AsyncClient, task_id: int) -> str:
    """What people are told of a task that waits."""
    return (await client.get(f"/api/v1/explain/task?task_id={task_id}")).json()["data"]["text"]


async def kept(database: Database, name: str) -> list[tuple]:
    rows = await rows_of(
        database,
        "SELECT f.lfn, f.size_bytes, f.n_events, f.checksum, f.guid FROM catalogue.files f"
        " JOIN catalogue.datasets d USING (dataset_id) WHERE d.name = $1 ORDER BY f.lfn",
        name,
    )
    return [tuple(row) for row in rows]


async def has(outside: FaultyCatalogue, name: str) -> list[tuple]:
    files = await files_of(outside, DataName(name.partition(".")[0], name))
    return [(one.name.name, one.size_bytes, one.n_events, one.checksum, one.guid) for one in files]


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


async def test_a_container_comes_with_its_datasets_and_partial_copies_with_their_files(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    task_id = await registered(database, service, producer, analysis())
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
    task_id = await registered(database, service, producer, analysis())
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
    other = await submit(producer, production("elsewhere", [], vo="other", noInput=True, nFiles=2, nFilesPerJob=None))
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
    database: Database, service: Service, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    [run] = service.background
    whole = run.__self__  # type: ignore[attr-defined]
    impatient = RequestWorker(
        database, whole._catalogues, whole._wishes, whole._carry_out, whole._hold, lease_s=0.2
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
    await work_off(whole)
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


async def defined(database: Database, service: Service, worker: RequestWorker, client: httpx.AsyncClient) -> int:
    task_id = await registered(database, service, client, production())
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    await work_off(worker)
    return task_id


async def test_output_datasets_are_registered_outside_with_their_task(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    task_id = await defined(database, service, worker, producer)
    names = [DataName("mc", "mc.simulation"), DataName("mc", "mc.simulation.log")]
    found = await outside.collections(names)
    assert [(found[name].is_open, found[name].metadata["task_id"]) for name in names] == [(True, task_id)] * 2


async def a_job_outside(database: Database, outside: FaultyCatalogue, job_id: int, **report: str) -> None:
    """A holding job of VO demo whose output datasets are registered outside."""
    await a_holding_job(database, job_id, reported(job_id, **report))
    async with database.read() as connection:
        await connection.execute("UPDATE tasks SET vo = 'demo'")
        await connection.execute("UPDATE catalogue.datasets SET vo = 'demo'")
    await outside.create([NewCollection(DataName("mc", "mc.output")), NewCollection(DataName("mc", "mc.log"))])


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


async def moving(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue, *, priority: int = 500,
    **attributes: bool,
) -> tuple[list[int], str]:  # fmt: skip
    """Two assigned jobs of VO demo whose input is on its way; the transfers, and the rule."""
    async with database.read() as connection:
        task_id = await task(connection, task_id=900, vo="demo", current_priority=priority)
        dataset_id = await dataset(connection, task_id, type="input", dataset_name="mc.evnt", attributes=attributes)
        ids = []
        for job_id in (1, 2):
            await job(connection, task_id, job_id=job_id, status="assigned")
            lfn = f"EVNT._{job_id:06d}.root"
            file_id = await file(connection, task_id, dataset_id, lfn=lfn, type="input", status="running", scope="mc")
            row = {"job_id": job_id, "file_id": file_id, "dataset_id": dataset_id, "task_id": task_id, "type": "input"}
            await insert(connection, "job_files", row)
    for job_id in (1, 2):
        where = {"source_storage": "ALPHA_DATADISK", "destination_storage": "GAMMA_DATADISK"}
        ids.append(
            await a_transfer(database, job_id, task_id=900, direction="input", activity="Production Input", **where)
        )
    await deliver(database, service, TransfersRequested(transfer_ids=tuple(ids)))
    await worker.work_off()
    rule_id = await value_of(database, "SELECT rule_id FROM catalogue_requests WHERE kind = 'move'")
    return ids, rule_id


async def let_arrive(outside: FaultyCatalogue, rule_id: str) -> None:
    async with outside._inner._database.read() as connection:
        await change(connection, "UPDATE catalogue.rules SET created_at = 'epoch' WHERE rule_id = $1", int(rule_id))


async def test_transfers_of_several_jobs_are_one_rule_and_end_when_its_message_comes(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    ids, rule_id = await moving(database, service, worker, outside)
    assert await worker.work_off() == 0
    states = await rows_of(database, "SELECT status, due_at FROM transfers")
    assert [tuple(row) for row in states] == [("active", None)] * 2
    told = (await producer.get("/api/v1/explain/job?job_id=1")).json()["data"]["text"]
    assert f"rule {rule_id}" in told
    message = {"event_type": "rule-ok", "payload": {"rule_id": rule_id, "scope": "orrery", "name": "x"}}
    # a message that comes too early, or lies, ends nothing: the rule is looked at
    reply = (await producer.post("/api/v1/catalogue/messages", json=message)).json()
    assert reply["data"]["waited_for"] == 1
    await work_off(worker)
    assert "transfers.completed.v1" not in await sent(database)
    await let_arrive(outside, rule_id)
    await producer.post("/api/v1/catalogue/messages", json=[message, {"event_type": "other", "payload": {}}])
    await work_off(worker)
    body = await value_of(database, "SELECT body FROM outbox WHERE routing_key = 'transfers.completed.v1'")
    completed = TransfersCompleted.model_validate_json(body)
    assert (completed.transfer_ids, completed.job_ids, completed.failed_job_ids) == (tuple(ids), (1, 2), ())
    await producer.post("/api/v1/catalogue/messages", json=message)
    await due_again(database)
    assert await worker.work_off() == 0


async def test_a_lost_message_costs_an_hour(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    _, rule_id = await moving(database, service, worker, outside)
    await let_arrive(outside, rule_id)
    wait = await value_of(
        database, "SELECT extract(epoch FROM next_at - orrery_now())::int FROM catalogue_requests WHERE kind = 'move'"
    )
    assert 3500 < wait <= 3600
    await due_again(database)
    await work_off(worker)
    assert "transfers.completed.v1" in await sent(database)


@pytest.mark.parametrize(("priority", "arrived"), [(801, (1,)), (800, None)])
async def test_files_of_jobs_above_priority_800_are_looked_up_one_by_one(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue,
    priority: int, arrived: tuple | None,
) -> None:  # fmt: skip
    await moving(database, service, worker, outside, priority=priority)
    async with outside._inner._database.begin(reason="one file is faster") as work:
        await outside._inner._inside.add_replicas(work.connection, [("mc.evnt", "EVNT._000001.root", "GAMMA_DATADISK")])
    await due_again(database)
    await worker.work_off()
    body = await value_of(database, "SELECT body FROM outbox WHERE routing_key = 'transfers.completed.v1'")
    assert (None if body is None else TransfersCompleted.model_validate_json(body).job_ids) == arrived


async def test_a_rule_that_is_gone_fails_its_jobs_with_the_reason(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    _, rule_id = await moving(database, service, worker, outside)
    await outside.cancel(rule_id)
    await due_again(database)
    await work_off(worker)
    body = await value_of(database, "SELECT body FROM outbox WHERE routing_key = 'transfers.completed.v1'")
    assert TransfersCompleted.model_validate_json(body).failed_job_ids == (1, 2)
    assert "there is no such rule" in await value_of(database, "SELECT DISTINCT error FROM transfers")


async def test_a_rule_that_no_job_waits_for_is_cancelled(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    _, rule_id = await moving(database, service, worker, outside)
    async with database.read() as connection:
        await change(connection, "UPDATE jobs SET status = 'closed'")
    await due_again(database)
    await work_off(worker)
    assert (await outside.look_at([rule_id]))[rule_id].outcome == "gone"
    assert await value_of(database, "SELECT DISTINCT status FROM transfers") == "failed"


async def test_a_rule_of_which_a_job_uses_a_file_is_not_cancelled_with_the_jobs_that_wait_for_others(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    async with database.begin(reason="test") as work:
        await import_catalogue(work.connection, small_catalogue())
    _, rule_id = await moving(database, service, worker, outside, priority=801)
    async with outside._inner._database.begin(reason="one file is faster") as work:
        await outside._inner._inside.add_replicas(work.connection, [("mc.evnt", "EVNT._000001.root", "GAMMA_DATADISK")])
    await due_again(database)
    await worker.work_off()
    async with database.read() as connection:
        await change(connection, "UPDATE jobs SET status = 'running' WHERE job_id = 1")
        await change(connection, "UPDATE jobs SET status = 'closed' WHERE job_id = 2")
    await due_again(database)
    await work_off(worker)
    assert (await outside.look_at([rule_id]))[rule_id].outcome == "moving"
    ended = await rows_of(database, "SELECT job_id, status FROM transfers ORDER BY job_id")
    assert [tuple(row) for row in ended] == [(1, "done"), (2, "failed")]
    async with database.read() as connection:
        await change(connection, "UPDATE tasks SET status = 'done' WHERE task_id = 900")
        await change(connection, "UPDATE task_files SET status = 'finished'")
    await expire(database, service)
    await work_off(worker)
    assert (await outside.look_at([rule_id]))[rule_id].outcome == "gone"


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"event_type": "rule-ok"}, "0.payload"),
        ([{"event_type": "rule-ok", "payload": {}}, {"payload": {}}], "1.event_type"),
        ([], "messages"),
    ],
)
async def test_what_is_no_message_is_refused_with_its_field(
    producer: httpx.AsyncClient, content: object, field: str
) -> None:
    reply = (await producer.post("/api/v1/catalogue/messages", json=content)).json()
    assert not reply["success"] and field in reply["message"]


async def test_messages_are_taken_from_production_only(
    database: Database, service: Service, authority: Authority
) -> None:
    async with client_of(service, authority, "alice", "user") as client:
        reply = await client.post("/api/v1/catalogue/messages", json={"event_type": "rule-ok", "payload": {}})
    assert not reply.json()["success"]


async def expire(database: Database, service: Service) -> None:
    [periodic] = [one for one in service.periodic if one.name == "expired-data"]
    async with database.begin(reason="test") as work:
        await periodic.run(work)


async def brought(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue, **attributes: bool
) -> str:
    """Input of task 900 was read, and brought by a rule: its id; the task has ended."""
    async with database.begin(reason="test") as work:
        await import_catalogue(work.connection, small_catalogue())
    _, rule_id = await moving(database, service, worker, outside, **attributes)
    await let_arrive(outside, rule_id)
    await due_again(database)
    await work_off(worker)
    await expire(database, service)
    async with database.read() as connection:
        await change(connection, "UPDATE tasks SET status = 'done' WHERE task_id = 900")
        await change(connection, "UPDATE task_files SET status = 'finished'")
    return rule_id


AT_GAMMA = "SELECT count(*) FROM catalogue.file_replicas WHERE storage = 'GAMMA_DATADISK'"


async def test_the_rule_of_input_for_one_use_has_a_lifetime_and_is_cancelled_after_use(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    rule_id = await brought(database, service, worker, outside)
    days = "SELECT round(extract(epoch FROM expires_at - created_at) / 86400) FROM catalogue.rules"
    assert await value_of(outside._inner._database, days.replace("created_at", "orrery_now()")) == 7
    assert (await outside.look_at([rule_id]))[rule_id].outcome == "done"
    assert await value_of(database, AT_GAMMA) == 2
    await expire(database, service)
    assert await value_of(database, AT_GAMMA) == 0
    await work_off(worker)
    assert (await outside.look_at([rule_id]))[rule_id].outcome == "gone"
    assert await value_of(database, "SELECT count(*) FROM catalogue_requests WHERE status IN ('open', 'moving')") == 0


async def test_a_rule_that_brought_what_is_the_last_copy_now_is_not_cancelled(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    rule_id = await brought(database, service, worker, outside)
    async with database.read() as connection:
        await change(connection, "DELETE FROM catalogue.dataset_replicas WHERE storage = 'ALPHA_DATADISK'")
        await change(connection, "DELETE FROM catalogue.file_replicas WHERE storage <> 'GAMMA_DATADISK'")
    await expire(database, service)
    await work_off(worker)
    assert await value_of(database, AT_GAMMA) == 2
    assert (await outside.look_at([rule_id]))[rule_id].outcome == "done"


async def test_input_that_is_used_many_times_gets_a_rule_of_its_whole_dataset_without_a_lifetime(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue
) -> None:
    await brought(database, service, worker, outside, manytime=True)
    await expire(database, service)
    await work_off(worker)
    assert await value_of(database, AT_GAMMA) == 2
    rules = await rows_of(
        outside._inner._database,
        "SELECT d.name LIKE 'orrery.transfer.%' AS is_transfer, r.storage, r.expires_at IS NULL AS stays, r.comment"
        " FROM catalogue.rules r JOIN catalogue.datasets d USING (dataset_id) ORDER BY 1",
    )
    assert [tuple(row) for row in rules] == [
        (False, "GAMMA_DATADISK", True, "input of task 900, used many times"),
        (True, "GAMMA_DATADISK", False, "input of jobs of task 900"),
    ]


async def test_a_transient_output_is_closed_gets_a_lifetime_and_no_rule_and_loses_it_when_its_task_goes_on(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    made = {**output("passing"), "transient": True}
    task_id = await registered(database, service, producer, production(jobParameters=[an_input(), made]))
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    await work_off(worker)
    await end_files(database, task_id, finished=19, failed=1)
    await put(database, task_id, "prepared", nucleus="ALPHA")
    await deliver(database, service, TaskPrepared(task_id=task_id))
    await work_off(worker)
    name = DataName("mc", "mc.passing")
    found = (await outside.collections([name]))[name]
    assert (found.is_open, found.metadata["lifetime_s"]) == (False, 7 * 86400)
    kept = await rows_of(
        outside._inner._database, "SELECT d.name FROM catalogue.rules JOIN catalogue.datasets d USING (dataset_id)"
    )
    assert [row["name"] for row in kept] == ["mc.simulation.log"]
    assert (await producer.post("/api/v1/task/retry", json={"task_id": task_id})).json()["success"]
    await work_off(worker)
    found = (await outside.collections([name]))[name]
    assert (found.is_open, found.metadata["lifetime_s"]) == (True, None)


async def test_a_transient_output_that_is_read_again_outside_stays_until_that_reader_has_ended(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    made = {**output("passing"), "transient": True}
    task_id = await registered(database, service, producer, production(jobParameters=[an_input(), made]))
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    await end_files(database, task_id, finished=20)
    await put(database, task_id, "prepared", nucleus="ALPHA")
    await deliver(database, service, TaskPrepared(task_id=task_id))
    await work_off(worker)
    name = DataName("mc", "mc.passing")
    lifetimes = [(await outside.collections([name]))[name].metadata["lifetime_s"]]
    async with database.read() as connection:
        await task(connection, task_id=task_id + 1, vo="demo", status="prepared")
        await dataset(connection, task_id + 1, dataset_name="mc.passing", vo="demo")
    await expire(database, service)
    await work_off(worker)
    lifetimes.append((await outside.collections([name]))[name].metadata["lifetime_s"])
    await deliver(database, service, TaskPrepared(task_id=task_id + 1))
    await work_off(worker)
    lifetimes.append((await outside.collections([name]))[name].metadata["lifetime_s"])
    assert lifetimes == [7 * 86400, None, 7 * 86400]


async def test_what_is_not_registered_outside_yet_is_not_forgotten_by_who_reads_it(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient
) -> None:
    task_id = await registered(database, service, producer, production())
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    async with database.read() as connection:
        await change(connection, "UPDATE catalogue_requests SET next_at = 'infinity' WHERE kind = 'create'")
        row = {"vo": "demo", "task_id": task_id, "kind": "read", "subject": "mc.simulation", "details": {}}
        await insert(connection, "catalogue_requests", row)
    await work_off(worker)
    assert await value_of(database, "SELECT count(*) FROM catalogue.datasets WHERE name = 'mc.simulation'") == 1
    reason = "SELECT reason FROM catalogue_requests WHERE subject = 'mc.simulation' AND status = 'open'"
    assert "not registered yet" in await value_of(database, reason)
    await due_again(database)
    await work_off(worker)
    assert await value_of(database, "SELECT count(*) FROM catalogue_requests WHERE status = 'open'") == 0
    assert await value_of(database, "SELECT count(*) FROM catalogue.datasets WHERE name = 'mc.simulation'") == 1
