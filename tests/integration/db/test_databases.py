"""Tests share databases: nothing leaks from one to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests import rows, servers
from tests.databases import OWN_SESSION, Databases

TABLES = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND oid >= 16384 ORDER BY oid"
SEQUENCES = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S' AND oid >= 16384 ORDER BY oid"
LARGE = "SELECT array_agg(relname) FROM pg_class WHERE relkind = 'r' AND oid >= 16384 AND pg_relation_size(oid) > 81920"
ROWS = "SELECT array_agg(one::text ORDER BY ctid) FROM {} AS one"
OUR_SESSION = f"datname = current_database() AND application_name = '{OWN_SESSION}'"
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    f" AND application_name <> '{OWN_SESSION}'"
)
MODIFIED = "SELECT count(*) FROM pg_stat_user_tables WHERE n_tup_ins + n_tup_upd + n_tup_del > 0"
#: more pages than are emptied row by row, and fewer rows than make autovacuum look at a table while the test runs
MANY_PAGES = "INSERT INTO task_remaining_work SELECT n, repeat(md5(n::text), 55), 1, 1 FROM generate_series(1, 45) AS n"
SOME_OF_THE_TEMPLATE = "DELETE FROM allowed_transitions WHERE ctid < '(0,20)'"

#: what makes a database unlike its template for good
SCHEMA_CHANGES = (
    "ALTER TABLE task_files DROP CONSTRAINT task_files_check",
    "ALTER TABLE tasks ADD COLUMN colour text",
    "ALTER TABLE tasks ALTER COLUMN status SET DEFAULT 'done'",
    "ALTER TABLE tasks DISABLE TRIGGER ALL",
    "ALTER TABLE tasks SET (fillfactor = 50)",
    "ALTER TABLE tasks RENAME TO chores",
    "ALTER SEQUENCE task_ids INCREMENT 10",
    "CREATE TABLE half_done (a integer)",
    "CREATE INDEX another ON tasks (task_id, status)",
    "DROP INDEX job_claims_job",
    "CREATE OR REPLACE FUNCTION orrery_now() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    "CREATE SCHEMA elsewhere",
    "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET jit = on', current_database()); END $$",
    "INSERT INTO parameters (app, component, key, value, type) VALUES ('a', 'b', 'c', '1', 'int'); ANALYZE parameters",
)


@pytest.fixture
async def shared(servers_of_tests: servers.Servers, database_template: str) -> AsyncIterator[Databases]:
    shared = Databases(servers_of_tests.database_url, database_template)
    yield shared
    await shared.drop()


async def holdings(url: str) -> dict[str, Any]:
    """Everything that a test could find in a database."""
    connection = await asyncpg.connect(url)
    try:
        found = {"large": await connection.fetchval(LARGE), "sessions": await connection.fetchval(SESSIONS)}
        found["counted"] = await connection.fetchval(MODIFIED)
        for row in await connection.fetch(TABLES):
            found[row[0]] = await connection.fetchval(ROWS.format(row[0]))
        for row in await connection.fetch(SEQUENCES):
            found[row[0]] = tuple(await connection.fetchrow(f"SELECT last_value, is_called FROM {row[0]}") or ())
        return found
    finally:
        await connection.close()


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def leave_rows(url: str) -> None:
    """What tests leave: rows in tables and partitions, changed rows of the schema, numbers drawn."""
    connection = await asyncpg.connect(url)
    try:
        task_id = await rows.task(connection)
        await rows.file(connection, task_id, await rows.dataset(connection, task_id))
        await connection.execute("UPDATE tasks SET status = 'paused'")  # a line of the log, in a partition
        await connection.execute("UPDATE versions SET version = version + 1")
        await rows.change(connection, SOME_OF_THE_TEMPLATE)
        for row in await connection.fetch(SEQUENCES):
            await connection.execute(f"SELECT setval('{row[0]}', 4711)")
        await rows.change(connection, MANY_PAGES)
        await connection.execute("CREATE TEMP TABLE of_the_session AS SELECT 1 AS one")
    finally:
        await connection.close()


async def test_a_database_that_is_lent_again_holds_what_a_fresh_copy_holds(shared: Databases) -> None:
    fresh = await shared.lend()
    used = await shared.lend()
    for _ in range(2):
        await leave_rows(used)
        assert await holdings(used) != await holdings(fresh)
        await shared.take_back(used)
        assert await shared.lend() == used
        assert await holdings(used) == await holdings(fresh)
    await shared.take_back(fresh)
    await shared.take_back(used)


async def test_a_session_that_a_test_leaves_open_is_ended_with_its_locks(shared: Databases) -> None:
    url = await shared.lend()
    left = await asyncpg.connect(url)
    await left.execute("BEGIN; LOCK TABLE tasks; SELECT pg_advisory_lock(1)")
    await shared.take_back(url)
    assert await shared.lend() == url
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await left.fetchval("SELECT 1")
    assert (await holdings(url))["sessions"] == 0
    await shared.take_back(url)


async def test_a_database_whose_own_session_a_test_ended_is_emptied_in_a_new_one(shared: Databases) -> None:
    url = await shared.lend()
    await leave_rows(url)
    await execute(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OUR_SESSION}")
    await shared.take_back(url)
    assert await shared.lend() == url
    assert await shared.ask(url, lambda session: session.fetchval("SELECT count(*) FROM tasks")) == 0
    await shared.take_back(url)


@pytest.mark.parametrize("change", SCHEMA_CHANGES)
async def test_a_database_whose_schema_or_settings_changed_is_not_lent_again(shared: Databases, change: str) -> None:
    url = await shared.lend()
    await execute(url, change)
    await shared.take_back(url)
    other = await shared.lend()
    assert other != url
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(url)
    await shared.take_back(other)


async def test_a_database_that_lets_nobody_in_is_not_lent_again(
    shared: Databases, servers_of_tests: servers.Servers
) -> None:
    url = await shared.lend()
    await execute(
        servers_of_tests.database_url, f'ALTER DATABASE "{url.rsplit("/", 1)[1]}" WITH ALLOW_CONNECTIONS false'
    )
    await shared.take_back(url)
    other = await shared.lend()
    assert other != url
    await shared.take_back(other)


async def test_sessions_are_left_to_the_next_test_without_what_the_last_one_set_in_them(shared: Databases) -> None:
    url = await shared.lend()
    database, pids = await shared.database(url, actor="test"), set()
    for _ in range(2):
        async with database.read() as connection:
            pids.add(connection.get_server_pid())
            assert await connection.fetchval("SHOW lock_timeout") == "2s"
            await connection.execute("SET lock_timeout = '9s'; SELECT pg_advisory_lock(1)")
        await shared.take_back(url)
        assert await shared.lend() == url
        database = await shared.database(url, actor="test")
    assert len(pids) == 1
    assert (await holdings(url))["sessions"] == 1
    await shared.take_back(url)


async def test_sessions_that_a_test_has_not_given_back_are_cut(shared: Databases) -> None:
    url = await shared.lend()
    left = await (await shared.database(url, actor="test")).pool.acquire()
    await left.execute("BEGIN; LOCK TABLE tasks")
    await shared.take_back(url)
    assert await shared.lend() == url
    assert (await holdings(url))["sessions"] == 0
    await shared.take_back(url)
