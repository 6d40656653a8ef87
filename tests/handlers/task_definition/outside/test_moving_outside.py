"""Transfers are rules of a catalogue outside, whose messages may be lost."""

from __future__ import annotations

import httpx
import pytest

from services.task_definition.data.cataloguing.working import RequestWorker
from services.task_definition.data.importing.files import import_catalogue
from shared.auth import Authority
from shared.db import Database
from shared.events import (
    TransfersCompleted,
)
from shared.runtime.service import Service
from tests.catalogues.faulty import FaultyCatalogue
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.outside.steps import (
    due_again,
    expire,
    let_arrive,
    moving,
    sent,
    work_off,
)
from tests.handlers.task_definition.steps import rows_of, value_of
from tests.handlers.task_definition.world import small_catalogue
from tests.rows import change


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
