from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.job_brokerage.app import build
from services.job_brokerage.store.grids import WRITTEN_TOGETHER
from shared.cache import RedisCache
from shared.db import Database
from shared.db.queries import Queries
from shared.model.grid import read_grid_folder
from shared.runtime.service import Context
from shared.snapshot import Snapshot
from tests import rows
from tests.applications import application_of
from tests.handlers.grids import a_record, load_grid, small_grid

JSON = {"Content-Type": "application/json"}
EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"


@pytest.fixture
async def client(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    web = application_of(build(context), context.authority)
    token = context.authority.issue("olga", ["operator"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(web), base_url="http://test", headers={"Authorization": f"Bearer {token}"}
    ) as client:
        yield client


async def count(database: Database, table: str) -> int:
    async with database.read() as connection:
        return await connection.fetchval(f"SELECT count(*) FROM {table}")


async def test_the_full_grid_is_loaded_whole(client, database) -> None:
    files = read_grid_folder(EXAMPLES / "grid_full")
    reply = (await client.post("/api/v1/grid/load", json={"files": files})).json()
    assert reply["success"], reply
    assert reply["data"]["queues"] == 146 and reply["data"]["links"] == 15377 and reply["data"]["nuclei"] == 10
    async with database.read() as connection:
        pairs = await connection.fetchval("SELECT count(DISTINCT (source, destination)) FROM network_metrics")
        newest_s = await connection.fetchval(
            "SELECT extract(epoch FROM orrery_now() - max(measured_at)) FROM network_metrics"
        )
        keys = await connection.fetchval("SELECT count(*) FROM network_metrics WHERE key = 'dashb_mbps_1w'")
    assert pairs > 15000 and 0 <= newest_s < 60 and keys > 1000


async def test_loading_a_grid_again_replaces_it_and_announces_the_new_version(client, database) -> None:
    first = (await client.post("/api/v1/grid/load", json={"files": small_grid()})).json()["data"]["version"]
    smaller = small_grid()
    del smaller["queues"]["Q_DELTA"]
    smaller["queues"]["Q_ALPHA"]["status"] = "brokeroff"
    second = (await client.post("/api/v1/grid/load", json={"files": smaller})).json()["data"]["version"]
    assert second == first + 1
    async with database.read() as connection:
        rows = await connection.fetch("SELECT queue, status FROM queues ORDER BY queue")
        announced = await connection.fetch(
            "SELECT body FROM outbox WHERE routing_key = 'grid.changed.v1' ORDER BY event_id"
        )
    assert [tuple(row) for row in rows] == [("Q_ALPHA", "brokeroff"), ("Q_BETA", "online"), ("Q_GAMMA", "online")]
    assert f'"grid_version":{second}' in announced[-1]["body"].replace(" ", "")


async def test_how_a_queue_was_that_left_the_grid_is_known_until_it_is_back(client, database) -> None:
    whole, smaller = small_grid(), small_grid()
    del smaller["queues"]["Q_DELTA"]
    for files, kept in ((whole, []), (smaller, ["Q_DELTA"]), (smaller, ["Q_DELTA"]), (whole, [])):
        assert (await client.post("/api/v1/grid/load", json={"files": files})).json()["success"]
        async with database.read() as connection:
            rows = await connection.fetch("SELECT queue, data FROM absent_queues")
        assert [row["queue"] for row in rows] == kept
        assert [row["data"]["status"] for row in rows] == [whole["queues"][name]["status"] for name in kept]


async def test_a_bad_grid_is_refused_whole_with_every_problem(client, database) -> None:
    await client.post("/api/v1/grid/load", json={"files": small_grid()})
    bad = small_grid()
    bad["queues"]["Q_ALPHA"]["status"] = "sleepy"
    bad["storages"]["BETA_DATADISK"]["space_total"] = -1
    bad["queues"]["NEW"] = a_record("NEW", "GAMMA")
    reply = (await client.post("/api/v1/grid/load", json={"files": bad})).json()
    assert not reply["success"]
    problems = {(one["file"], one["key"], one["field"]) for one in reply["data"]["problems"]}
    assert {("queues.json", "Q_ALPHA", "status"), ("storages.json", "BETA_DATADISK", "space_total")} <= problems
    assert await count(database, "queues") == 4


async def test_shares_and_resource_types_are_part_of_a_grid(client, database) -> None:
    files = read_grid_folder(EXAMPLES / "grid")
    await client.post("/api/v1/grid/load", json={"files": files})
    async with database.begin(reason="a correction") as work:
        await work.connection.execute("UPDATE shares SET correction_factor = 2 WHERE gshare = 'MC'")
    assert (await client.post("/api/v1/grid/load", json={"files": files})).json()["success"]
    async with database.read() as connection:
        share = await connection.fetchrow("SELECT value, parent, correction_factor FROM shares WHERE gshare = 'MC'")
        types = await connection.fetch("SELECT resource_name FROM resource_types ORDER BY position")
    assert tuple(share) == (40, "Production", 2), "a correction outlives a load"
    assert [row[0] for row in types] == ["SCORE", "SCORE_HIMEM", "MCORE", "MCORE_HIMEM"]
    async with database.read() as connection:
        order = await connection.fetch("SELECT gshare FROM shares ORDER BY position")
        loads = await connection.fetchval("SELECT count(*) FROM audit_log WHERE verb = 'grid load' AND caller = 'olga'")
    assert [row["gshare"] for row in order] == [one["name"] for one in files["shares"]], "matching follows the file"
    assert loads == 2


async def test_a_grid_without_the_share_of_a_live_task_is_refused(client, database) -> None:
    files = read_grid_folder(EXAMPLES / "grid")
    await client.post("/api/v1/grid/load", json={"files": files})
    async with database.read() as connection:
        await rows.task(connection, gshare="MC", status="running")
    fewer = {**files, "shares": [one for one in files["shares"] if one["name"] != "MC"]}
    reply = (await client.post("/api/v1/grid/load", json={"files": fewer})).json()
    assert not reply["success"]
    assert reply["data"]["problems"][0]["reason"] == "is missing, but 1 live tasks have it"
    assert await count(database, "shares") == len(files["shares"])


async def test_only_an_operator_may_load_and_everybody_may_look(client, context) -> None:
    user = {"Authorization": f"Bearer {context.authority.issue('ursula', ['user'])}"}
    assert (await client.post("/api/v1/grid/load", json={"files": small_grid()}, headers=user)).status_code == 403
    assert (await client.post("/api/v1/grid/load", json={}, headers={"Authorization": ""})).status_code in (401, 422)
    await client.post("/api/v1/grid/load", json={"files": small_grid()})
    queues = (await client.get("/api/v1/grid/queues", headers=user)).json()["data"]
    assert [one["queue"] for one in queues] == ["Q_ALPHA", "Q_BETA", "Q_DELTA", "Q_GAMMA"]
    assert queues[0]["jobs"] == {} and queues[0]["data"]["corepower"] == 10.0
    sites = (await client.get("/api/v1/grid/sites", headers=user)).json()["data"]
    assert (sites[0]["site"], sites[0]["role"]) == ("ALPHA", "nucleus")
    status = (await client.get("/api/v1/grid/status", headers=user)).json()["data"]
    assert status["version"] > 0 and status["network"]["n_links"] == 8


async def test_lists_of_queues_and_sites_are_told_in_part(client, context, database) -> None:
    await client.post("/api/v1/grid/load", json={"files": small_grid()})
    async with database.read() as connection:
        for queue, status, n_jobs in (("Q_BETA", "running", 5), ("Q_DELTA", "running", 7), ("Q_BETA", "activated", 9)):
            row = {"queue": queue, "resource_type": "SCORE", "gshare": "MC", "user_name": "", "status": status}
            await rows.insert(connection, "queue_statistics", {**row, "n_jobs": n_jobs, "n_cores": n_jobs})

    async def listed(what: str, **query: Any) -> list[dict[str, Any]]:
        return (await client.get(f"/api/v1/grid/{what}", params=query)).json()["data"]

    async def queues(**query: Any) -> list[str]:
        return [one["queue"] for one in await listed("queues", records=False, **query)]

    assert await queues(part="alp") == ["Q_ALPHA"] and await queues(part="OFFLINE") == ["Q_DELTA"]
    assert await queues(site="BETA") == ["Q_BETA"] and await queues(site="NOWHERE") == []
    assert await queues(limit=2) == ["Q_ALPHA", "Q_BETA"] and await queues(after="Q_BETA") == ["Q_DELTA", "Q_GAMMA"]
    assert await queues(order="running") == ["Q_DELTA", "Q_BETA", "Q_ALPHA", "Q_GAMMA"]
    assert await queues(order="activated", limit=1) == ["Q_BETA"]
    [beta] = await listed("queues", site="BETA", records=False)
    assert beta["data"] is None and beta["jobs"] == {"running": 5, "activated": 9}
    [beta, delta] = await listed("sites", after="ALPHA", limit=2)
    assert (beta["site"], beta["jobs"], delta["jobs"]) == ("BETA", {"running": 5, "activated": 9}, {"running": 7})
    assert [one["site"] for one in await listed("sites", part="gam")] == ["GAMMA"]


async def test_a_snapshot_is_the_loaded_grid_with_and_without_redis(database, cache: RedisCache, context) -> None:
    await load_grid(database, read_grid_folder(EXAMPLES / "grid"))
    without, first, second = Snapshot(database, context.cache), Snapshot(database, cache), Snapshot(database, cache)
    for snapshot in (without, first, second):
        await snapshot.check()
    assert len(without.world.columns) > 100
    assert first.world.grid == without.world.grid
    assert second.world.grid == without.world.grid, "the second reads the links from Redis"
    await cache.forget_all()
    async with database.read() as connection:
        assert not await second.refresh(connection), "nothing changed"


async def test_a_snapshot_follows_a_grid_change_even_if_the_news_is_lost(database, context) -> None:
    await load_grid(database)
    snapshot = Snapshot(database, context.cache)
    await snapshot.check()
    changed = small_grid()
    changed["queues"]["Q_NEW"] = a_record("Q_NEW", "GAMMA")
    await load_grid(database, changed)
    await snapshot.check()
    assert "Q_NEW" in snapshot.world.columns.rows_of_queue


async def test_a_queue_with_a_policy_that_cannot_be_read_is_refused_with_key_and_reason(client, database) -> None:
    files = small_grid()
    files["queues"]["Q_ALPHA"]["fairsharepolicy"] = "type=evgen:100%,priority=>500:0"
    reply = (await client.post("/api/v1/grid/load", json={"files": files})).json()
    assert not reply["success"]
    (problem,) = reply["data"]["problems"]
    assert (problem["key"], problem["field"]) == ("Q_ALPHA", "fairsharepolicy")
    assert "operator '=>' is unknown" in problem["reason"] and await count(database, "queues") == 0


async def test_fields_of_queues_that_nothing_reads_are_counted_and_named_but_refuse_nothing(client) -> None:
    files = small_grid()
    plain = (await client.post("/api/v1/grid/load", json={"files": files})).json()
    files["queues"]["Q_ALPHA"] |= {"maxrs": 4000, "colour": "red"}
    files["queues"]["Q_BETA"] |= {"maxrs": 5000}
    reply = (await client.post("/api/v1/grid/load", json={"files": files})).json()
    assert reply["success"]
    told = reply["data"]["unread_queue_fields"]
    assert told["count"] == plain["data"]["unread_queue_fields"].get("count", 0) + 2
    assert {"colour", "maxrs"} <= set(told["names"])
    assert f"; {told['count']} fields of queues are not read: " in reply["message"] and "maxrs" in reply["message"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda client: client.post("/api/v1/grid/load", json={"keep_times": False}), "files: is needed"),
        (
            lambda client: client.post("/api/v1/grid/load", json={"files": {}, "fast": 1}),
            "fast = 1: unknown field",
        ),
        (lambda client: client.post("/api/v1/grid/load", content="{", headers=JSON), "body: is not JSON: "),
    ],
    ids=["no files", "unknown field", "no JSON"],
)
async def test_a_request_that_cannot_be_is_refused_in_the_envelope_of_every_reply(client, ask, message) -> None:
    reply = await ask(client)
    assert reply.status_code == 200
    body = reply.json()
    assert body["success"] is False and body["message"].startswith(message)
    assert body["problems"][0]["field"] == message.split(":")[0].split(" = ")[0]


async def test_no_statement_is_given_all_records_of_a_large_grid(
    client: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    run = Queries.run

    async def counted(self: Queries, connection: Any, name: str, /, **arguments: Any) -> Any:
        sizes.append(len(arguments.get("records", ())))
        return await run(self, connection, name, **arguments)

    monkeypatch.setattr(Queries, "run", counted)
    files = small_grid()
    for kind, given in (("queues", "Q_ALPHA"), ("storages", "ALPHA_DATADISK"), ("sites", "ALPHA")):
        files[kind] |= {f"MORE_{n}": {**files[kind][given], _NAMED[kind]: f"MORE_{n}"} for n in range(130)}
    files["software_map"] = {f"MORE_{n}": {} for n in range(130)}
    reply = (await client.post("/api/v1/grid/load", json={"files": files})).json()
    assert reply["success"], reply
    assert reply["data"]["queues"] == 134 and await count(database, "queues") == 134
    assert max(sizes) == WRITTEN_TOGETHER == 100


_NAMED = {"queues": "siteid", "storages": "ddm_endpoint_name", "sites": "name"}
