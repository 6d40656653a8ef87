"""What may be asked of a task now, by whom: each command with what it does, or why it would be refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy.command_table import COMMANDS
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context, Service
from tests import rows
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define, put
from tests.handlers.task_definition.world import production


async def offered(client: httpx.AsyncClient, task_id: int) -> dict[str, dict[str, Any]]:
    answer = (await client.get("/api/v1/task/get_commands", params={"task_id": task_id})).json()
    assert answer["success"], answer
    return {one["verb"]: one for one in answer["data"]}


async def test_every_command_is_told_with_what_it_does_and_takes_and_whether_it_would_be_refused_now(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running")
    told = await offered(producer, task_id)
    assert list(told) == [one.cli_verb for one in COMMANDS]
    assert (told["kill"]["refused"], told["kill"]["path"], told["kill"]["jobs"]) == (None, "kill", "killed")
    assert told["resume"]["refused"].startswith("resume is refused for a task that is running; allowed: ")
    assert [one["name"] for one in told["set-priority"]["takes"]] == ["priority"]
    assert told["finish"]["takes"][0]["inverted"] is True


async def test_what_is_offered_is_what_is_accepted(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    """A command is refused with the very words that were told before."""
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "done")
    for verb, one in (await offered(producer, task_id)).items():
        if one["refused"] and not any(given["required"] for given in one["takes"]):
            answer = await producer.post(f"/api/v1/task/{one['path']}", json={"task_id": task_id})
            assert answer.json()["message"] == one["refused"], verb


async def test_an_owner_is_offered_less_than_production_and_a_limited_token_says_which_right_it_lacks(
    database: Database, service: Service, authority: Authority, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production(userName="prodteam"))
    await put(database, task_id, "running")
    async with client_of(service, authority, "prodteam", "user") as owner:
        told = await offered(owner, task_id)
    assert told["kill"]["refused"] is None
    assert told["reassign"]["refused"] == "reassign needs the role production"
    token = authority.issue("prodteam", ["production"], rights=["cancel"])
    headers = {"Authorization": f"Bearer {token}"}
    query = {"task_id": task_id}
    limited = (await producer.get("/api/v1/task/get_commands", params=query, headers=headers)).json()["data"]
    refused = {one["verb"]: one["refused"] for one in limited}
    assert refused["kill"] is None
    assert refused["pause"] == "prodteam needs the right modify, to which the token is not limited"


@pytest.mark.parametrize("who", ["user", "producer"])
async def test_of_a_task_that_is_not_there_or_is_not_told_nothing_is_offered(
    database: Database,
    service: Service,
    user: httpx.AsyncClient,
    producer: httpx.AsyncClient,
    who: str,
) -> None:
    task_id, _ = await define(database, service, producer, production())
    client, asked = (user, task_id) if who == "user" else (producer, 987_654)
    answer = (await client.get("/api/v1/task/get_commands", params={"task_id": asked})).json()
    assert (answer["success"], answer["data"], answer["message"]) == (False, 2, f"task {asked} not found")


async def test_lists_go_on_below_an_id_and_are_of_a_vo(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    ids = [(await define(database, service, producer, production(f"task.{n}")))[0] for n in range(3)]

    async def listed(**query: Any) -> list[int]:
        answer = await producer.get("/api/v1/task/list", params={"counts": "false", **query})
        return [one["task_id"] for one in answer.json()["data"]]

    (vo,) = {one["vo"] for one in (await producer.get("/api/v1/task/list")).json()["data"]}
    assert await listed() == ids[::-1] and await listed(vo=vo, limit=2) == ids[:0:-1]
    assert await listed(before_id=ids[2], limit=1) == [ids[1]] and await listed(before_id=ids[0]) == []
    assert await listed(vo="nobodys") == []


async def test_one_command_on_several_tasks_says_first_which_it_hits_and_why_not_others(
    database: Database, service: Service, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    live, over = [(await define(database, service, producer, production(f"task.{n}")))[0] for n in range(2)]
    await put(database, live, "running")
    await put(database, over, "done")
    query = {"command": "kill", "task_ids": f"{over},{live},987654"}
    told = (await producer.get("/api/v1/task/preview_command", params=query)).json()["data"]
    assert told["command"]["verb"] == "kill" and told["command"]["jobs"] == "killed"
    assert [one["task_id"] for one in told["tasks"]] == [over, live, 987_654]
    assert [one["refused"] is None for one in told["tasks"]] == [False, True, False]
    assert told["tasks"][0]["refused"].startswith("kill is refused for a task that is done")
    assert told["tasks"][1]["status"] == "running" and told["tasks"][1]["jobs"] == {}
    others = (await user.get("/api/v1/task/preview_command", params=query)).json()["data"]["tasks"]
    assert others == [{"task_id": one, "refused": f"task {one} not found"} for one in (over, live, 987_654)]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"command": "explode", "task_ids": "1"}, "command = 'explode': allowed: kill, finish"),
        ({"command": "kill", "task_ids": ",".join(map(str, range(1, 102)))}, "at most 100"),
        ({"command": "kill", "task_ids": "x"}, "task_ids: value 'x' is not allowed"),
        ({"command": "kill"}, "task_ids: 0 ids are not allowed"),
    ],
)
async def test_a_preview_of_what_makes_no_sense_says_what_is_allowed(
    producer: httpx.AsyncClient, query: dict[str, str], told: str
) -> None:
    answer = (await producer.get("/api/v1/task/preview_command", params=query)).json()
    assert answer["success"] is False and told in answer["message"], answer


async def test_names_that_begin_so_are_told_of_whose_tasks_the_caller_may_read(
    database: Database, service: Service, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    async with database.read() as connection:
        for name in ("ada", "adam", "bob", "ada"):
            await rows.task(connection, user_name=name, vo="atlas", status="running")
        await rows.task(connection, user_name="adrian", vo="atlas", status="done")

    async def named(client: httpx.AsyncClient, field: str, start: str) -> list[str]:
        answer = await client.get("/api/v1/task/names", params={"field": field, "start": start})
        found: list[str] = answer.json()["data"]
        return found

    assert await named(producer, "user_name", "ad") == ["ada", "adam"]
    assert await named(producer, "vo", "") == ["atlas"] and await named(producer, "vo", "b") == []
    assert await named(user, "user_name", "ad") == []


async def test_people_with_the_same_roles_are_told_other_things_about_one_task(
    database: Database, service: Service, context: Context, producer: httpx.AsyncClient
) -> None:
    """So an answer that was made for one of them is not given to another one."""
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await connection.execute("UPDATE tasks SET user_name = 'ada', prod_source_label = 'user'")
        [vo] = await connection.fetchrow("SELECT vo FROM tasks")
    told = {}
    for name in ("ada", "bob"):
        token = context.authority.issue(name, ["user"], [vo])
        query, headers = {"task_id": task_id, "counts": False}, {"Authorization": f"Bearer {token}"}
        answer = await producer.get("/api/v1/explain/task", params=query, headers=headers)
        told[name] = answer.json()["data"]
    assert "history" in told["ada"] and "withheld" not in told["ada"]["task"]
    assert "history" not in told["bob"] and "withheld" in told["bob"]["task"]
