"""Input for one use goes after it, input for many stays, transient datasets end with their last use."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.data.expiring import Expiring
from services.task_definition.data.wishing import Wishes
from shared.catalogue import BuiltInCatalogue
from shared.config.parameters import Parameters
from shared.db import Database
from shared.events import TaskPrepared, TransfersRequested
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.reading import ready_task
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, value_of
from tests.handlers.task_definition.test_chains import make
from tests.handlers.task_definition.test_data import a_transfer
from tests.handlers.task_definition.world import MERGING, an_input, output, production
from tests.rows import change, dataset, file, insert, job, task

GONE, STAYS = [("ALPHA_DATADISK", True)], [("ALPHA_DATADISK", True), ("GAMMA_DATADISK", False)]


async def brought(
    database: Database, service: Service, task_id: int, *, storage: str = "GAMMA_DATADISK", **attributes: Any
) -> None:
    """The first two files of mc.evnt are moved for jobs of a task, and are there."""
    ids = []
    async with database.read() as connection:
        await task(connection, task_id=task_id)
        dataset_id = await dataset(connection, task_id, dataset_name="mc.evnt", attributes=attributes)
        for number in (1, 2):
            job_id = task_id * 10 + number
            await job(connection, task_id, job_id=job_id, status="assigned")
            lfn = f"EVNT._{number:06d}.root"
            file_id = await file(connection, task_id, dataset_id, lfn=lfn, status="running", scope="mc")
            row = {"job_id": job_id, "file_id": file_id, "dataset_id": dataset_id, "task_id": task_id, "type": "input"}
            await insert(connection, "job_files", row)
    for number in (1, 2):
        where = {"source_storage": "ALPHA_DATADISK", "destination_storage": storage}
        what = {"direction": "input", "activity": "Production Input", "task_id": task_id}
        ids.append(await a_transfer(database, task_id * 10 + number, **what, **where))
    await deliver(database, service, TransfersRequested(transfer_ids=tuple(ids)))
    async with database.read() as connection:
        await change(connection, "UPDATE transfers SET due_at = 'epoch', error = NULL WHERE status = 'active'")
    await run(database, service, "transfers")


async def run(database: Database, service: Service, name: str) -> None:
    """A periodic until there is nothing left."""
    [periodic] = [one for one in service.periodic if one.name == name]
    more: bool | None = True
    while more:
        async with database.begin(reason="test") as work:
            more = await periodic.run(work)


async def ended(database: Database, task_id: int, status: str = "done") -> None:
    async with database.read() as connection:
        await change(connection, "UPDATE tasks SET status = $2 WHERE task_id = $1", task_id, status)
        await change(connection, "UPDATE task_files SET status = 'finished' WHERE task_id = $1", task_id)


async def copies(database: Database) -> list[tuple[str, bool]]:
    found = await rows_of(
        database, "SELECT r.storage, r.complete FROM catalogue.dataset_replicas r JOIN catalogue.datasets d"
                  " USING (dataset_id) WHERE d.name = 'mc.evnt' ORDER BY 1"
    )  # fmt: skip
    return [tuple(row) for row in found]


async def test_input_for_one_use_goes_with_the_end_of_its_task_and_its_source_stays(
    database: Database, service: Service
) -> None:
    await brought(database, service, 900)
    await run(database, service, "expired-data")
    assert await copies(database) == STAYS
    await ended(database, 900)
    await run(database, service, "expired-data")
    assert await copies(database) == GONE
    assert await value_of(database, "SELECT count(*) FROM catalogue.brought_copies") == 0
    count = (
        "SELECT count(*) FROM catalogue.file_replicas JOIN catalogue.files USING (file_id) WHERE storage LIKE 'GAMMA%'"
    )
    assert await value_of(database, count) == 0


@pytest.mark.parametrize("status", ["done", "finished", "failed", "broken", "aborted"])
async def test_however_the_task_ends_its_copies_go(database: Database, service: Service, status: str) -> None:
    await brought(database, service, 900)
    await ended(database, 900, status)
    await run(database, service, "expired-data")
    assert await copies(database) == GONE


async def test_input_that_is_used_many_times_stays_where_it_was_brought(database: Database, service: Service) -> None:
    await brought(database, service, 900, manytime=True)
    await ended(database, 900)
    await run(database, service, "expired-data")
    assert await copies(database) == STAYS


async def test_a_copy_whose_time_is_over_goes_though_its_task_lives(database: Database, service: Service) -> None:
    await brought(database, service, 900)
    seconds = "SELECT round(extract(epoch FROM max(expires_at) - orrery_now()) / 86400) FROM catalogue.brought_copies"
    assert await value_of(database, seconds) == 7
    async with database.read() as connection:
        await change(connection, "UPDATE task_files SET status = 'ready'")
        await change(connection, "UPDATE catalogue.brought_copies SET expires_at = 'epoch'")
    await run(database, service, "expired-data")
    assert await copies(database) == GONE


async def test_a_copy_that_another_task_uses_is_for_that_one_from_then_on(database: Database, service: Service) -> None:
    await brought(database, service, 900)
    async with database.read() as connection:
        await task(connection, task_id=901)
        other = await dataset(connection, 901, dataset_name="mc.evnt")
        await file(connection, 901, other, lfn="EVNT._000001.root", status="running", scope="mc")
    await ended(database, 900)
    await run(database, service, "expired-data")
    kept = await rows_of(database, "SELECT task_id FROM catalogue.brought_copies")
    assert [row["task_id"] for row in kept] == [901]
    assert await copies(database) == STAYS
    await ended(database, 901)
    await run(database, service, "expired-data")
    assert await copies(database) == GONE


async def test_what_was_there_before_stays_and_the_last_copy_is_never_deleted(
    database: Database, service: Service
) -> None:
    async with database.begin(reason="test") as work:
        await BuiltInCatalogue().add_replicas(work.connection, [("mc.evnt", "EVNT._000001.root", "GAMMA_DATADISK")])
    await brought(database, service, 900)
    await brought(database, service, 902, storage="BETA_DATADISK")
    async with database.read() as connection:
        await connection.execute(
            "DELETE FROM catalogue.dataset_replicas r USING catalogue.datasets d"
            " WHERE d.dataset_id = r.dataset_id AND d.name = 'mc.evnt' AND r.storage = 'ALPHA_DATADISK'"
        )
    await ended(database, 900)
    await ended(database, 902)
    await run(database, service, "expired-data")
    left = await rows_of(
        database, "SELECT f.lfn, count(*) AS n_copies FROM catalogue.file_replicas JOIN catalogue.files f"
                  " USING (file_id) WHERE f.lfn LIKE 'EVNT%' GROUP BY f.lfn ORDER BY 1"
    )  # fmt: skip
    assert [tuple(row) for row in left] == [("EVNT._000001.root", 1), ("EVNT._000002.root", 1)]


async def produce_transient(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    """A running task with a transient output, of which one file is registered."""
    made = {**output("passing"), "transient": True}
    task_id = await ready_task(database, service, producer, jobParameters=[an_input(), made])
    await make(database, "mc.passing", "p.1")
    await end_files(database, task_id, finished=20)
    await put(database, task_id, "prepared")
    return task_id


EXPIRES = "SELECT expires_at FROM catalogue.datasets WHERE name = 'mc.passing'"


async def test_a_transient_output_is_deleted_some_days_after_its_task(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await produce_transient(database, service, producer)
    await deliver(database, service, TaskPrepared(task_id=task_id))
    days = "SELECT round(extract(epoch FROM expires_at - orrery_now()) / 86400) FROM catalogue.datasets WHERE name = $1"
    assert await value_of(database, days, "mc.passing") == 7
    assert await value_of(database, days, "mc.read.log") is None
    await run(database, service, "expired-data")
    assert await value_of(database, "SELECT count(*) FROM catalogue.files WHERE lfn = 'p.1'") == 1
    async with database.read() as connection:
        await change(connection, "UPDATE catalogue.datasets SET expires_at = 'epoch' WHERE expires_at IS NOT NULL")
    await run(database, service, "expired-data")
    assert await value_of(database, "SELECT count(*) FROM catalogue.datasets WHERE name = 'mc.passing'") == 0
    assert await value_of(database, "SELECT count(*) FROM catalogue.files WHERE lfn = 'p.1'") == 0
    async with database.read() as connection:
        await change(connection, "UPDATE task_files SET status = 'failed' WHERE lfn = 'EVNT._000001.root'")
    await put(database, task_id, "finished")
    assert (await producer.post("/api/v1/task/retry", json={"task_id": task_id})).json()["success"]
    assert await value_of(database, "SELECT state FROM catalogue.datasets WHERE name = 'mc.passing'") == "open"


async def test_unmerged_files_are_deleted_some_days_after_their_task(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(mergeOutput=True, **MERGING))
    await make(database, "panda.um.mc.simulation", "u.1")
    await make(database, "mc.simulation", "s.1")
    await end_files(database, task_id, finished=20)
    await put(database, task_id, "prepared")
    await deliver(database, service, TaskPrepared(task_id=task_id))
    async with database.read() as connection:
        await change(connection, "UPDATE catalogue.datasets SET expires_at = 'epoch' WHERE expires_at IS NOT NULL")
    await run(database, service, "expired-data")
    kept = await rows_of(database, "SELECT lfn FROM catalogue.files WHERE lfn IN ('u.1', 's.1')")
    assert [row["lfn"] for row in kept] == ["s.1"]


async def test_a_transient_output_lives_until_its_last_reader_has_ended(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await produce_transient(database, service, producer)
    async with database.read() as connection:
        await task(connection, task_id=950, parent_tid=task_id, status="registered")
    await deliver(database, service, TaskPrepared(task_id=task_id))
    assert await value_of(database, EXPIRES) is None  # its child has not read it yet
    async with database.read() as connection:
        await dataset(connection, 950, dataset_name="mc.passing")
        await change(connection, "UPDATE tasks SET status = 'done' WHERE task_id = 950")
    expiring = Expiring(BuiltInCatalogue(), Wishes((), Parameters()), Parameters())
    async with database.begin(reason="test") as work:
        await expiring.note_end(work, 950)
    assert await value_of(database, EXPIRES) is not None


async def test_a_dataset_that_a_new_task_reads_is_kept_longer(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await produce_transient(database, service, producer)
    await deliver(database, service, TaskPrepared(task_id=task_id))
    async with database.read() as connection:
        await task(connection, task_id=950)
        await dataset(connection, 950, dataset_name="mc.passing")
        await change(connection, "UPDATE catalogue.datasets SET expires_at = 'epoch' WHERE name = 'mc.passing'")
    await run(database, service, "expired-data")
    assert await value_of(database, EXPIRES) > await value_of(database, "SELECT orrery_now()")


async def test_a_dataset_whose_new_child_is_not_defined_yet_is_kept_longer(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await produce_transient(database, service, producer)
    await deliver(database, service, TaskPrepared(task_id=task_id))
    async with database.read() as connection:
        await task(connection, task_id=950, parent_tid=task_id, status="pending", old_status="registered")
        await change(connection, "UPDATE catalogue.datasets SET expires_at = 'epoch' WHERE name = 'mc.passing'")
    await run(database, service, "expired-data")
    assert await value_of(database, "SELECT count(*) FROM catalogue.files WHERE lfn = 'p.1'") == 1
    assert await value_of(database, EXPIRES) > await value_of(database, "SELECT orrery_now()")


async def test_a_copy_for_one_use_that_is_wanted_for_more_meanwhile_stays(database: Database, service: Service) -> None:
    await brought(database, service, 900)
    await brought(database, service, 901, manytime=True)
    await ended(database, 900)
    await ended(database, 901)
    await run(database, service, "expired-data")
    assert await copies(database) == STAYS


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (an_input(attributes="transient"), "attribute transient: allowed: with param_type output or log only"),
        ({**output("x"), "attributes": "manytime"}, "attribute manytime: allowed: with param_type input only"),
    ],
)
async def test_an_attribute_is_refused_where_it_means_nothing(
    service: Service, producer: httpx.AsyncClient, item: dict, told: str
) -> None:
    items = [item] if item["param_type"] == "input" else [an_input(), item]
    task = production("wrong", jobParameters=[*items, output("wrong")] if item["param_type"] == "input" else items)
    reply = (await producer.post("/api/v1/task/submit", json={"task_parameters": task})).json()
    assert not reply["success"] and told in reply["message"]
