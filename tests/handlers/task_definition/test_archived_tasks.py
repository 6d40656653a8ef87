"""A task whose rows were dropped is told from the archive, as far as each caller may know it."""

from __future__ import annotations

import httpx

from services.watchdog.store.retention import LEFT, SQL
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define
from tests.handlers.task_definition.test_api import get
from tests.handlers.task_definition.world import production
from tests.rows import change


async def archive(database: Database, task_id: int) -> None:
    """As the rule of retention does it, with all that is left."""
    async with database.read() as connection:
        await change(
            connection, "UPDATE tasks SET status = 'finished', end_time = orrery_now() WHERE task_id = $1", task_id
        )
        assert await SQL.run(connection, "tasks", task_ids=[task_id], most=500) == 1
        for statement in LEFT:
            asked = {"task_id": task_id, "most": 500}
            await SQL.run(connection, statement, **{name: asked[name] for name in SQL.parameters(statement)})


async def test_what_a_task_was_is_told_after_its_rows_were_dropped(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    before = (await get(producer, "task/get_details", task_id=task_id, include_parameters="True"))["data"]
    await archive(database, task_id)
    told = await get(producer, "task/get_details", task_id=task_id, include_parameters="True")
    assert told["message"].startswith(f"task {task_id} was archived on ")
    details = told["data"]
    assert (details["jediTaskID"], details["task_name"], details["status"]) == (task_id, "simulation", "finished")
    for same in ("task_parameters", "files", "splitRule", "user_name", "creation_date"):
        assert details[same] == before[same], same
    assert [(one["type"], one["n_files"]) for one in details["datasets"]] == [("input", 20), ("output", 0), ("log", 0)]
    assert details["archived_at"] is not None
    assert (await get(producer, "task/get_status", task_id=task_id))["data"] == "finished"
    assert (await get(producer, "task/get_task_parameters", task_id=task_id))["data"]["nFilesPerJob"] == 2
    inputs = await get(producer, "task/get_datasets_and_files", task_id=task_id, dataset_types="input", max_files=3)
    assert [len(one["files"]) for one in inputs["data"]] == [3]
    assert {(one["type"], one["status"], one["shown_status"]) for one in inputs["data"][0]["files"]} == {
        ("input", "ready", "ready")
    }
    assert (await get(producer, "task/get_status", task_id=task_id + 1))["data"] == 2


async def test_it_is_explained_as_archived_and_no_command_changes_it(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await archive(database, task_id)
    explained = (await get(producer, "explain/task", task_id=task_id))["data"]
    first, *rest = explained["text"].splitlines()
    assert first.startswith(f"task {task_id}: finished, ") and "; archived on 20" in first
    assert any("simulation, of " in line for line in rest) and any(line.endswith("20 files") for line in rest)
    assert rest[-1].strip() == "its jobs, decisions and history are not kept any more; it cannot be tried again"
    reply = (await producer.post("/api/v1/task/retry", json={"task_id": task_id})).json()
    assert not reply["success"] and reply["data"] == 2
    assert reply["message"].startswith(f"task {task_id} ended as finished and was archived on ")


async def test_others_are_told_its_state_alone(
    database: Database, service: Service, producer: httpx.AsyncClient, authority: Authority
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await archive(database, task_id)
    async with client_of(service, authority, "mallory", "user") as other:
        assert (await get(other, "task/get_status", task_id=task_id))["data"] == "finished"
        details = (await get(other, "task/get_details", task_id=task_id, include_parameters="True"))["data"]
        assert details["status"] == "finished" and details["task_name"] is None and details["datasets"] == []
        assert "task_parameters" not in details and details["withheld"]
        explained = (await get(other, "explain/task", task_id=task_id))["data"]
        assert "simulation" not in explained["text"] and explained["task"]["user_name"] is None
        for path in ("task/get_task_parameters", "task/get_datasets_and_files"):
            assert (await get(other, path, task_id=task_id))["success"] is False, path
