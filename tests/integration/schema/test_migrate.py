"""`orrery migrate`: an empty database gets the schema, one that has it is left alone, any other is refused."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from shared.auth import Authority
from shared.db import migrate
from shared.db.migrate import Schema, SchemaError
from shared.release import RELEASE
from tests import servers

PROJECT = Path(__file__).parents[3]
#: whatever changes of tables, functions, triggers, constraints and of the rows of the record
STATE = """
SELECT string_agg(line, ',' ORDER BY line) FROM (
    SELECT concat('class ', oid, relname, xmin) AS line FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT concat('function ', oid, xmin) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT concat('schema ', nspname, xmin) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
    UNION ALL SELECT concat('trigger ', oid, xmin) FROM pg_trigger
    UNION ALL SELECT concat('constraint ', oid, xmin) FROM pg_constraint WHERE oid >= 16384) lines
"""


@pytest.fixture
async def empty_url(servers_of_tests: servers.Servers) -> AsyncIterator[str]:
    """A database in which there is nothing."""
    url = await servers.clone_template(servers_of_tests.database_url, "template0")
    yield url
    await servers.drop_database(servers_of_tests.database_url, url)


@pytest.fixture
async def connection(empty_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(empty_url)
    yield connection
    await connection.close()


def changed(subject: str, more: str) -> Schema:
    """The schema of another commit, which says more of a subject."""
    declared = migrate.declared()
    return replace(declared, statements={**declared.statements, subject: declared.statements[subject] + more})


async def refused(url: str, schema: Schema | None = None) -> str:
    with pytest.raises(SchemaError) as found:
        await migrate.migrate(url, schema)
    return str(found.value)


def run(*arguments: str, url: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A program of this clone on a database."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ORRERY_")}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment | {"ORRERY_DATABASE_URL": url} | settings,
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip


async def test_an_empty_database_gets_the_schema_with_a_record_and_the_days_that_begin(
    connection: asyncpg.Connection, empty_url: str
) -> None:
    assert await migrate.migrate(empty_url) == migrate.INSTALLED
    [record] = await connection.fetch("SELECT digest, release FROM installed_schema")
    assert tuple(record) == (migrate.declared().digest, RELEASE)
    assert await connection.fetchval("SELECT count(*) FROM tasks") == 0
    today = await connection.fetchval("SELECT to_char(orrery_now() AT TIME ZONE 'UTC', 'YYYYMMDD')")
    assert await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"transition_log_{today}")
    await migrate.require(connection)


async def test_a_database_that_has_the_schema_is_left_alone(connection: asyncpg.Connection, empty_url: str) -> None:
    await migrate.migrate(empty_url)
    before = await connection.fetchval(STATE)
    assert await migrate.migrate(empty_url) == migrate.LEFT_ALONE
    assert await connection.fetchval(STATE) == before


async def test_two_that_start_together_install_it_once(connection: asyncpg.Connection, empty_url: str) -> None:
    done = await asyncio.gather(*(migrate.migrate(empty_url) for _ in range(3)))
    assert sorted(done) == sorted([migrate.INSTALLED, migrate.LEFT_ALONE, migrate.LEFT_ALONE])
    assert await connection.fetchval("SELECT count(*) FROM installed_schema") == 1


async def test_a_database_of_another_commit_is_refused_with_what_to_do_and_not_touched(
    connection: asyncpg.Connection, empty_url: str
) -> None:
    other = changed("tasks", "CREATE TABLE only_there (a int);")
    await migrate.migrate(empty_url, other)
    before = await connection.fetchval(STATE)
    said = await refused(empty_url)
    assert f"another commit ({other.digest[:12]}, made by release {RELEASE}; this commit has" in said
    assert "Nothing was changed" in said and "drop the database" in said and "make clean" in said
    with pytest.raises(SchemaError, match="another commit"):
        await migrate.require(connection)
    assert await connection.fetchval(STATE) == before


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE schema_migrations (version int)", "CREATE SCHEMA catalogue CREATE TABLE files (a int)"]
)
async def test_a_database_with_tables_and_no_record_is_refused_and_not_touched(
    connection: asyncpg.Connection, empty_url: str, statement: str
) -> None:
    await connection.execute(statement)
    before = await connection.fetchval(STATE)
    said = await refused(empty_url)
    table = "catalogue.files" if "catalogue" in statement else "public.schema_migrations"
    assert said.startswith(f"the database holds tables ({table}) and no record of what made them")
    assert "Nothing was changed" in said and "drop the database" in said
    assert await connection.fetchval(STATE) == before


async def test_a_statement_that_fails_leaves_no_trace(connection: asyncpg.Connection, empty_url: str) -> None:
    before = await connection.fetchval(STATE)
    said = await refused(empty_url, changed("tasks", "SELECT 1 / 0;"))
    assert said == "tasks.sql failed, and nothing was changed: division by zero"
    assert await connection.fetchval(STATE) == before
    assert await migrate.migrate(empty_url) == migrate.INSTALLED


async def test_tables_of_other_schemas_are_of_no_concern(connection: asyncpg.Connection, empty_url: str) -> None:
    await connection.execute("CREATE SCHEMA others CREATE TABLE tasks (a int)")
    assert await migrate.migrate(empty_url) == migrate.INSTALLED


def test_comments_and_white_space_make_no_other_schema() -> None:
    digest = migrate.declared().digest
    assert changed("tasks", "\n  -- an afterthought\n").digest == digest
    assert changed("tasks", "\nCREATE INDEX one ON tasks (site);").digest != digest
    arrows = migrate.declared().arrows
    assert replace(migrate.declared(), arrows=arrows[1:]).digest != digest


async def test_the_program_says_what_it_did_and_a_refusal_is_an_exit_code(
    connection: asyncpg.Connection, empty_url: str
) -> None:
    first, again = (run("services.cli", "migrate", url=empty_url) for _ in range(2))
    assert (first.returncode, first.stdout) == (0, f"{migrate.INSTALLED}\n")
    assert (again.returncode, again.stdout) == (0, f"{migrate.LEFT_ALONE}\n")
    await connection.execute("UPDATE installed_schema SET digest = 'of another commit'")
    failed = run("services.cli", "migrate", url=empty_url)
    assert failed.returncode == 1 and failed.stdout == ""
    assert "Until release 0.1 no schema is upgraded: drop the database" in " ".join(failed.stderr.split())


async def test_no_service_starts_on_a_database_without_the_schema_of_its_commit(empty_url: str, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.pem"
    Authority.create_file(tokens)
    settings = {"ORRERY_TOKEN_KEY_FILE": str(tokens), "ORRERY_RABBITMQ_URL": "amqp://127.0.0.1:1/"}
    empty = run("services.jumbo_watchdog", url=empty_url, **settings)
    assert empty.returncode != 0 and "the database is empty: `orrery migrate` gives it the schema" in empty.stderr
    await migrate.migrate(empty_url, changed("tasks", "CREATE TABLE only_there (a int);"))
    other = run("services.jumbo_watchdog", url=empty_url, **settings)
    assert other.returncode == empty.returncode and "the database has the schema of another commit" in other.stderr
