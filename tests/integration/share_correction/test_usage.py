"""Usage in buckets on PostgreSQL: late, repeated and concurrent events give the same use as events in order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from services.share_correction.collecting import BUCKET_S, UsageCollection
from services.share_correction.policy.history import table_of
from services.share_correction.store.history import use_over_time
from services.share_correction.store.usage import usage
from shared.auth.reach import EVERYTHING, Reach
from shared.cache import NullCache
from shared.db import Database
from shared.db.unit_of_work import InboxKey
from shared.events import JobMove, JobsEvent, JobsFailed, JobsStarted, OutputsProduced
from shared.snapshot import KnownGrid
from tests import rows
from tests.handlers.grids import load_grid

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY_S = 86_400.0


class Stage:
    """Two replicas of the service on one database and one clock."""

    def __init__(self, databases: list[Database], clock: list[datetime]) -> None:
        self.databases, self.clock = databases, clock
        self.replicas = [UsageCollection(KnownGrid(NullCache()), lambda: DAY_S) for _ in databases]

    async def deliver(self, replica: int, event: JobsEvent) -> None:
        assert event.occurred_at is not None
        key = InboxKey("share-correction.test", event.event_id, event.occurred_at)
        async with self.databases[replica].begin(reason="test", inbox=[key]) as work:
            if work.new_events:
                await self.replicas[replica].on_jobs_moved(event, work)

    async def used(self, span_s: float) -> dict[tuple[str, str, str, str], float]:
        async with self.databases[0].begin(reason="read") as work:
            found = await usage(work.connection, [span_s], BUCKET_S)
        return {
            (row.gshare, row.vo, row.working_group, row.user_name): round(row.hs06_s, 3)
            for row in found
            if abs(row.hs06_s) > 0.001
        }

    async def run(self, name: str) -> None:
        async with self.databases[0].begin(reason=name) as work:
            await getattr(self.replicas[0], name)(work)


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    clock = [START]
    databases = [await Database.connect(database_url, actor="share-correction", now=lambda: clock[0]) for _ in range(2)]
    yield Stage(databases, clock)
    for database in databases:
        await database.close()


def change(
    number: int, seconds: float, before: str, after: str, cores: int = 4, task_id: int = 7, queue: str = "Q"
) -> JobsEvent:
    kinds: dict[str, type[JobsEvent]] = {"running": JobsStarted, "holding": OutputsProduced}
    move = JobMove(
        task_id=task_id, queue=queue, resource_type="SCORE", gshare="MC", user_name=f"user{number % 3}",
        from_status=before, to_status=after, n_jobs=1, n_cores=cores,
    )  # fmt: skip
    return kinds.get(after, JobsFailed)(event_id=number, occurred_at=START + timedelta(seconds=seconds), moves=(move,))


def history(rng: random.Random, count: int = 40) -> list[JobsEvent]:
    """Jobs of a few minutes to hours, some of which have not ended."""
    events = []
    for number in range(0, 3 * count, 3):
        begin_s, length_s, cores = rng.randint(0, 9000), rng.randint(1, 9000), rng.randint(1, 8)
        ends = "holding" if rng.random() < 0.7 else "failed"
        events.append(change(number + number // 3 % 3 * 3, begin_s, "sent", "running", cores))
        if begin_s + length_s < 10_000:
            events.append(change(10_000 + number + number // 3 % 3 * 3, begin_s + length_s, "running", ends, cores))
    unique = {event.event_id: event for event in events}
    return sorted(unique.values(), key=lambda event: event.occurred_at or START)


async def test_late_repeated_and_concurrent_events_change_nothing(stage: Stage) -> None:
    rng = random.Random(11)
    events = history(rng)
    stage.clock[0] = START + timedelta(seconds=10_000)
    for event in events:
        await stage.deliver(0, event)
    in_order = [await stage.used(span_s) for span_s in (3600.0, 7200.0, DAY_S)]
    async with stage.databases[0].begin(reason="again") as work:
        await work.connection.execute("TRUNCATE usage_buckets, usage_levels")
        await work.connection.execute("DELETE FROM inbox")

    mixed = [*events, *events, *rng.sample(events, len(events) // 2)]
    rng.shuffle(mixed)
    for at in range(0, len(mixed), 8):  # both replicas at once, some of them with the same event
        together = mixed[at : at + 8]
        await asyncio.gather(*(stage.deliver(number % 2, event) for number, event in enumerate(together)))
    assert [await stage.used(span_s) for span_s in (3600.0, 7200.0, DAY_S)] == in_order
    assert all(in_order)


async def test_usage_is_that_of_the_vo_group_and_power_of_what_ran(stage: Stage) -> None:
    async with stage.databases[0].read() as connection:
        await rows.task(connection, task_id=7, vo="atlas", working_group="GP_phys")
    await load_grid(stage.databases[0])
    async with stage.databases[0].read() as connection:
        power = await connection.fetchval("SELECT (data ->> 'corepower')::float8 FROM queues WHERE queue = 'Q_ALPHA'")
    await stage.deliver(0, change(0, 60, "sent", "running", cores=4, queue="Q_ALPHA"))
    await stage.deliver(0, change(3, 60, "sent", "running", cores=4, task_id=8))
    stage.clock[0] = START + timedelta(seconds=660)
    assert await stage.used(DAY_S) == {
        ("MC", "atlas", "GP_phys", "user0"): 4 * 600 * power,
        ("MC", "", "", "user0"): 4 * 600 * 10.0,
    }


async def test_old_buckets_leave_the_level_with_which_the_oldest_kept_begins(stage: Stage) -> None:
    await stage.deliver(0, change(0, 0, "sent", "running", cores=2))  # never ends
    await stage.deliver(0, change(1, 0, "sent", "running", cores=8))
    await stage.deliver(0, change(4, 600, "running", "holding", cores=8))
    stage.clock[0] = START + timedelta(days=9)
    before = await stage.used(3600.0)
    await stage.run("forget")
    async with stage.databases[0].read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM usage_buckets") == 0
        assert await connection.fetch("SELECT user_name, cores FROM usage_levels") == [("user0", 2)]
    assert await stage.used(3600.0) == before == {("MC", "", "", "user0"): 2 * 3600 * 10.0}


async def test_use_over_time_is_told_in_buckets_whether_anything_is_corrected_or_not(stage: Stage) -> None:
    """12:00 is a multiple of the width; user0 runs 4 cores (40 HS06) from 12:30, user1 8 cores from 12:00 to 13:30."""
    await stage.deliver(0, change(0, 1800, "sent", "running", cores=4))
    await stage.deliver(0, change(1, 0, "sent", "running", cores=8))
    await stage.deliver(0, change(4, 5400, "running", "holding", cores=8))
    stage.clock[0] = START + timedelta(hours=3)
    async with stage.databases[0].read() as connection:
        by_share = await use_over_time(connection, None, 3 * 3600.0, 3600, EVERYTHING)
        by_user = await use_over_time(connection, "MC", 3 * 3600.0, 3600, EVERYTHING)
        told_to_user0 = await use_over_time(connection, "MC", 3 * 3600.0, 3600, Reach("user0", None, []))
    assert [(row["name"], round(row["hs06_s"])) for row in by_share] == [
        ("MC", 40 * 1800 + 80 * 3600), ("MC", 40 * 3600 + 80 * 1800), ("MC", 40 * 3600),
    ]  # fmt: skip
    assert [row["begins_at"] for row in by_share] == [START + timedelta(hours=number) for number in range(3)]
    table = table_of(by_user)
    assert table["names"] == ["user1", "user0"]
    assert [(one["hs06"], one["percent"]) for one in table["buckets"]] == [
        (100.0, {"user0": 20.0, "user1": 80.0}), (80.0, {"user0": 50.0, "user1": 50.0}),
        (40.0, {"user0": 100.0, "user1": 0.0}),
    ]  # fmt: skip
    mine = table_of(told_to_user0)
    assert mine["names"] == ["user0", "others"]
    assert mine["buckets"][0]["percent"] == {"others": 80.0, "user0": 20.0}

    # in the middle of a bucket the last one ends now, and what was forgotten lasts as a level
    stage.clock[0] = START + timedelta(days=20, minutes=10)
    await stage.run("forget")
    async with stage.databases[0].read() as connection:
        later = await use_over_time(connection, None, 3600.0, 3600, EVERYTHING)
    assert [round(row["hs06_s"]) for row in later] == [40 * 3600, 40 * 600]


async def counted(connection, user_name: str, n_cores: int) -> None:
    """A running job of a user, as the statistics have it."""
    await rows.insert(
        connection, "queue_statistics",
        {"queue": "Q", "resource_type": "SCORE", "gshare": "MC", "user_name": user_name, "status": "running", "vo": "",
         "n_jobs": 1, "n_cores": n_cores},
    )  # fmt: skip


async def test_what_runs_corrects_usage_after_two_looks(stage: Stage) -> None:
    async with stage.databases[0].read() as connection:
        await rows.job(connection, 7, status="running", gshare="MC", user_name="ann", core_count=4)
        await rows.job(connection, 7, status="activated", gshare="MC", user_name="ann", core_count=4)
        await rows.task(connection, task_id=7, user_name="ann", vo=None, status="running")
        await counted(connection, "ann", n_cores=4)
    await stage.deliver(0, change(0, 0, "sent", "running", cores=2))  # its job does not run any more
    for minutes in (5, 10):
        stage.clock[0] = START + timedelta(minutes=minutes)
        await stage.run("compare")
    stage.clock[0] = START + timedelta(minutes=20)
    assert await stage.used(DAY_S) == {
        ("MC", "", "", "ann"): 4 * 600 * 10.0,
        ("MC", "", "", "user0"): 2 * 600 * 10.0,
    }
    await stage.run("compare")
    async with stage.databases[0].read() as connection:
        levels = await connection.fetch(
            "SELECT user_name, sum(cores)::int FROM usage_buckets GROUP BY 1 HAVING sum(cores) <> 0"
        )
    assert [tuple(row) for row in levels] == [("ann", 4)]


async def test_of_whom_the_statistics_are_wrong_usage_is_not_corrected(stage: Stage) -> None:
    """The jobs themselves say what runs; the statistics only say whose are counted."""
    async with stage.databases[0].read() as connection:
        await rows.task(connection, task_id=7, user_name="user0", vo=None, status="running")
        await rows.job(connection, 7, status="running", gshare="MC", user_name="user0", core_count=2)
        await counted(connection, "user0", n_cores=6)
    await stage.deliver(0, change(0, 0, "sent", "running", cores=2))
    for minutes in (5, 10, 15):
        stage.clock[0] = START + timedelta(minutes=minutes)
        await stage.run("compare")
    assert await stage.used(DAY_S) == {("MC", "", "", "user0"): 2 * 900 * 10.0}


async def test_a_difference_goes_to_the_working_group_whose_jobs_differ(stage: Stage) -> None:
    async with stage.databases[0].read() as connection:
        for task_id, group, cores in ((7, "A", 2), (8, "B", 4)):
            await rows.task(
                connection, task_id=task_id, user_name="user0", vo=None, working_group=group, status="running"
            )
            await rows.job(connection, task_id, status="running", gshare="MC", user_name="user0", core_count=cores)
        await counted(connection, "user0", n_cores=6)
    await stage.deliver(0, change(0, 0, "sent", "running", cores=2))
    for minutes in (5, 10):
        stage.clock[0] = START + timedelta(minutes=minutes)
        await stage.run("compare")
    stage.clock[0] = START + timedelta(minutes=20)
    assert await stage.used(DAY_S) == {
        ("MC", "", "A", "user0"): 2 * 1200 * 10.0, ("MC", "", "B", "user0"): 4 * 600 * 10.0,
    }  # fmt: skip
