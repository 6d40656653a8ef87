"""A database with rows in it is upgraded, step by step and at once, and nothing in it is lost."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from services.watchdog.checking import run_checks
from shared.db import migrate
from tests import rows, servers
from tests.unit.check.story import Story, tell

VERSIONS = [migration.version for migration in migrate.load()]
#: the first version that has every table of the story
FIRST_WITH_ALL_TABLES = 6
BEFORE_INPUTS_OF_CHUNKS = 61
BEFORE_PARTITIONS_OF_RANGES = 350
BEFORE_JOBS_WITHOUT_QUEUE = 331


@pytest.fixture
async def empty_url(servers_of_tests: servers.Servers) -> AsyncIterator[str]:
    """A database in which nothing was migrated."""
    url = await servers.clone_template(servers_of_tests.database_url, "template0")
    yield url
    await servers.drop_database(servers_of_tests.database_url, url)


async def counts(connection: asyncpg.Connection) -> dict[str, int]:
    tables = ("tasks", "task_datasets", "task_files", "jobs", "jobs_archive", "job_files", "chunks", "transition_log")
    return {table: await connection.fetchval(f"SELECT count(*) FROM {table}") for table in tables}


async def populate(url: str) -> tuple[Story, dict[str, int]]:
    connection = await asyncpg.connect(url)
    try:
        story = await tell(connection)
        await rows.change(
            connection,
            "INSERT INTO tasks (task_name, user_name, status) SELECT 'old.' || n, 'bob', 'done'"
            " FROM generate_series(1, 500) n",
        )
        return story, await counts(connection)
    finally:
        await connection.close()


@pytest.mark.parametrize("version", sorted({FIRST_WITH_ALL_TABLES, VERSIONS[-2]}))
async def test_a_populated_database_of_an_older_version_reaches_the_newest(empty_url: str, version: int) -> None:
    await migrate.migrate(empty_url, upto=version)
    story, before = await populate(empty_url)
    applied = await migrate.migrate(empty_url)
    assert applied == [one for one in VERSIONS if one > version]
    connection = await asyncpg.connect(empty_url)
    try:
        assert await counts(connection) == before
        assert await run_checks(connection) == []
        assert await connection.fetchval("SELECT status FROM tasks WHERE task_id = $1", story.task) == "running"
        # and it works: the triggers know the graphs
        await connection.execute("UPDATE jobs SET status = 'holding' WHERE job_id = $1", story.live_job)
    finally:
        await connection.close()


async def test_a_chunk_that_is_offered_during_the_upgrade_knows_what_it_holds(empty_url: str) -> None:
    """A file that was cut into ranges of events counts once; a chunk whose files left it stays unknown."""
    await migrate.migrate(empty_url, upto=BEFORE_INPUTS_OF_CHUNKS)
    connection = await asyncpg.connect(empty_url)
    try:
        task_id = await rows.task(connection)
        first, second = [await rows.dataset(connection, task_id) for _ in range(2)]
        offered, used = [await rows.chunk(connection, task_id, status=one) for one in ("offered", "used")]
        for dataset_id, lfn, start_event in ((first, "a", 0), (first, "a", 5), (first, "b", 0), (second, "c", 0)):
            await rows.file(
                connection,
                task_id,
                dataset_id,
                lfn=lfn,
                fsize=7,
                n_events=5,
                start_event=start_event,
                status="picked",
                chunk_id=offered,
            )
        await migrate.migrate(empty_url)
        kept = dict(await connection.fetch("SELECT chunk_id, inputs FROM chunks"))
        assert kept[used] is None
        assert json.loads(kept[offered]) == [
            {"dataset_id": first, "n_files": 2, "n_bytes": 14, "n_events": 15},
            {"dataset_id": second, "n_files": 1, "n_bytes": 7, "n_events": 5},
        ]
    finally:
        await connection.close()


async def test_an_upgraded_schema_is_the_same_as_a_new_one(empty_url: str, database_url: str) -> None:
    for version in VERSIONS:
        await migrate.migrate(empty_url, upto=version)
    assert await schema_of(empty_url) == await schema_of(database_url)


async def schema_of(url: str) -> list[tuple[object, ...]]:
    """Columns, indexes, constraints and triggers as text, but for the partitions of single days."""
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch(
            "SELECT table_schema || '.' || table_name || '.' || column_name AS name,"
            " data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') AS text"
            "  FROM information_schema.columns WHERE table_schema IN ('public', 'catalogue')"
            " UNION ALL SELECT schemaname || '.' || indexname, indexdef FROM pg_indexes"
            "  WHERE schemaname IN ('public', 'catalogue')"
            " UNION ALL SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " UNION ALL SELECT tgrelid::regclass || '.' || tgname, pg_get_triggerdef(oid) FROM pg_trigger"
            "  WHERE NOT tgisinternal ORDER BY 1, 2"
        )
        return [tuple(row) for row in found if not re.search(r"_\d{8}", row["name"])]
    finally:
        await connection.close()


async def test_ranges_of_events_move_to_the_partitions_of_their_tasks_as_they_are(empty_url: str) -> None:
    """Numbers, attempts and states stay; a first event has one row for each attempt."""
    await migrate.migrate(empty_url, upto=BEFORE_PARTITIONS_OF_RANGES)
    connection = await asyncpg.connect(empty_url)
    try:
        for _ in range(20):
            task_id = await rows.task(connection)
            dataset_id = await rows.dataset(connection, task_id)
            file_id = await rows.file(connection, task_id, dataset_id)
            found = {"task_id": task_id, "dataset_id": dataset_id, "file_id": file_id, "def_max_event_id": 10}
            for attempts, status in ((10, 7), (9, 0)):
                events = {"def_min_event_id": 1, "job_process_id": 1, "attempt_nr": attempts, "status": status}
                await rows.insert(connection, "event_ranges", {**found, **events})
        everything = "SELECT * FROM event_ranges ORDER BY event_range_id"
        before = [tuple(row) for row in await connection.fetch(everything)]
        await migrate.migrate(empty_url)
        assert [tuple(row) for row in await connection.fetch(everything)] == before
        used = "SELECT count(DISTINCT tableoid) FROM event_ranges"
        assert await connection.fetchval(used) > 4
        again = {**found, "def_min_event_id": 1, "job_process_id": 2, "attempt_nr": 9}
        with pytest.raises(asyncpg.UniqueViolationError):
            await rows.insert(connection, "event_ranges", again)
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await connection.execute(
                "INSERT INTO event_ranges (task_id, dataset_id, file_id, def_min_event_id) VALUES ($1, $2, 0, 1)",
                task_id, dataset_id,
            )  # fmt: skip
        with pytest.raises(asyncpg.CheckViolationError):
            await rows.insert(connection, "event_ranges", {**again, "attempt_nr": -1})
        new_id = await rows.insert(connection, "event_ranges", {**again, "attempt_nr": 8}, "event_range_id")
        assert new_id > before[-1][0]
    finally:
        await connection.close()


#: the table and what was built over all rows of it: indexes, and constraints that hold for them
BUILT = """
SELECT indexrelid AS oid, indrelid::regclass::text AS of, indexrelid::regclass::text AS name FROM pg_index
 WHERE indrelid = ANY($1::regclass[])
 UNION ALL SELECT oid, conrelid::regclass::text, conname FROM pg_constraint
  WHERE conrelid = ANY($1::regclass[]) AND convalidated AND contype IN ('c', 'f')
"""
SHUT = """
SELECT DISTINCT relation::regclass::text FROM pg_locks
 WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock' AND relation = ANY($1::regclass[]::oid[])
"""
LARGE = ["jobs", "task_files"]


async def test_no_index_of_a_large_table_is_built_and_no_row_checked_while_nobody_may_read_it(empty_url: str) -> None:
    await migrate.migrate(empty_url, upto=BEFORE_JOBS_WITHOUT_QUEUE)
    connection = await asyncpg.connect(empty_url)
    try:
        for migration in migrate.load():
            if migration.version <= BEFORE_JOBS_WITHOUT_QUEUE:
                continue
            async with connection.transaction():
                before = {row["oid"] for row in await connection.fetch(BUILT, LARGE)}
                await connection.execute(migration.sql)
                shut = {row[0] for row in await connection.fetch(SHUT, LARGE)}
                built = [row for row in await connection.fetch(BUILT, LARGE) if row["oid"] not in before]
            found = [row["name"] for row in built if row["of"] in shut]
            assert not found, f"{migration.version:04d} shuts {sorted(shut)} and builds {sorted(found)}"
    finally:
        await connection.close()
