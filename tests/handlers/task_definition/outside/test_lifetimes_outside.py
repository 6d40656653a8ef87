"""What was brought or made for a time is deleted by rules and lifetimes outside."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from services.task_definition.data.cataloguing.working import RequestWorker
from shared.catalogue.outside import DataName, NewCollection
from shared.db import Database
from shared.events import (
    TaskPrepared,
    TaskRegistered,
)
from shared.runtime.service import Service
from tests.catalogues.faulty import FaultyCatalogue
from tests.handlers.events import deliver
from tests.handlers.task_definition.outside.steps import (
    AT_GAMMA,
    brought,
    due_again,
    expire,
    registered,
    work_off,
)
from tests.handlers.task_definition.steps import end_files, put, rows_of, value_of
from tests.handlers.task_definition.world import an_input, output, production
from tests.rows import change, dataset, insert, task


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


async def test_outputs_of_an_intermediate_task_are_kept_by_no_rule(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    rules = "SELECT count(*) FROM catalogue.rules"
    for intermediate, n_rules in ((True, 0), (None, 2)):
        name = f"step.{n_rules}"
        task_id = await registered(database, service, producer, production(name, intermediateTask=intermediate))
        await work_off(worker)
        await deliver(database, service, TaskRegistered(task_id=task_id))
        await work_off(worker)
        await end_files(database, task_id, finished=20)
        await put(database, task_id, "prepared", nucleus="ALPHA")
        await deliver(database, service, TaskPrepared(task_id=task_id))
        await work_off(worker)
        found = (await outside.collections([DataName("mc", f"mc.{name}")]))[DataName("mc", f"mc.{name}")]
        assert not found.is_open and await value_of(outside._inner._database, rules) == n_rules


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


@pytest.mark.parametrize(
    ("kind", "details"),
    [
        ("release", {"rule_id": "1"}),
        ("expire", {"datasets": [{"scope": "mc", "name": "mc.x"}], "lifetime_s": 5}),
        ("remove_files", {"scope": "mc", "lfns": ["x.1"]}),
    ],
)
async def test_a_deletion_that_fails_is_tried_ever_later_counted_and_shown_until_it_is_done(
    database: Database,
    service: Service,
    worker: RequestWorker,
    producer: httpx.AsyncClient,
    outside: FaultyCatalogue,
    kind: str,
    details: dict[str, Any],
) -> None:
    row = {"vo": "demo", "task_id": 900, "kind": kind, "subject": "mc.x", "details": details}
    async with database.read() as connection:
        await insert(connection, "catalogue_requests", row)
    outside.is_down = True
    wait = "SELECT round(extract(epoch FROM next_at - orrery_now())) FROM catalogue_requests"
    waits = []
    for attempts in range(1, 9):
        await due_again(database)
        assert await worker.work_off() == 1
        waits.append(int(await value_of(database, wait)))
        [shown] = (await producer.get("/api/v1/catalogue/requests")).json()["data"]
        assert (shown["kind"], shown["status"], shown["attempts"]) == (kind, "open", attempts)
        assert f"tried {attempts} times: http://catalogue cannot be reached" in shown["text"]
    assert waits == [5, 10, 20, 40, 80, 160, 320, 600]
    outside.is_down = False
    await outside.create([NewCollection(DataName("mc", "mc.x"))])
    await due_again(database)
    await work_off(worker)
    assert (await producer.get("/api/v1/catalogue/requests")).json()["data"] == []


async def test_what_is_wanted_of_a_catalogue_is_told_in_words_whatever_it_is(
    database: Database, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> None:
    allowed = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'catalogue_requests_kind_check'"
    kinds = re.findall(r"'(\w+)'", await value_of(database, allowed))
    assert {"stage", "release", "expire"} <= set(kinds)
    async with database.read() as connection:
        for number, kind in enumerate(kinds):
            row = {"vo": "demo", "task_id": number + 1, "kind": kind, "subject": f"thing {number}", "details": {}}
            await insert(connection, "catalogue_requests", row)
    shown = (await producer.get("/api/v1/catalogue/requests")).json()["data"]
    assert [one["kind"] for one in shown] == kinds
    assert all("the catalogue of demo is to " in one["text"] and one["subject"] in one["text"] for one in shown)
