"""Ada of atlas and ada of cms: what is said of each, who is told it, and what holds for their tasks."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.steps import put, rows_of
from tests.handlers.task_definition.test_accounts import get, post
from tests.handlers.task_definition.test_tasks_of_other_vos import client_of
from tests.handlers.task_definition.world import analysis
from tests.rows import insert, task

RECORDS: list[dict[str, Any]] = [
    {"user_name": "ada", "vo": "", "quota": 1.0},
    {"user_name": "ada", "vo": "atlas", "quota": 2.0, "cap_running_jobs": 7, "grid_pref": "s"},
    {"user_name": "ada", "vo": "cms", "quota": 3.0},
    {"user_name": "bob", "vo": "atlas", "quota": 4.0},
    {"user_name": "eve", "vo": "", "quota": 5.0},
]


@pytest.fixture
async def accounts(operator: httpx.AsyncClient) -> None:
    assert (await post(operator, "user/load", {"users": RECORDS}))["data"] == {"n_users": 5}


async def told(service: Service, authority: Authority, name: str, role: str, *groups: str) -> list[tuple[str, str]]:
    async with client_of(service, authority, name, role, *groups) as client:
        return [(one["user_name"], one["vo"]) for one in await get(client, "user/list")]


async def test_a_record_is_told_to_its_user_to_production_of_its_vo_and_to_operators(
    service: Service, authority: Authority, accounts: None
) -> None:
    every = [(one["user_name"], one["vo"]) for one in RECORDS]
    assert await told(service, authority, "ada", "user", "cms") == [("ada", ""), ("ada", "cms")]
    assert await told(service, authority, "ada", "user", "atlas") == [("ada", ""), ("ada", "atlas")]
    assert await told(service, authority, "ada", "user", "lhcb") == [("ada", "")]
    assert await told(service, authority, "carol", "user", "atlas") == []
    assert await told(service, authority, "factory", "pilot", "atlas") == []
    assert await told(service, authority, "chief", "production", "atlas") == [("ada", "atlas"), ("bob", "atlas")]
    assert await told(service, authority, "chief", "production", "cms") == [("ada", "cms")]
    assert await told(service, authority, "chief", "production") == every
    assert await told(service, authority, "operations", "operator", "cms") == every


async def test_what_is_said_for_all_vos_is_told_to_production_where_the_user_has_submitted(
    database: Database, service: Service, authority: Authority, accounts: None
) -> None:
    async with database.read() as connection:
        await task(connection, task_id=6, user_name="eve", vo="cms", submitted_by="chief")
    assert ("eve", "") not in await told(service, authority, "chief", "production", "cms"), "anybody's name may be used"
    async with database.read() as connection:
        await task(connection, task_id=7, user_name="eve", vo="cms", submitted_by="eve")
    assert ("eve", "") in await told(service, authority, "chief", "production", "cms")
    assert ("eve", "") not in await told(service, authority, "chief", "production", "atlas")


async def test_a_record_of_one_vo_is_changed_and_forgotten_without_the_others(
    operator: httpx.AsyncClient, accounts: None
) -> None:
    assert (await post(operator, "user/set", {"user_name": "ada", "vo": "cms", "cap_running_cores": 9}))["success"]
    assert (await post(operator, "user/remove", {"user_name": "ada", "vo": "atlas"}))["success"]
    again = await post(operator, "user/remove", {"user_name": "ada", "vo": "atlas"})
    assert again["message"].endswith("nothing is said of a user ada for atlas")
    left = [(one["vo"], one["quota"], one["cap_running_cores"]) for one in await get(operator, "user/list")]
    assert left[:2] == [("", 1.0, None), ("cms", 3.0, 9)]
    twice = await post(operator, "user/load", {"users": [RECORDS[1], RECORDS[1]]})
    assert "is given twice" in twice["message"] and len(await get(operator, "user/list")) == 4


async def test_a_group_of_another_vo_is_none_of_a_users(operator: httpx.AsyncClient) -> None:
    await post(operator, "group/set", {"name": "higgs", "vo": "atlas"})
    refused = await post(operator, "user/set", {"user_name": "ada", "vo": "cms", "groups": ["higgs"]})
    assert [one["field"] for one in refused["problems"]] == ["groups"]
    for vo in ("atlas", ""):
        assert (await post(operator, "user/set", {"user_name": "ada", "vo": vo, "groups": ["higgs"]}))["success"]
    [group] = await get(operator, "group/list")
    assert group["n_users"] == 1


@pytest.mark.parametrize(("vo", "priority"), [("atlas", 1500), ("cms", 500)])
async def test_super_privilege_in_one_vo_gives_no_priority_in_another(
    database: Database, service: Service, authority: Authority, accounts: None, vo: str, priority: int
) -> None:
    async with client_of(service, authority, "ada", "user", vo) as ada:
        reply = await post(ada, "task/submit", {"task_parameters": {**analysis("user.ada.one"), "vo": vo}})
        assert reply["success"], reply
        [row] = await rows_of(database, "SELECT task_id, current_priority FROM tasks")
        assert row["current_priority"] == priority
        await put(database, row["task_id"], "running")
        set_again = await post(ada, "task/change_priority", {"task_id": row["task_id"], "priority": 1400})
        assert set_again["success"] is (vo == "atlas")


async def test_the_record_of_the_vo_wins_and_that_for_all_holds_elsewhere(database: Database, accounts: None) -> None:
    async with database.read() as connection:
        await insert(connection, "users", {"user_name": "zoe", "vo": "cms", "quota": 8})
        for vo, quota in (("atlas", 2), ("cms", 3), ("lhcb", 1), ("", 1), (None, 1)):
            found = await connection.fetch("SELECT quota FROM orrery_account('ada', $1)", vo)
            assert [row["quota"] for row in found] == [quota], vo
        assert await connection.fetch("SELECT FROM orrery_account('zoe', 'atlas')") == []
