"""What operators ask the watchdog, and who may."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from services.watchdog.app import build
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context
from tests import rows
from tests.applications import application_of


@pytest.fixture
async def client(context: Context, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    web = application_of(build(context), authority)
    token = authority.issue("olga", ["operator"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=web),
        base_url="http://watchdog",
        headers={"Authorization": f"Bearer {token}"},
    ) as client:
        yield client


@pytest.mark.parametrize("path", ["/api/v1/check", "/api/v1/bus/parked", "/api/v1/audit", "/api/v1/condition"])
async def test_only_operators_may_ask(client: httpx.AsyncClient, authority: Authority, path: str) -> None:
    user = {"Authorization": f"Bearer {authority.issue('ulla', ['user'])}"}
    assert (await client.get(path, headers=user)).status_code == 403
    assert (await client.get(path, headers={"Authorization": "Bearer nonsense"})).status_code == 401
    assert (await client.get(path)).json()["success"] is True


async def test_check_names_the_row_that_breaks_an_invariant(client: httpx.AsyncClient, database: Database) -> None:
    answer = (await client.get("/api/v1/check")).json()
    assert answer["message"] == "no invariant is broken" and answer["data"]["violations"] == []
    async with database.read() as connection:
        task = await rows.task(connection)
        data = await rows.dataset(connection, task, n_files=1, n_files_to_be_used=1)
        file = await rows.file(connection, task, data, status="picked")
    answer = (await client.get("/api/v1/check", params={"task_id": task})).json()["data"]
    picked = next(one for one in answer["violations"] if one["check"] == "i2_picked_without_chunk")
    assert (picked["task_id"], picked["entity"], picked["entity_id"]) == (task, "file", file)
    assert {one["invariant"]: one["ok"] for one in answer["invariants"]}["I2"] is False


async def test_parked_messages_are_shown_replayed_once_and_audited(
    client: httpx.AsyncClient, database: Database
) -> None:
    async with database.read() as connection:
        parked_id = await connection.fetchval(
            "INSERT INTO parked_messages (event_id, consumer, routing_key, body, reason)"
            " VALUES (7, 'job-generation.task-ready', 'task.ready.v1', '{\"event_id\":7,\"task_id\":1}', 'poison')"
            " RETURNING parked_id"
        )
    (row,) = (await client.get("/api/v1/bus/parked")).json()["data"]
    assert (row["parked_id"], row["reason"]) == (parked_id, "poison")
    answer = (await client.post("/api/v1/bus/replay", json={"parked_ids": [parked_id]})).json()
    assert answer["success"] is True and answer["data"]["replayed"] == [parked_id]
    again = (await client.post("/api/v1/bus/replay", json={"parked_ids": [parked_id, 999]})).json()
    assert again["success"] is False and "999" in again["message"]
    audited = (await client.get("/api/v1/audit", params={"target": "bus"})).json()["data"]
    assert [(one["caller"], one["verb"], one["outcome"]) for one in audited] == [
        ("olga", "bus replay", "refused"),
        ("olga", "bus replay", "accepted"),
    ]


async def test_a_replay_of_nothing_is_refused(client: httpx.AsyncClient) -> None:
    nothing = (await client.post("/api/v1/bus/replay", json={"parked_ids": []})).json()
    assert nothing["success"] is False and nothing["problems"][0]["field"] == "parked_ids"


async def test_parked_messages_are_dropped_with_a_reason_that_the_audit_log_keeps(
    client: httpx.AsyncClient, database: Database
) -> None:
    async with database.read() as connection:
        parked_id = await connection.fetchval(
            "INSERT INTO parked_messages (event_id, consumer, routing_key, body, reason)"
            " VALUES (8, 'job-generation.task-ready', 'task.ready.v1', '{}', 'poison') RETURNING parked_id"
        )
    body = {"parked_ids": [parked_id, 999_999], "reason": "the task was removed"}
    answer = (await client.post("/api/v1/bus/drop", json=body)).json()
    assert answer["success"] is False and answer["data"] == {"dropped": [parked_id], "not_dropped": [999_999]}
    assert (await client.get("/api/v1/bus/parked")).json()["data"] == []
    (entry,) = (await client.get("/api/v1/audit", params={"target": "bus"})).json()["data"]
    assert entry["verb"] == "bus drop" and entry["details"]["reason"] == "the task was removed"
    (dropped,) = entry["details"]["dropped"]
    assert (dropped["parked_id"], dropped["consumer"], dropped["reason"]) == (
        parked_id, "job-generation.task-ready", "poison",
    )  # fmt: skip
    assert (await client.post("/api/v1/bus/drop", json={"parked_ids": [parked_id]})).json()["success"] is False


async def test_the_condition_names_who_is_away_what_is_stuck_and_what_is_large(
    client: httpx.AsyncClient, database: Database
) -> None:
    async with database.read() as connection:
        task = await rows.task(connection, status="registered")
        await connection.execute(
            "UPDATE tasks SET state_change_time = orrery_now() - interval '1 hour' WHERE task_id = $1", task
        )
        await connection.executemany(
            "INSERT INTO leases (name, partition, holder, term, acquired_at, expires_at)"
            " VALUES ($1, '', 'h', 1, orrery_now(), orrery_now() + $2::float8 * interval '1 minute')",
            [("watchdog.sweep", 5.0), ("job-dispatch.a", -5.0), ("job-dispatch.b", -9.0)],
        )
        await connection.executemany(
            "INSERT INTO bus_queues (consumer, n_waiting, n_consumers, looked_at)"
            " VALUES ($1, 0, $2, orrery_now() - $3::float8 * interval '1 minute')",
            [("watchdog.tasks-woken", 2, 0.2), ("watchdog.other", 3, 0.5), ("job-dispatch.jobs-generated", 4, 5.0)],
        )
        await connection.execute(
            "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores)"
            " VALUES ('LONELY', 'SCORE', 'MC', 'ada', 'activated', 12, 12)"
        )
    found = (await client.get("/api/v1/condition")).json()["data"]
    told = {one["what"]: one for one in found["findings"]}
    assert "job-dispatch holds none of its leases: it does not run" in told
    assert "task-definition has never held a lease: it never ran" in told
    assert not [what for what in told if what.startswith("watchdog ")]
    assert told["tasks are registered for more than 10 minutes"]["see"] == f"orrery explain task {task}"
    assert told["LONELY has jobs, and no pilot asked there within the last hour"]["n"] == 12
    assert {one["service"]: one["n_copies"] for one in found["services"]} == {"job-dispatch": None, "watchdog": 3}
    assert found["jobs"] == [{"status": "activated", "n_jobs": 12}]
    assert found["database"]["n_bytes"] > 10**6 and {"jobs", "tasks"} & {one["name"] for one in found["tables"]}
