"""Steps of tests with a catalogue outside."""

from __future__ import annotations

import httpx

from services.task_definition.data.cataloguing.working import RequestWorker
from services.task_definition.data.importing.files import import_catalogue
from shared.catalogue.outside import DataName, NewCollection
from shared.db import Database
from shared.events import (
    TaskRegistered,
    TransfersRequested,
)
from shared.runtime.service import Service
from tests.catalogues.conformance import files_of
from tests.catalogues.faulty import FaultyCatalogue
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import rows_of, submit, value_of
from tests.handlers.task_definition.test_data import a_holding_job, a_transfer, reported
from tests.handlers.task_definition.world import production, small_catalogue
from tests.rows import change, dataset, file, insert, job, task


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


async def defined(database: Database, service: Service, worker: RequestWorker, client: httpx.AsyncClient) -> int:
    task_id = await registered(database, service, client, production())
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    await work_off(worker)
    return task_id


async def a_job_outside(database: Database, outside: FaultyCatalogue, job_id: int, **report: str) -> None:
    """A holding job of VO demo whose output datasets are registered outside."""
    await a_holding_job(database, job_id, reported(job_id, **report))
    async with database.read() as connection:
        await connection.execute("UPDATE tasks SET vo = 'demo'")
        await connection.execute("UPDATE catalogue.datasets SET vo = 'demo'")
    await outside.create([NewCollection(DataName("mc", "mc.output")), NewCollection(DataName("mc", "mc.log"))])


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
