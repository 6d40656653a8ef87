"""Who acts for one VO submits, commands and reads no tasks of another one, whatever the role."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy import commands as rules
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Service
from tests.applications import application_of
from tests.handlers.task_definition.steps import define, put, submit, task_row
from tests.handlers.task_definition.world import analysis, production


def client_of(service: Service, authority: Authority, name: str, role: str, *groups: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(service, authority)),
        base_url="http://task-definition",
        headers={"Authorization": f"Bearer {authority.issue(name, [role], groups)}"},
    )


COMMANDS: dict[str, dict[str, Any]] = {
    "kill": {},
    "pause": {},
    "change_priority": {"priority": 700},
    "change_share": {"share": "MC"},
    "change_split_rule": {"attribute_name": "nFilesPerJob", "attribute_value": 3},
}


async def test_production_and_owners_that_act_for_another_vo_command_no_task(
    service: Service, database: Database, authority: Authority, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running", nucleus="ALPHA")
    before = dict(await task_row(database, task_id))
    async with client_of(service, authority, "prodteam", "production", "atlas") as other:
        for verb, details in COMMANDS.items():
            answer = (await other.post(f"/api/v1/task/{verb}", json={"task_id": task_id, **details})).json()
            assert (answer["success"], answer["data"]) == (False, rules.NOT_PERMITTED), (verb, answer)
            assert answer["message"] == f"task {task_id} is of the VO demo"
    assert dict(await task_row(database, task_id)) == before
    for role, group in (("production", "demo/production"), ("operator", "atlas")):
        async with client_of(service, authority, "chief", role, group) as chief:
            body = {"task_id": task_id, "priority": 700}
            assert (await chief.post("/api/v1/task/change_priority", json=body)).json()["success"], role


@pytest.mark.parametrize(
    ("role", "task"), [("production", production()), ("user", analysis())], ids=["production", "user"]
)
async def test_a_task_of_a_vo_that_the_caller_does_not_act_for_is_refused_by_that_field(
    service: Service, authority: Authority, role: str, task: dict[str, Any]
) -> None:
    async with client_of(service, authority, "alice", role, "atlas") as other:
        body = (await other.post("/api/v1/task/submit", json={"task_parameters": task})).json()
        assert body["success"] is False and [one["field"] for one in body["problems"]] == ["vo"]
        assert "allowed: atlas" in body["message"]
    async with client_of(service, authority, "alice", role, "demo") as member:
        await submit(member, task)


async def test_parameters_that_name_people_are_for_operators_and_those_of_a_vo_for_its_members(
    service: Service, authority: Authority, operator: httpx.AsyncClient
) -> None:
    for body in (
        {"component": "job_dispatch", "key": "PILOT_SECRETS", "value": {"*": "ada"}},
        {"component": "order", "key": "TASK_QUEUES", "value": "within", "vo": "atlas"},
        {"component": "job_dispatch", "key": "STDOUT_KEPT_S", "value": 7200},
    ):
        answer = (await operator.post("/api/v1/config/set", json=body)).json()
        assert answer["success"], answer
    for name, role, group, seen in (
        ("bob", "user", "atlas", {"TASK_QUEUES", "STDOUT_KEPT_S"}),
        ("chief", "production", "cms", {"STDOUT_KEPT_S"}),
        ("olga", "operator", "cms", {"PILOT_SECRETS", "TASK_QUEUES", "STDOUT_KEPT_S"}),
    ):
        async with client_of(service, authority, name, role, group) as caller:
            listed = (await caller.get("/api/v1/config/list")).json()["data"]
            assert {one["key"] for one in listed} == seen, name
            secrets = {"component": "job_dispatch", "key": "PILOT_SECRETS"}
            found = (await caller.get("/api/v1/config/get", params=secrets)).json()["data"]
            assert (found is not None) is ("PILOT_SECRETS" in seen)


@pytest.mark.parametrize(("group", "may"), [("atlas", False), ("demo", True)])
async def test_the_task_file_of_a_task_of_another_vo_does_not_exist(
    database: Database,
    service: Service,
    authority: Authority,
    producer: httpx.AsyncClient,
    group: str,
    may: bool,
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with client_of(service, authority, "chief", "production", group) as chief:
        answer = (await chief.get("/api/v1/task/task_files", params={"task_id": task_id})).json()
        assert answer["success"] is may
        if not may:
            absent = (await chief.get("/api/v1/task/task_files", params={"task_id": 99_999})).json()
            assert str(answer).replace(str(task_id), "N") == str(absent).replace("99999", "N")
