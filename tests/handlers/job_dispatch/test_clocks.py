"""The clock of the database is an hour from that of the host, either way: what ends does so by the database's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from services.job_dispatch.app import build_parts
from services.watchdog.app import build as build_watchdog
from shared.auth import Authority
from shared.db import Database
from shared.db import lease as leases
from shared.events import JobsExpired
from shared.runtime.service import Context
from tests.handlers.job_dispatch.calls import acquire, update
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.rows import insert, insert_watch_runs

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
#: of silence of a pilot
LIMIT = 2 * HOUR


@dataclass
class Apart:
    """A dispatcher and a watchdog whose database has another clock than the host; `later`: time that passes there."""

    database: Database
    context: Context
    later: timedelta = timedelta()

    async def look(self) -> list[int]:
        """Whom the watchdog ends now; it ran a minute ago, and a dispatcher is there."""
        async with self.database.begin(reason="test") as work:
            now = work.now
            await work.connection.execute("DELETE FROM watch_runs")
            await work.connection.execute("DELETE FROM dispatch_replicas")
            await insert(work.connection, "dispatch_replicas", {"replica": "a", "seen_at": now})
        await insert_watch_runs(self.database, now - MINUTE)
        service = build_watchdog(replace(self.context, metrics=CollectorRegistry()))
        jobs = next(one for one in service.periodic if one.name == "jobs")
        async with self.database.begin(reason="periodic") as work:
            await jobs.run(work)
            return [job_id for event in work.emitted if isinstance(event, JobsExpired) for job_id in event.job_ids]

    async def silent_for(self, job_id: int, silence: timedelta) -> None:
        """A job runs for longer than its pilot is silent."""
        async with self.database.begin(reason="test") as work:
            await work.connection.execute(
                "UPDATE jobs SET creation_time = $2, state_change_time = $2, heartbeat_at = $3, deadline_at = $3"
                " WHERE job_id = $1",
                job_id, work.now - 2 * LIMIT, work.now - silence,
            )  # fmt: skip


@pytest.fixture(params=[-HOUR, HOUR], ids=["behind", "ahead"])
async def apart(request: pytest.FixtureRequest, database_url: str, context: Context) -> AsyncIterator[Apart]:
    found: list[Apart] = []

    def now() -> datetime:
        return datetime.now(UTC) + request.param + (found[0].later if found else timedelta())

    database = await Database.connect(database_url, actor="test", now=now)
    found.append(Apart(database, replace(context, database=database)))
    yield found[0]
    await database.close()


async def test_a_job_of_a_pilot_runs_to_its_end_and_no_difference_of_clocks_is_silence(
    apart: Apart, rows: Rows, authority: Authority
) -> None:
    here, silent = await rows.jobs(2)
    parts = build_parts(replace(apart.context, metrics=CollectorRegistry()))
    for action in parts.service.on_start:
        await action()
    async with client(parts, authority, "pilot-1", "pilot") as pilot:
        got = [(await acquire(pilot))["jobs"][0]["PandaID"] for _ in range(2)]  # type: ignore[index]
        assert got == [here, silent]
        for job_id in got:
            await update(pilot, job_id, "running")
        assert await apart.look() == [], "an hour between two clocks is no silence"
        async with apart.database.begin(reason="test") as work:
            said_at = "SELECT heartbeat_at FROM jobs WHERE job_id = $1"
            assert timedelta() <= work.now - await work.connection.fetchval(said_at, silent) < MINUTE
        assert await rows.statuses(got) == ["running", "running"]
        await update(pilot, here, "finished")
    assert await rows.statuses(got) == ["holding", "running"]
    await parts.close()


async def test_a_silent_job_ends_just_after_its_limit_by_the_clock_of_the_database(apart: Apart, rows: Rows) -> None:
    over, within = await rows.jobs(2, status="running")
    await apart.silent_for(over, LIMIT + MINUTE)
    await apart.silent_for(within, LIMIT - MINUTE)
    assert await apart.look() == [over]
    assert await rows.statuses([over, within]) == ["failed", "running"]
    apart.later = MINUTE / 2
    assert await apart.look() == []
    apart.later = MINUTE * 2
    assert await apart.look() == [within]


async def test_a_lease_is_kept_and_handed_on_by_the_clock_of_the_database_alone(apart: Apart) -> None:
    first = await leases.take(apart.database, "sweep", holder="a", duration_s=10.0)
    assert first is not None and await leases.take(apart.database, "sweep", holder="b", duration_s=10.0) is None
    apart.later = timedelta(seconds=9)
    assert await leases.take(apart.database, "sweep", holder="b", duration_s=10.0) is None
    apart.later = timedelta(seconds=11)
    second = await leases.take(apart.database, "sweep", holder="b", duration_s=10.0)
    assert second is not None and second.term == first.term + 1
    with pytest.raises(leases.LeaseLost):
        async with apart.database.begin(reason="test") as work:
            await first.fence(work.connection)
