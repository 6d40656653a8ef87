"""Jumbo jobs are switched in PostgreSQL, with an event, every ten minutes at most."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import orjson
import pytest

from services.jumbo_watchdog.handlers import JumboWatchdog
from services.task_definition.tasks.explaining import Explanation
from shared.auth import Caller
from shared.cache import NullCache
from shared.config.parameters import Parameters
from shared.db import Database
from shared.snapshot import KnownGrid
from tests import rows

OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


@pytest.fixture
def clock() -> list[datetime]:
    return [datetime(2026, 3, 1, 12, tzinfo=UTC)]


@pytest.fixture
async def jumbo_database(database_url: str, clock: list[datetime]):
    database = await Database.connect(database_url, actor="jumbo-watchdog", now=lambda: clock[0])
    yield database
    await database.close()


async def add_jumbo_queue(connection: asyncpg.Connection) -> None:
    record = {
        "atlas_site": "S",
        "status": "online",
        "type": "production",
        "catchall": "useJumboJobs",
        "releases": ["AUTO"],
    }
    await rows.insert(
        connection, "queues", {"queue": "J", "site": "S", "status": "online", "type": "production", "data": record}
    )
    software = {"tags": [{"cmtconfig": "", "container_name": "", "project": "Athena", "release": "22.0.1",
                          "sources": [], "tags": "x"}], "architectures": [], "cmtconfigs": [], "containers": [],
                "cvmfs": ["atlas"]}  # fmt: skip
    await rows.insert(connection, "software_map", {"queue": "J", "data": software})


async def add_task(connection: asyncpg.Connection, events: int, **values: object) -> int:
    values = {"split_rule": {"nFilesPerJob": 1}, **values}
    task = await rows.task(connection, event_service=1, trans_uses="Athena-22.0.1", **values)
    await rows.dataset(connection, task, n_events=events, n_events_used=0)
    return task


async def run(database: Database) -> list[dict[str, object]]:
    async with database.begin(reason="periodic") as work:
        parameters = Parameters()
        await parameters.refresh(work.connection)
        await JumboWatchdog(parameters, KnownGrid(NullCache())).switch(work)
    async with database.read() as connection:
        return [orjson.loads(row["body"]) for row in await connection.fetch("DELETE FROM outbox RETURNING body")]


async def test_the_largest_task_is_enabled_and_disabled_when_few_events_remain(
    jumbo_database: Database, clock: list[datetime]
) -> None:
    async with jumbo_database.read() as connection:
        await add_jumbo_queue(connection)
        small = await add_task(connection, 1_100_000)
        large = await add_task(connection, 2_000_000)
        (event,) = await run(jumbo_database)
        assert (event["task_id"], event["enabled"]) == (large, True)
        assert await connection.fetchval("SELECT use_jumbo FROM tasks WHERE task_id = $1", large) == "W"

        await rows.change(connection, "UPDATE task_datasets SET n_events_used = 1950000 WHERE task_id = $1", large)
        assert await run(jumbo_database) == []  # not yet its turn
        clock[0] += timedelta(minutes=10)
        off, on, order = await run(jumbo_database)
        assert (order["task_id"], order["priority"]) == (large, 900), "97.5 % of its events are processed"
        assert (off["task_id"], off["enabled"], on["task_id"], on["enabled"]) == (large, False, small, True)
        verbs = await connection.fetch("SELECT verb FROM audit_log ORDER BY audit_id")
        assert [row["verb"] for row in verbs] == ["enable jumbo", "disable jumbo", "enable jumbo"]


@pytest.mark.parametrize(
    ("n_ready", "n_processing", "set_status", "n_picked", "flag"),
    [
        (600, 400, "open", 0, "R"),
        (999, 0, "open", 0, "D"),
        (1000, 1000, "merging", 0, "D"),
        (0, 0, "open", 100, "R"),
        (500, 0, "open", 49, "D"),
        (500, 0, "open", 50, "R"),
    ],
)
async def test_events_remain_until_a_job_processed_them_although_their_files_count_as_used(
    jumbo_database: Database, n_ready: int, n_processing: int, set_status: str, n_picked: int, flag: str
) -> None:
    async with jumbo_database.read() as connection:
        rule = {"nEventsPerWorker": 100, "nFilesPerJob": 1}
        task = await rows.task(connection, event_service=1, use_jumbo="R", split_rule=rule)
        dataset = await rows.dataset(connection, task, n_events=200_000, n_events_used=200_000)
        for _ in range(n_picked):
            await rows.file(connection, task, dataset, status="picked", n_events=1000)
        one = {"job_set_id": 1, "task_id": task, "chunk_id": 1, "status": set_status, "kind": "normal", "n_files": 1,
               "n_ranges": n_ready + n_processing, "n_consumers": 1, "serials": {}, "queues": [], "n_ready": n_ready,
               "n_processing": n_processing}  # fmt: skip
        await rows.insert(connection, "job_sets", one)
        job = await rows.job(connection, task, job_type="jumbo", status="running")
        await rows.insert(connection, "jumbo_jobs", {"job_id": job, "task_id": task, "queue": "J", "site": "S"})
        await run(jumbo_database)
        assert await connection.fetchval("SELECT use_jumbo FROM tasks WHERE task_id = $1", task) == flag


async def test_without_a_jumbo_queue_that_has_the_release_nothing_is_enabled(jumbo_database: Database) -> None:
    async with jumbo_database.read() as connection:
        await add_task(connection, 2_000_000)
        assert await run(jumbo_database) == []


@pytest.mark.parametrize(
    ("rule", "enabled"),
    [
        ({"nFilesPerJob": 1}, True),
        ({"nEventsPerJob": 5000, "nFilesPerJob": 1}, False),  # the number of events disables the number of files
        ({"nEventsPerJob": 1000, "nEventsPerInputFile": 1000}, True),  # a whole file is one file for each job
        ({"nFilesPerJob": 3, "nGBPerJob": 1}, False),
    ],
)
async def test_the_files_of_a_job_are_those_of_the_split_rules_in_effect(
    jumbo_database: Database, rule: dict[str, int], enabled: bool
) -> None:
    async with jumbo_database.read() as connection:
        await add_jumbo_queue(connection)
        await add_task(connection, 2_000_000, split_rule=rule)
    assert [event["enabled"] for event in await run(jumbo_database)] == [True] * enabled


async def test_each_task_keeps_why_it_has_jumbo_jobs_or_not_and_explain_tells(jumbo_database: Database) -> None:
    async with jumbo_database.read() as connection:
        await add_jumbo_queue(connection)
        large, small = await add_task(connection, 2_000_000), await add_task(connection, 900_000)
        other = await add_task(connection, 2_000_000)
        await rows.change(connection, "UPDATE tasks SET trans_uses = 'Athena-21.0.1' WHERE task_id = $1", other)
        await run(jumbo_database)
        told = {}
        for task in (large, small, other):
            found = await Explanation(KnownGrid(NullCache())).task(connection, task, OPERATOR)
            assert found is not None
            told[task] = [line.strip() for line in found["text"].splitlines() if "  jumbo jobs " in line]
    on = "on: 2000000 events remain, the most of all eligible tasks; 0 of 1 tasks and 0 of 500000 events had jumbo jobs"
    assert told == {
        large: [f"jumbo jobs {on}", f"jumbo jobs were {on} (at 2026-03-01 12:00:00 UTC)"],
        small: ["jumbo jobs off: 900000 events remain, not more than the limit of 1000000"],
        other: ["jumbo jobs off: no online queue that runs jumbo jobs has its software"],
    }


async def test_why_jumbo_jobs_were_switched_off_stays_told_while_they_are(
    jumbo_database: Database, clock: list[datetime]
) -> None:
    async with jumbo_database.read() as connection:
        rule = {"nEventsPerWorker": 100, "nFilesPerJob": 1}
        task = await rows.task(connection, event_service=1, use_jumbo="R", split_rule=rule)
        await rows.dataset(connection, task, n_events=200_000, n_events_used=100_001)
        for _ in range(2):
            await run(jumbo_database)
            clock[0] += timedelta(minutes=10)
        kept = await connection.fetchrow("SELECT reason, switched, switched_at FROM jumbo_reasons")
        assert tuple(kept) == (
            "off: jumbo jobs were switched off, and are not switched on again",
            "off: 99999 events remain, fewer than the limit of 100000",
            datetime(2026, 3, 1, 12, tzinfo=UTC),
        )
        await rows.change(connection, "UPDATE tasks SET status = 'done'")
        await run(jumbo_database)
        assert await connection.fetchval("SELECT count(*) FROM jumbo_reasons") == 0


async def test_a_task_that_somebody_works_on_holds_up_nobody_and_no_reason_changes_a_task(
    jumbo_database: Database, clock: list[datetime]
) -> None:
    async with jumbo_database.read() as connection, jumbo_database.read() as other:
        rule = {"nEventsPerWorker": 100, "nFilesPerJob": 1}
        held = await rows.task(connection, event_service=1, use_jumbo="R", split_rule=rule)
        free = await rows.task(connection, event_service=1, use_jumbo="R", split_rule=rule)
        large = await rows.task(connection, event_service=1, use_jumbo="R", split_rule=rule)
        for task, n_used in ((held, 100_001), (free, 100_001), (large, 0)):
            await rows.dataset(connection, task, n_events=200_000, n_events_used=n_used)
        version = "SELECT xmin::text FROM tasks WHERE task_id = $1"
        before = await connection.fetchval(version, large)
        async with other.transaction():
            await other.execute("SELECT FROM tasks WHERE task_id = $1 FOR UPDATE", held)
            async with asyncio.timeout(5):
                events = await run(jumbo_database)
        assert [one["task_id"] for one in events if "enabled" in one] == [free]
        assert await connection.fetchval(version, large) == before
        reasons = await connection.fetch("SELECT reason, switched FROM jumbo_reasons ORDER BY task_id")
        assert [row["switched"] is None for row in reasons] == [True, False, True]
        assert reasons[0]["reason"].startswith("are looked at again: the task changed")
        clock[0] += timedelta(minutes=10)
        assert [one["task_id"] for one in await run(jumbo_database) if "enabled" in one] == [held]


async def test_a_task_without_a_live_jumbo_job_lacks_one_and_is_looked_at(jumbo_database: Database) -> None:
    async with jumbo_database.read() as connection:
        rule = {"nEventsPerWorker": 100, "nFilesPerJob": 1}
        values = {"event_service": 1, "use_jumbo": "R", "split_rule": rule, "status": "pending"}
        task, served = await rows.task(connection, **values), await rows.task(connection, **values)
        for number, of in enumerate((task, served), 1):
            await rows.dataset(connection, of, n_events=200_000, n_events_used=200_000)
            one = {"job_set_id": number, "task_id": of, "chunk_id": 1, "status": "open", "kind": "normal",
                   "n_files": 1, "n_ranges": 2000, "n_consumers": 1, "serials": {}, "queues": [], "n_ready": 2000,
                   "n_processing": 0}  # fmt: skip
            await rows.insert(connection, "job_sets", one)
        job = await rows.job(connection, served, job_type="jumbo", status="running")
        await rows.insert(connection, "jumbo_jobs", {"job_id": job, "task_id": served, "queue": "J", "site": "S"})
        events = await run(jumbo_database)
        assert [(one["task_id"], one["enabled"]) for one in events] == [(task, True)]
        flags = await connection.fetch("SELECT use_jumbo FROM tasks ORDER BY task_id")
        assert [row["use_jumbo"] for row in flags] == ["L", "R"]


async def test_a_task_that_lost_its_jumbo_jobs_gets_the_priority_of_the_parameter(jumbo_database: Database) -> None:
    async with jumbo_database.read() as connection:
        rule = {"nEventsPerWorker": 100, "nFilesPerJob": 1}
        task = await rows.task(connection, event_service=1, use_jumbo="R", split_rule=rule, current_priority=100)
        await rows.dataset(connection, task, n_events=200_000, n_events_used=101_000, n_files=1000)
        switched, order = await run(jumbo_database)
    assert (switched["task_id"], switched["enabled"]) == (task, False)
    assert (order["task_id"], order["priority"], order["reason"]) == (task, 500, "its jumbo jobs are off")


@pytest.mark.parametrize(("priority", "n_waiting", "asks"), [(900, 2, True), (899, 2, False), (900, 0, False)])
async def test_of_a_task_with_priority_900_job_sets_that_wait_ask_for_queues_anew(
    jumbo_database: Database, priority: int, n_waiting: int, asks: bool
) -> None:
    async with jumbo_database.read() as connection:
        task = await rows.task(
            connection, event_service=1, use_jumbo="R", current_priority=priority, split_rule={"nFilesPerJob": 1}
        )
        await rows.dataset(connection, task, n_events=900_000, n_events_used=0, n_files=9, n_files_waiting=n_waiting)
        events = [one for one in await run(jumbo_database) if one.get("asks_again")]
        assert [(one["task_id"], one["enabled"]) for one in events] == [(task, True)] * asks
        said = "looked at again: priority 900 is at least 900, and 2 files wait for co-jumbo jobs"
        assert await connection.fetchval("SELECT switched FROM jumbo_reasons") == (said if asks else None)
