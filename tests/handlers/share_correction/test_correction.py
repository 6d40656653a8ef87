"""Factors follow what shares and users used, by VO, and every dispatcher hears of a change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import orjson
import pytest

from services.share_correction.app import find_corrector
from services.share_correction.collecting import BUCKET_S
from services.share_correction.handlers import ShareCorrection
from services.share_correction.policy.buckets import bucket_end
from shared.config.parameters import Parameters
from shared.db import Database

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CORES_S = 36_000.0
SLICES = {"week": {"TimeSpan": 604800, "MaxCorrection": 4}}


class Stage:
    def __init__(self, database: Database, clock: list[datetime]) -> None:
        self.database, self.clock = database, clock
        self.parameters = Parameters()
        self.correction = ShareCorrection(self.parameters, find_corrector)

    async def correct(self) -> list[dict[str, object]]:
        async with self.database.begin(reason="correct") as work:
            await self.parameters.refresh(work.connection)
            await self.correction.correct_shares(work)
        async with self.database.read() as connection:
            taken = await connection.fetch("DELETE FROM outbox RETURNING routing_key, body")
        return [{"key": row["routing_key"], **orjson.loads(row["body"])} for row in taken]

    async def again(self) -> list[dict[str, object]]:
        self.clock[0] += timedelta(minutes=15)
        return await self.correct()

    async def configure(self, key: str, value: object, vo: str = "") -> None:
        kind = "bool" if isinstance(value, bool) else "json"
        async with self.database.read() as connection:
            await connection.execute(
                "INSERT INTO parameters (component, key, vo, value, type) VALUES ('share_correction', $1, $2, $3, $4)",
                key, vo, orjson.dumps(value).decode(), kind,
            )  # fmt: skip
            await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")

    async def factors(self) -> dict[str, float]:
        async with self.database.read() as connection:
            found = await connection.fetch("SELECT gshare, correction_factor FROM shares")
        return {row["gshare"]: row["correction_factor"] for row in found}

    async def user_factors(self) -> dict[tuple[str, str], float]:
        async with self.database.read() as connection:
            found = await connection.fetch("SELECT * FROM user_corrections ORDER BY gshare, user_name")
        return {(row["gshare"], row["user_name"]): row["correction_factor"] for row in found}


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    clock = [START]
    database = await Database.connect(database_url, actor="share-correction", now=lambda: clock[0])
    yield Stage(database, clock)
    await database.close()


async def shares(connection: asyncpg.Connection, **values: float) -> None:
    for name, value in values.items():
        await connection.execute("INSERT INTO shares (gshare, value) VALUES ($1, $2)", name, value)


async def used(
    connection: asyncpg.Connection,
    gshare: str,
    count: float,
    user: str = "ann",
    vo: str = "",
    ago: timedelta = timedelta(),
) -> None:
    """`count` parts of use, in a bucket of a time ago."""
    await connection.execute(
        "INSERT INTO usage_buckets VALUES ($1, $2, $3, '', $4, 0, 0, $5, $5)",
        bucket_end(START - ago, BUCKET_S), gshare, vo, user, count * CORES_S,
    )  # fmt: skip


async def test_a_share_that_used_too_much_is_corrected_and_everyone_hears_of_it(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        await used(connection, "mc", 3)
        await used(connection, "data", 1)
        before = await connection.fetchval("SELECT version FROM versions WHERE name = 'shares'")
        (event,) = await stage.correct()
        assert (event["key"], event["shares_version"]) == ("shares.corrected.v1", before + 1)
        # both slices: 0.5/0.75 and 0.5/0.25
        assert await stage.factors() == pytest.approx({"mc": 2 / 3, "data": 2.0})
        assert await stage.correct() == []  # not its turn
        assert await stage.again() == []  # its turn; nothing changed


async def test_old_usage_counts_for_the_week_only(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        await used(connection, "mc", 100, ago=timedelta(days=2))
        await used(connection, "mc", 10)
        await used(connection, "data", 10)
        await stage.correct()
    week = {"mc": 0.5 / (110 / 120), "data": min(2, 0.5 / (10 / 120))}
    assert await stage.factors() == pytest.approx({name: 0.8 * week[name] + 0.2 for name in week})


@pytest.mark.parametrize("skew", [1e3, 1e6])
async def test_a_skewed_history_corrects_within_the_limits_of_the_documents(stage: Stage, skew: float) -> None:
    """Weight 80 with at most 2 and weight 20 with at most 5: up to 2.6, down to 0.8 / 2 + 0.2 / 5; never beyond x3."""
    async with stage.database.read() as connection:
        await shares(connection, much=50, little=49, new=1)
        await used(connection, "much", skew)
        await used(connection, "little", 1)
        await stage.correct()
    found = await stage.factors()
    assert found == pytest.approx({"much": 0.8 * 0.5 + 0.2 * 0.5, "little": 2.6, "new": 2.6}, rel=1e-3)
    assert all(1 / 3 <= factor <= 3 for factor in found.values())


async def test_switched_off_all_factors_go_back_to_one(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        await connection.execute("UPDATE shares SET correction_factor = 2 WHERE gshare = 'mc'")
        await connection.execute("INSERT INTO user_corrections VALUES ('mc', 'ann', 2)")
    await stage.configure("EnableSharesCorrection", False)
    assert len(await stage.correct()) == 1
    assert await stage.factors() == {"mc": 1.0, "data": 1.0}
    assert await stage.user_factors() == {}


async def test_a_wrong_configuration_corrects_nothing_and_is_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        await used(connection, "mc", 3)
    section = {"ShareCorrectorsToStart": "WMSHistory", "WMSHistory": {"G": {"s": {"TimeSpan": -1}}}}
    await stage.configure("ShareCorrections", section)
    assert await stage.correct() == []
    assert "ShareCorrections/WMSHistory/G/s/TimeSpan: -1" in caplog.text


async def test_users_of_a_share_are_corrected_by_an_instance_of_that_group(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, user=100)
        await used(connection, "user", 3, user="ann")
        await used(connection, "user", 1, user="bob")
    section = {"ShareCorrectorsToStart": "WMSHistory", "WMSHistory": {"U": {"Group": "user", **SLICES}}}
    await stage.configure("ShareCorrections", section)
    (event,) = await stage.correct()
    assert event["key"] == "shares.corrected.v1"
    assert await stage.user_factors() == {("user", "ann"): pytest.approx(2 / 3), ("user", "bob"): pytest.approx(2)}
    assert await stage.again() == []


async def test_each_vo_is_corrected_by_its_own_section_and_by_what_it_used_itself(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50, local=50, other=50)
        await connection.execute("UPDATE shares SET vo = 'atlas' WHERE gshare IN ('mc', 'data')")
        await used(connection, "mc", 3, vo="atlas")
        await used(connection, "data", 1, vo="atlas")
        await used(connection, "data", 100, vo="lhcb", user="someone")  # of another VO: not that share's history
        await used(connection, "local", 3)
        await used(connection, "other", 1)
    section = {"ShareCorrectorsToStart": "WMSHistory", "WMSHistory": {"G": SLICES}}
    await stage.configure("ShareCorrections", section, vo="atlas")
    await stage.configure("ShareCorrections", {"ShareCorrectorsToStart": []})
    await stage.correct()
    assert await stage.factors() == pytest.approx({"mc": 2 / 3, "data": 2.0, "local": 1.0, "other": 1.0})


async def test_the_terms_of_each_correction_are_kept_over_time_and_forgotten(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, mc=50, data=50)
        await used(connection, "mc", 3)
        await used(connection, "data", 1)
        await stage.correct()
        await stage.again()
        kept = await connection.fetch("SELECT * FROM correction_terms WHERE gshare = 'mc' ORDER BY at")
        assert [row["at"] for row in kept] == [START, START + timedelta(minutes=15)]
        first = kept[0]
        assert (first["instance"], first["target"], first["max_global"]) == ("GroupsInstance", 0.5, 3)
        assert first["factor"] == first["total"] == pytest.approx(2 / 3)
        assert first["terms"]["WeekSlice"] == {"used": 0.75, "c": pytest.approx(2 / 3), "weight": 0.8}
        stage.clock[0] += timedelta(days=7)
        async with stage.database.begin(reason="forget") as work:
            await stage.correction.forget_terms(work)
        assert await connection.fetchval("SELECT count(*) FROM correction_terms") == 2  # those of 15 minutes later


async def a_task_queue(connection: asyncpg.Connection, vo: str, group: str, user: str) -> None:
    await connection.execute(
        "INSERT INTO task_queues"
        " (identity, vo, user_name, user_group, cpu_segment_s, sites, banned_sites, platforms, tags, job_types)"
        " VALUES ($1, $2, $3, $4, 3600, '{}', '{}', '{}', '{}', '{}')",
        f"{vo}/{group}/{user}", vo, user, group,
    )  # fmt: skip


async def used_by_group(connection: asyncpg.Connection, vo: str, group: str, user: str, count: float) -> None:
    await connection.execute(
        "INSERT INTO usage_buckets VALUES ($1, 'User', $2, $3, $4, 0, 0, $5, $5)",
        bucket_end(START, BUCKET_S), vo, group, user, count * CORES_S,
    )  # fmt: skip


async def test_groups_of_a_vo_and_users_in_a_group_are_corrected_where_they_have_task_queues(stage: Stage) -> None:
    async with stage.database.read() as connection:
        await shares(connection, User=100)
        for vo, group, user in (
            ("lhcb", "lhcb_user", "ann"),
            ("lhcb", "lhcb_user", "new"),
            ("lhcb", "lhcb_prod", "pia"),
        ):
            await a_task_queue(connection, vo, group, user)
        await a_task_queue(connection, "atlas", "lhcb_user", "other")
        await connection.execute(
            "INSERT INTO user_groups (vo, name, job_share, job_sharing) VALUES ('lhcb', 'lhcb_prod', 3000, true)"
        )
        await used_by_group(connection, "lhcb", "lhcb_user", "ann", 3)
        await used_by_group(connection, "lhcb", "lhcb_user", "gone", 5)  # who has no task queue any more
        await used_by_group(connection, "lhcb", "lhcb_prod", "pia", 1)
    section = {
        "ShareCorrectorsToStart": "WMSHistory",
        "WMSHistory": {
            "Groups": SLICES, "Users": {"Group": "lhcb_user", **SLICES}, "Shared": {"Group": "lhcb_prod", **SLICES},
        },
    }  # fmt: skip
    await stage.configure("ShareCorrections", section, vo="lhcb")
    await stage.configure("ShareCorrections", {"ShareCorrectorsToStart": []})
    assert len(await stage.correct()) == 1
    async with stage.database.read() as connection:
        found = await connection.fetch("SELECT * FROM group_corrections ORDER BY user_group, user_name")
        terms = await connection.fetch(
            "SELECT user_name FROM correction_terms WHERE user_group = 'lhcb_user' ORDER BY 1"
        )
    # groups: 3000 of 4000 are due and a ninth was used; users: half each, all used by one of those with task queues
    assert {(row["vo"], row["user_group"], row["user_name"]): row["correction_factor"] for row in found} == {
        ("lhcb", "lhcb_prod", ""): pytest.approx(4), ("lhcb", "lhcb_user", ""): pytest.approx(0.25 / (8 / 9)),
        ("lhcb", "lhcb_user", "ann"): pytest.approx(0.5), ("lhcb", "lhcb_user", "new"): pytest.approx(4),
    }  # fmt: skip
    assert [row["user_name"] for row in terms] == ["", "ann", "new"]
    assert await stage.again() == []
