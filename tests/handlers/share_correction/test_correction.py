"""Usage is sampled, factors follow it, and every dispatcher hears of a change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import httpx
import orjson
import pytest

from services.share_correction.app import build, find_corrector
from services.share_correction.handlers import ShareCorrection
from shared.auth import Authority
from shared.config.parameters import Parameters
from shared.db import Database
from shared.runtime.service import Context
from tests import rows
from tests.applications import application_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Stage:
    def __init__(self, database: Database, clock: list[datetime]) -> None:
        self.database, self.clock = database, clock
        self.parameters = Parameters()
        self.correction = ShareCorrection(self.parameters, find_corrector)

    async def sample(self) -> None:
        async with self.database.begin(reason="sample") as work:
            await self.parameters.refresh(work.connection)
            await self.correction.collect_usage(work)

    async def correct(self) -> list[dict[str, object]]:
        async with self.database.begin(reason="correct") as work:
            await self.parameters.refresh(work.connection)
            await self.correction.correct_shares(work)
        async with self.database.read() as connection:
            taken = await connection.fetch("DELETE FROM outbox RETURNING routing_key, body")
        return [{"key": row["routing_key"], **orjson.loads(row["body"])} for row in taken]


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    clock = [START]
    database = await Database.connect(database_url, actor="share-correction", now=lambda: clock[0])
    yield Stage(database, clock)
    await database.close()


async def shares(connection: asyncpg.Connection, **values: float) -> None:
    for name, value in values.items():
        await connection.execute("INSERT INTO shares (gshare, value) VALUES ($1, $2)", name, value)


async def running(connection: asyncpg.Connection, gshare: str, count: int, user: str = "alice") -> None:
    for _ in range(count):
        await rows.job(connection, 1, status="running", gshare=gshare, user_name=user, core_count=4)


async def factors(stage: Stage) -> dict[str, float]:
    async with stage.database.read() as connection:
        found = await connection.fetch("SELECT gshare, correction_factor FROM shares")
    return {row["gshare"]: row["correction_factor"] for row in found}


async def test_a_sample_counts_running_jobs_and_cores_once_per_period(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await running(connection, "mc", 3)
        await running(connection, "mc", 2, user="bob")
        await rows.job(connection, 1, status="activated", gshare="mc")
        await stage.sample()
        await stage.sample()
        found = await connection.fetch("SELECT * FROM usage_history ORDER BY user_name")
        assert [(r["gshare"], r["user_name"], r["running_jobs"], r["running_cores"], r["at"]) for r in found] == [
            ("mc", "alice", 3, 12, START),
            ("mc", "bob", 2, 8, START),
        ]
        stage.clock[0] += timedelta(seconds=61)
        await stage.sample()
        assert await connection.fetchval("SELECT count(*) FROM usage_history") == 4
        stage.clock[0] += timedelta(days=9)
        await stage.sample()
        assert await connection.fetchval("SELECT count(*) FROM usage_history") == 2


async def test_a_share_that_runs_too_much_is_corrected_and_everyone_hears_of_it(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        await running(connection, "mc", 3)
        await running(connection, "data", 1)
        await stage.sample()
        before = await connection.fetchval("SELECT version FROM versions WHERE name = 'shares'")
        (event,) = await stage.correct()
        assert (event["key"], event["shares_version"]) == ("shares.corrected.v1", before + 1)
        # both slices: 0.5/0.75 and 0.5/0.25
        assert await factors(stage) == pytest.approx({"mc": 2 / 3, "data": 2.0})
        assert await stage.correct() == []  # not its turn
        stage.clock[0] += timedelta(minutes=15)
        assert await stage.correct() == []  # its turn; nothing changed


async def test_old_usage_counts_for_the_week_only(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        for at, mc, data in ((START - timedelta(days=2), 100, 0), (START, 10, 10)):
            for gshare, count in (("mc", mc), ("data", data)):
                if count:
                    await connection.execute(
                        "INSERT INTO usage_history VALUES ($1, 'alice', $2, $3, $3)", gshare, at, count
                    )
        await stage.correct()
    week = {"mc": 0.5 / (110 / 120), "data": min(2, 0.5 / (10 / 120))}
    assert await factors(stage) == pytest.approx({name: 0.8 * week[name] + 0.2 for name in week})


async def test_switched_off_all_factors_go_back_to_one(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        await connection.execute("UPDATE shares SET correction_factor = 2 WHERE gshare = 'mc'")
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type)"
            " VALUES ('share_correction', 'EnableSharesCorrection', 'false', 'bool')"
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    assert len(await stage.correct()) == 1
    assert await factors(stage) == {"mc": 1.0, "data": 1.0}


async def test_a_wrong_configuration_corrects_nothing_and_is_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        await running(connection, "mc", 3)
        await stage.sample()
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type)"
            " VALUES ('share_correction', 'WMSHistory', '{\"G\": {\"s\": {\"TimeSpan\": -1}}}', 'json')"
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
    assert await stage.correct() == []
    assert "WMSHistory/G/s/TimeSpan: -1" in caplog.text


async def test_users_of_a_share_are_corrected_by_an_instance_of_that_group(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, user=100)
        await running(connection, "user", 3, user="ann")
        await running(connection, "user", 1, user="bob")
        await stage.sample()
        section = {"U": {"Group": "user", "s": {"MaxCorrection": 4}}}
        await connection.execute(
            "INSERT INTO parameters (component, key, value, type)"
            " VALUES ('share_correction', 'WMSHistory', $1, 'json')",
            orjson.dumps(section).decode(),
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
        await stage.correct()
        found = await connection.fetch("SELECT user_name, correction_factor FROM user_corrections ORDER BY user_name")
    assert [(row["user_name"], row["correction_factor"]) for row in found] == [
        ("ann", pytest.approx(2 / 3)),
        ("bob", pytest.approx(2)),
    ]


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
