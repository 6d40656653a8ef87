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


async def test_a_leaf_that_live_tasks_have_does_not_become_a_branch(
    client: httpx.AsyncClient, database: Database
) -> None:
    await client.post("/api/v1/share/load", json={"shares": TREE})
    async with database.read() as connection:
        await rows.task(connection, gshare="MC")
        await rows.task(connection, gshare="MC")
    below = [*TREE, {"name": "Deep", "value": 1, "parent": "MC"}]
    answer = (await client.post("/api/v1/share/load", json={"shares": below})).json()
    assert answer["success"] is False
    assert "MC: has shares below it, but 2 live tasks have it" in answer["message"]


async def test_a_load_says_what_changes_and_a_dry_run_changes_nothing(
    client: httpx.AsyncClient, database: Database
) -> None:
    await client.post("/api/v1/share/load", json={"shares": TREE})
    changed = [{**TREE[0], "value": 40}, {**TREE[1], "value": 60}, *TREE[2:]]
    for dry_run in (True, False):
        data = (await client.post("/api/v1/share/load", json={"shares": changed, "dry_run": dry_run})).json()["data"]
        found = {row["gshare"]: (row["due_percent_before"], row["due_percent_after"]) for row in data["changes"]}
        assert found == {"Production": (60, 40), "Analysis": (40, 60), "MC": (45, 30), "Data": (15, 10)}
        listed = (await client.get("/api/v1/share/list")).json()["data"]["shares"]
        assert listed[0]["due_percent"] == (60 if dry_run else 40)
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM outbox WHERE routing_key = 'shares.corrected.v1'") == 2


async def test_stretchable_is_a_letter_of_the_file(client: httpx.AsyncClient) -> None:
    tree = [{"name": "A", "value": 1, "stretchable": "Y"}, {"name": "B", "value": 1}]
    assert (await client.post("/api/v1/share/load", json={"shares": tree})).json()["success"] is True
    listed = (await client.get("/api/v1/share/list")).json()["data"]["shares"]
    assert [row["stretchable"] for row in listed] == [True, False]
    answer = (await client.post("/api/v1/share/load", json={"shares": [{**tree[0], "stretchable": "yes"}]})).json()
    assert answer["success"] is False and "stretchable" in answer["message"]


async def test_shares_are_explained_with_use_queue_and_the_terms_of_their_corrections(
    client: httpx.AsyncClient, database: Database
) -> None:
    await client.post("/api/v1/share/load", json={"shares": TREE})
    async with database.read() as connection:
        for gshare, status, count in (("MC", "running", 30), ("Data", "running", 10), ("Data", "activated", 5)):
            await connection.execute(
                "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores)"
                " VALUES ('Q', 'SCORE', $1, 'ann', $2, $3, $3)", gshare, status, count,
            )  # fmt: skip
        await connection.execute("INSERT INTO user_corrections VALUES ('MC', 'ann', 0.5)")
        for user, ago_h in (("", 0), ("", 48), ("ann", 0)):
            await connection.execute(
                "INSERT INTO correction_terms (gshare, user_name, at, vo, corrector, instance, target, factor, total,"
                " max_global, terms) VALUES ('MC', $1, orrery_now() - make_interval(hours => $2), '', 'WMSHistory',"
                " 'G', 0.75, 0.5, 0.5, 3, $3)", user, ago_h,
                {"week": {"used": 1.0, "c": 0.5, "weight": 1.0}},
            )  # fmt: skip
    found = (await client.get("/api/v1/share/explain")).json()["data"]
    told = {row["gshare"]: (row["used_percent"], row["standing"], row["queued_jobs"]) for row in found["shares"]}
    assert told["MC"] == (75.0, "borrows", 0) and told["Analysis"] == (0.0, "idle", 0)
    assert told["Data"][1:] == ("borrows", 5)
    assert "history" not in found
    one = (await client.get("/api/v1/share/explain", params={"gshare": "MC"})).json()["data"]
    assert [row["gshare"] for row in one["shares"]] == ["MC"]
    assert [row["slices"]["week"]["adds"] for row in one["history"]] == [0.5]  # that of two days ago is left out
    assert [(user["user_name"], user["correction_factor"]) for user in one["users"]] == [("ann", 0.5)]
    new = (await client.get("/api/v1/share/explain", params={"gshare": "Data"})).json()["data"]["users"]
    assert new == [{"user_name": "ann", "correction_factor": 1.0, "corrected_at": None, "terms": None}], (
        "not corrected yet"
    )
    more = (await client.get("/api/v1/share/explain", params={"gshare": "MC", "hours": 72})).json()["data"]
    assert len(more["history"]) == 2


async def test_who_may_explain_shares_and_what_is_refused(client: httpx.AsyncClient, authority: Authority) -> None:
    await client.post("/api/v1/share/load", json={"shares": TREE})
    answer = (await client.get("/api/v1/share/explain", params={"gshare": "Nowhere"})).json()
    assert answer["success"] is False and "Nowhere: is not a share" in answer["message"]
    for role, code in (("user", 200), ("production", 200), ("pilot", 403)):
        headers = {"Authorization": f"Bearer {authority.issue('ulla', [role])}"}
        assert (await client.get("/api/v1/share/explain", headers=headers)).status_code == code


async def test_users_of_a_share_have_names_for_whoever_may_read_a_live_task_of_theirs(
    client: httpx.AsyncClient, database: Database, authority: Authority
) -> None:
    assert (await client.post("/api/v1/share/load", json={"shares": TREE})).json()["success"] is True
    async with database.read() as connection:
        for name, vo, status in (("ada", "atlas", "running"), ("bob", "cms", "running"), ("carl", "atlas", "done")):
            await rows.task(connection, user_name=name, vo=vo, gshare="MC", status=status)
            await rows.insert(
                connection, "user_corrections", {"gshare": "MC", "user_name": name, "correction_factor": 0.5}
            )
    for name, role, groups, seen in (
        ("olga", "operator", [], ["ada", "bob", "carl"]),
        ("chief", "production", ["atlas"], ["ada"]),
        ("bob", "user", ["cms"], ["bob"]),
        ("bob", "user", ["atlas"], []),
        ("eve", "user", [], []),
    ):
        headers = {"Authorization": f"Bearer {authority.issue(name, [role], groups)}"}
        listed = (await client.get("/api/v1/share/list", headers=headers)).json()["data"]["user_corrections"]
        one = (await client.get("/api/v1/share/explain", params={"gshare": "MC"}, headers=headers)).json()["data"]
        for found in (listed, one["users"]):
            assert [row["user_name"] for row in found if row["user_name"]] == seen and len(found) == 3, (name, groups)
            assert {row["correction_factor"] for row in found} == {0.5}
