"""A snapshot that somebody holds for an hour stops nothing, and is told; what had to wait is done after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from services.watchdog.checking import run_checks
from services.watchdog.diagnosing import condition
from shared.db.partitions import make_next_partition
from shared.db.waits import RowHeld
from tests import rows
from tests.handlers.watchdog.conftest import Stage
from tests.handlers.watchdog.rounds import Rounds, ended_job, ended_task

#: what is stopped would wait for the snapshot, which does not end
NOT_STOPPED_S = 30.0
READ = ("tasks", "jobs", "jobs_archive", "transition_log", "inbox", "job_specs", "transfers", "chunks")


@pytest.fixture
async def snapshot(stage: Stage, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of somebody else, who has read every table of these and goes on for an hour."""
    day = stage.clock.now.date()
    async with stage.database.read() as connection:
        for table in ("inbox", "transition_log", "jobs_archive"):
            await connection.execute("SELECT ensure_day_partitions($1, $2, 1)", table, day)
        await connection.execute("INSERT INTO inbox (event_day, consumer, event_id) VALUES ($1, 'c', 1)", day)
    task = await ended_task(stage)
    await ended_job(stage, task)
    async with stage.database.read() as connection:
        await rows.chunk(connection, task, status="used", n_jobs=2)
    session = await asyncpg.connect(database_url, server_settings={"application_name": "a notebook"})
    transaction = session.transaction(isolation="repeatable_read", readonly=True)
    await transaction.start()
    for table in READ:
        await session.fetchval(f"SELECT count(*) FROM {table}")
    yield session
    await session.close()


async def test_retention_checks_partitions_and_sweeps_go_on_beside_it(
    stage: Stage, snapshot: asyncpg.Connection
) -> None:
    rounds = Rounds(stage)
    stage.clock.forward(days=31)
    async with asyncio.timeout(NOT_STOPPED_S):
        await rounds.once()
        await stage.sweep()
        async with stage.database.read() as connection:
            await run_checks(connection)
        with pytest.raises(RowHeld):  # after a moment: it is tried again later
            async with stage.database.begin(reason="partitions") as work:
                await make_next_partition(work.connection)
    for table in ("job_specs", "transfers", "chunks"):
        assert await rounds.count(table) == 0, table
        assert await snapshot.fetchval(f"SELECT count(*) FROM {table}") == 1, f"{table}: it reads what was"
    is_there = "SELECT to_regclass('inbox_20260301') IS NOT NULL"
    assert await stage.value(is_there), "a partition that is read stays"
    await snapshot.close()
    await rounds.once()
    assert not await stage.value(is_there)
    async with stage.database.begin(reason="partitions") as work:
        assert await make_next_partition(work.connection) is not None


async def test_operators_are_told_who_holds_back_the_horizon_of_vacuum(
    stage: Stage, snapshot: asyncpg.Connection
) -> None:
    started = await stage.value("SELECT xact_start FROM pg_stat_activity WHERE application_name = 'a notebook'")
    pid = snapshot.get_server_pid()
    for minutes, told in ((9, False), (61, True)):
        stage.clock.now = started
        stage.clock.forward(minutes=minutes)
        async with stage.database.read() as connection:
            found = [one for one in (await condition(connection))["findings"] if "an old snapshot" in one["what"]]
        assert [one["what"].partition(" holds ")[0] for one in found] == [f"a notebook ({pid})"] * told
        assert [one["since"] for one in found] == [started] * told
    await snapshot.execute("ROLLBACK")
    async with stage.database.read() as connection:
        assert not any("transaction open" in one["what"] for one in (await condition(connection))["findings"])
