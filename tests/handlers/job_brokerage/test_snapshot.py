"""The world in memory: never torn, and for analysis the same sums as the rows of a world file."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from services.cli.dry_run.world_of_file import usage_of
from services.job_brokerage.store.usage import UsageSnapshot, read_own
from services.job_brokerage.store.worlds import save_world
from shared.auth import Caller
from shared.brokerage.usage import CLASSIFIED_SHARES, UsageRows
from shared.cache import NullCache
from shared.db import Database
from shared.model.grid import parse_grid
from shared.snapshot import Snapshot
from shared.snapshot.reader import COUNTED_WITHIN_S
from tests import rows
from tests.handlers.grids import load_grid, small_grid

QUEUES, SHARES, USERS = ("Q_ALPHA", "Q_BETA", "Q_GAMMA"), (*sorted(CLASSIFIED_SHARES), "MC"), ("alice", "bob", "carol")

OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


async def test_while_a_new_grid_is_read_columns_and_numbers_belong_together(database: Database, monkeypatch) -> None:
    await load_grid(database)
    snapshot = Snapshot(database, NullCache())
    await snapshot.check()
    before = snapshot.world
    files = small_grid()
    files["queues"]["Q_EXTRA"] = {**files["queues"]["Q_ALPHA"], "siteid": "Q_EXTRA"}
    await load_grid(database, files)
    check, go_on = await _reading(snapshot, monkeypatch)
    snapshot.assign(5, {"Q_ALPHA/SCORE": 3})
    assert snapshot.world.columns is before.columns
    assert snapshot.world.load["defined"][before.columns.row_of_label["Q_ALPHA/SCORE"]] == 3
    snapshot.withdraw(6)
    go_on.set()
    await check
    assert "Q_EXTRA/SCORE" in snapshot.world.columns.labels
    assert len(snapshot.world.load.running) == len(snapshot.world.columns)
    assert snapshot.world.load["defined"][snapshot.world.columns.row_of_label["Q_ALPHA/SCORE"]] == 3


async def _reading(snapshot: Snapshot, monkeypatch) -> tuple[asyncio.Task[None], asyncio.Event]:
    """A check that has begun to read the statistics, and what lets it go on."""
    reading, go_on = asyncio.Event(), asyncio.Event()
    read = snapshot._reader.statistics

    async def slowly(connection, queues=None):
        reading.set()
        await go_on.wait()
        return await read(connection, queues)

    monkeypatch.setattr(snapshot._reader, "statistics", slowly)
    check = asyncio.create_task(snapshot.check())
    await asyncio.wait_for(reading.wait(), 60)
    return check, go_on


async def _assigned(database: Database) -> Snapshot:
    """Three jobs each of chunks 5 (counted long ago), 6 (counted just now), 7 (made none) and 8 are expected."""
    await load_grid(database)
    snapshot = Snapshot(database, NullCache())
    await snapshot.check()
    for chunk_id in (5, 6, 7, 8):
        snapshot.assign(chunk_id, {"Q_ALPHA/SCORE": 3})
    async with database.read() as connection:
        task_id = await rows.task(connection)
        long_ago = await connection.fetchval("SELECT orrery_now() - interval '10 seconds'")
        await rows.insert(connection, "counted_chunks", {"chunk_id": 5, "counted_at": long_ago})
        await rows.insert(connection, "counted_chunks", {"chunk_id": 6})
        for chunk_id, status in ((7, "returned"), (8, "offered")):
            chunk = {"chunk_id": chunk_id, "task_id": task_id, "kind": "normal", "status": status, "n_files": 1}
            await rows.insert(connection, "chunks", chunk)
    return snapshot


async def test_jobs_that_the_database_has_counted_are_not_expected_although_their_news_was_lost(
    database: Database,
) -> None:
    snapshot = await _assigned(database)
    row = snapshot.world.columns.row_of_label["Q_ALPHA/SCORE"]
    assert snapshot.world.load["defined"][row] == 12
    await snapshot.check()
    assert [chunk_id for chunk_id in (5, 6, 7, 8) if snapshot.expects(chunk_id)] == [6, 8]
    assert snapshot.world.load["defined"][row] == 6


@pytest.mark.parametrize(("status", "is_expected"), [("activated", True), ("sent", True), ("running", False)])
@pytest.mark.parametrize("made_s_ago", [10, 60])
async def test_jobs_whose_event_was_lost_are_expected_as_long_as_one_of_them_waits(
    database: Database, status: str, is_expected: bool, made_s_ago: int
) -> None:
    await load_grid(database)
    snapshot = Snapshot(database, NullCache())
    await snapshot.check()
    snapshot.assign(5, {"Q_ALPHA/SCORE": 2})
    async with database.read() as connection:
        task_id = await rows.task(connection)
        ended_at = await connection.fetchval("SELECT orrery_now() - make_interval(secs => $1)", made_s_ago)
        chunk = {"chunk_id": 5, "task_id": task_id, "kind": "normal", "status": "used", "n_files": 2, "n_jobs": 2}
        await rows.insert(connection, "chunks", {**chunk, "ended_at": ended_at})
        for one in ("finished", status):
            await rows.job(connection, task_id, chunk_id=5, queue="Q_ALPHA", status=one)
        await rows.job(connection, task_id, chunk_id=6, queue="Q_ALPHA", status="activated")
    await snapshot.check()
    assert snapshot.expects(5) is (is_expected or made_s_ago < COUNTED_WITHIN_S)


async def test_jobs_are_expected_until_the_statistics_that_count_them_are_read(database: Database, monkeypatch) -> None:
    snapshot = await _assigned(database)
    row = snapshot.world.columns.row_of_label["Q_ALPHA/SCORE"]
    async with database.read() as connection:
        version = await connection.fetchval(
            "INSERT INTO versions (name, version) VALUES ('statistics', 1)"
            " ON CONFLICT (name) DO UPDATE SET version = versions.version + 1 RETURNING version"
        )
        counted = {"queue": "Q_ALPHA", "resource_type": "SCORE", "gshare": "MC", "user_name": "alice"}
        await rows.insert(connection, "queue_statistics", {**counted, "status": "defined", "n_jobs": 3, "n_cores": 3})
        await rows.insert(connection, "queue_activity", {"queue": "Q_ALPHA", "statistics_version": version})
    check, go_on = await _reading(snapshot, monkeypatch)
    assert snapshot.world.load["defined"][row] == 12
    go_on.set()
    await check
    assert snapshot.world.load["defined"][row] == 9


async def a_busy_day(database: Database, rng: random.Random) -> None:
    """Rows of every table that analysis looks at."""
    async with database.read() as connection:
        hour = await connection.fetchval("SELECT date_trunc('hour', orrery_now())")
        for queue in QUEUES:
            for gshare in SHARES:
                for user in USERS:
                    for status in ("running", "activated", "sent", "transferring", "defined"):
                        if rng.random() < 0.6:
                            counted = {"queue": queue, "gshare": gshare, "user_name": user, "status": status}
                            numbers = {"n_jobs": rng.randint(-2, 30), "n_cores": rng.randint(-2, 90)}
                            resource_type = rng.choice(("SCORE", "MCORE"))
                            row = {**counted, **numbers, "resource_type": resource_type}
                            await rows.insert(connection, "queue_statistics", row)
                for back in (0, 3, 7, 30):
                    at = {"hour": hour - timedelta(hours=back), "queue": queue, "gshare": gshare}
                    for task_id in (1, 2):
                        counts = {"n_started": rng.randint(0, 9), "n_failed": rng.randint(0, 5)}
                        await rows.insert(connection, "queue_outcomes", {**at, "task_id": task_id, **counts})
                    waits = {"n_jobs": 3, "wait_s": rng.uniform(0, 9e4), "wait_squared_s2": 4e9}
                    await rows.insert(
                        connection, "queue_waits", {**at, "job_type": rng.choice(("merge", "x")), **waits}
                    )
        task_id = await rows.task(connection, task_type="anal", user_name="alice", working_group="phys")
        for status in ("activated", "starting", "running", "sent"):
            await rows.job(connection, task_id, queue="Q_BETA", job_type="merge", status=status, core_count=4)
        await rows.insert(connection, "users", {"user_name": "alice", "disk_quota_gb": 10, "disk_used_gb": 3})


async def rows_of_file(database: Database) -> UsageRows:
    async with database.read() as connection:
        file = await save_world(connection, OPERATOR)
    return usage_of(file, parse_grid(file.grid_files()).shares)


@pytest.mark.parametrize("seed", range(3))
async def test_what_analysis_reads_live_is_what_follows_from_the_rows_of_the_world_file(
    database: Database, seed: int
) -> None:
    await load_grid(database)
    await a_busy_day(database, random.Random(seed))
    counted = await rows_of_file(database)
    async with database.read() as connection:
        live = await UsageSnapshot().current(connection)
        own = await read_own(connection, task_id=2, user_name="alice", vo="demo", working_group="phys")
    assert live == counted.shared()
    assert own == counted.own(task_id=2, user_name="alice", working_group="phys", vo="demo")
    assert (own.group.queued_jobs, own.group.running_cores) == (3, 4)


async def test_only_queues_that_changed_are_read_again(database: Database) -> None:
    await load_grid(database)
    await a_busy_day(database, random.Random(9))
    usage = UsageSnapshot()
    async with database.read() as connection:
        before = await usage.current(connection)
        await connection.execute("UPDATE queue_statistics SET n_jobs = n_jobs + 5 WHERE status = 'running'")
        assert await usage.current(connection) == before, "nobody said that anything changed"
        usage.mark(["Q_BETA"])
        after = await usage.current(connection)
        assert after.queues["Q_ALPHA"] is before.queues["Q_ALPHA"]
        assert after.queues["Q_BETA"] == (await rows_of_file(database)).shared().queues["Q_BETA"]
        await connection.execute("DELETE FROM queue_statistics WHERE queue = 'Q_BETA'")
        usage.mark(["Q_BETA"])
        assert (await usage.current(connection)).queues["Q_BETA"].shares == {}
        usage.mark(None)
        assert await usage.current(connection) == (await rows_of_file(database)).shared()


async def test_of_the_past_of_a_changed_queue_only_the_last_hours_are_read(database: Database) -> None:
    await load_grid(database)
    await a_busy_day(database, random.Random(4))
    usage = UsageSnapshot()
    async with database.read() as connection:
        before = (await usage.current(connection)).queues["Q_BETA"]
        await connection.execute("UPDATE queue_outcomes SET n_started = 100")
        await connection.execute("UPDATE queue_waits SET n_jobs = 50")
        usage.mark(["Q_BETA"])
        after = (await usage.current(connection)).queues["Q_BETA"]
        now = await connection.fetchval("SELECT date_trunc('hour', orrery_now())")
    old = {(share, hour): number for share, hour, number in before.starts if hour < now - timedelta(hours=1)}
    assert len(old) >= 6 and old.items() <= {(share, hour): n for share, hour, n in after.starts}.items()
    assert {number for _, hour, number in after.starts if hour == now} == {200}
    assert [row for row in before.waits.hours if row[0] < now] == [row for row in after.waits.hours if row[0] < now]
    assert {row[1] for row in after.waits.hours if row[0] == now} <= {50}


async def test_jobs_and_disk_of_a_name_in_another_vo_count_for_nobody_here(database: Database) -> None:
    await load_grid(database)
    async with database.read() as connection:
        for task_id, vo, running in ((1, "atlas", 2), (2, "cms", 5)):
            await rows.task(connection, task_id=task_id, task_type="anal", user_name="ada", vo=vo, working_group="phys")
            await rows.insert(connection, "users", {"user_name": "ada", "vo": vo, "disk_quota_gb": 10 * task_id})
            for _ in range(running):
                job = {"queue": "Q_BETA", "status": "running", "core_count": 4, "user_name": "ada"}
                await rows.job(connection, task_id, **job)
        counted = {"queue": "Q_BETA", "resource_type": "SCORE", "gshare": "MC", "user_name": "ada"}
        for vo, running in (("atlas", 2), ("cms", 5)):
            of_vo = {"vo": vo, "status": "running", "n_jobs": running, "n_cores": 4 * running}
            await rows.insert(connection, "queue_statistics", {**counted, **of_vo})
        for task_id, vo, running in ((1, "atlas", 2), (2, "cms", 5)):
            own = await read_own(connection, task_id=task_id, user_name="ada", vo=vo, working_group="phys")
            assert [(one.status, one.n_jobs, one.n_cores) for one in own.counts] == [("running", running, 4 * running)]
            assert (own.disk.disk_quota_gb, own.group.running_jobs) == (10 * task_id, running)
            told = (await rows_of_file(database)).own(task_id=task_id, user_name="ada", working_group="", vo=vo)
            assert told.disk.disk_quota_gb == 10 * task_id, "a world file tells the quotas of each VO, too"
            assert [one.n_jobs for one in told.counts] == [running]
