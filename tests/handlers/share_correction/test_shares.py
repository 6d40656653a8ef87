"""Shares are listed with what is due to them, and a tree is loaded whole or refused whole."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from services.share_correction.app import build
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context
from tests import rows
from tests.applications import application_of

TREE = [
    {"name": "Production", "value": 60}, {"name": "Analysis", "value": 40},
    {"name": "MC", "value": 3, "parent": "Production", "prodsourcelabel": "managed"},
    {"name": "Data", "value": 1, "parent": "Production"},
]  # fmt: skip


@pytest.fixture
async def client(context: Context, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    web = application_of(build(context), authority)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=web),
        base_url="http://shares",
        headers={"Authorization": f"Bearer {authority.issue('olga', ['operator'])}"},
    ) as client:
        yield client


async def test_a_tree_is_loaded_listed_in_percent_and_replaced(client: httpx.AsyncClient, database: Database) -> None:
    assert (await client.post("/api/v1/share/load", json={"shares": TREE})).json()["success"] is True
    listed = (await client.get("/api/v1/share/list")).json()["data"]["shares"]
    assert [(row["gshare"], row["due_percent"]) for row in listed] == [
        ("Production", 60), ("Analysis", 40), ("MC", 45), ("Data", 15),
    ]  # fmt: skip
    async with database.read() as connection:
        await connection.execute("UPDATE shares SET correction_factor = 2 WHERE gshare = 'MC'")
    moved = [{"name": "MC", "value": 1}, {"name": "Other", "value": 1}]
    assert (await client.post("/api/v1/share/load", json={"shares": moved})).json()["success"] is True
    listed = (await client.get("/api/v1/share/list")).json()["data"]["shares"]
    assert [(row["gshare"], row["correction_factor"]) for row in listed] == [("MC", 2), ("Other", 1)]
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM outbox WHERE routing_key = 'shares.corrected.v1'") == 2
        assert await connection.fetchval("SELECT count(*) FROM audit_log WHERE verb = 'share load'") == 2


async def test_a_share_may_stand_before_its_parent_and_the_order_of_the_file_is_kept(client: httpx.AsyncClient) -> None:
    for tree in (list(reversed(TREE)), TREE, [*TREE[1:], {**TREE[0], "name": "New"}]):
        names = [one["name"] for one in tree]
        moved = [{**one, "parent": "New"} if one.get("parent") not in (None, *names) else one for one in tree]
        assert (await client.post("/api/v1/share/load", json={"shares": moved})).json()["success"] is True
        listed = (await client.get("/api/v1/share/list")).json()["data"]["shares"]
        assert [row["gshare"] for row in listed] == names


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ([{"name": "A", "value": 1, "parent": "B"}], "'B' is not a share"),
        ([{"name": "A", "value": -1}], "value"),
        ([{"name": "A", "value": 1}, {"name": "A", "value": 2}], "listed twice"),
        ([], "at least one share"),
    ],
)
async def test_a_wrong_tree_is_refused_whole(
    client: httpx.AsyncClient, database: Database, tree: list[dict[str, object]], problem: str
) -> None:
    answer = (await client.post("/api/v1/share/load", json={"shares": tree})).json()
    assert answer["success"] is False and problem in answer["message"]
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM shares") == 0


async def test_a_share_that_live_tasks_have_is_not_taken_away(client: httpx.AsyncClient, database: Database) -> None:
    await client.post("/api/v1/share/load", json={"shares": TREE})
    async with database.read() as connection:
        await rows.task(connection, gshare="MC")
    answer = (await client.post("/api/v1/share/load", json={"shares": TREE[:2]})).json()
    assert answer["success"] is False and "MC" in answer["message"]


async def test_users_may_look_and_only_operators_may_load(client: httpx.AsyncClient, authority: Authority) -> None:
    user = {"Authorization": f"Bearer {authority.issue('ulla', ['user'])}"}
    assert (await client.get("/api/v1/share/list", headers=user)).status_code == 200
    assert (await client.post("/api/v1/share/load", json={"shares": TREE}, headers=user)).status_code == 403
