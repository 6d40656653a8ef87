"""Give an empty database the schema.

The schema is the files of `schema/`, one for each subject, and the arrows of the graphs of `shared.states`. Until
release 0.1 the files are edited in place and no database is upgraded. `installed_schema` remembers a digest of what a
database was made of: a database of the same digest is left alone, one of another is refused, and so is one that holds
tables without a record. `orrery migrate` runs it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import asyncpg

from shared.db.partitions import keep_partitions
from shared.release import RELEASE
from shared.states import GRAPHS

DIRECTORY = Path(__file__).parent / "schema"
#: a file for each, in an order in which each finds what it refers to
SUBJECTS = (
    "foundation", "messages", "parameters", "periodic_work", "transitions", "grid", "queue_statistics", "shares",
    "tasks", "datasets", "brokerage", "generation", "jobs", "archive", "dispatch", "event_service", "transfers",
    "catalogue", "sandboxes", "accounts",
)  # fmt: skip
LOCK_KEY = 0x6F727265  # "orre": any fixed number; the same in every process

INSTALLED = "the schema was installed"
LEFT_ALONE = "the database has this schema already: it was left alone"
_WHAT_TO_DO = (
    "Nothing was changed. Until release 0.1 no schema is upgraded: drop the database, create it empty, and run "
    "`orrery migrate`. The local system: `make clean`, then `make up`. With Docker: `docker compose down --volumes`."
)
_RECORD = "SELECT digest, release FROM installed_schema"
#: the first tables that are not an extension's
_TABLES = """
SELECT format('%s.%s', nspname, relname) AS name
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND n.nspname IN (current_schema(), 'catalogue')
   AND NOT EXISTS (SELECT FROM pg_depend d
                    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
 ORDER BY 1 LIMIT 4
"""


class SchemaError(Exception):
    """A database does not have this schema and cannot be given it; the text says what to do."""


@dataclass(frozen=True)
class Schema:
    """The statements of each subject, and the arrows that the graphs of states have."""

    statements: Mapping[str, str]
    arrows: tuple[tuple[str, str, str], ...]

    @cached_property
    def digest(self) -> str:
        """Hash what is said to PostgreSQL: comments and white space do not count."""
        said = [" ".join(re.sub(r"--[^\n]*", "", text).split()) for text in self.statements.values()]
        return hashlib.sha256("\n".join([*said, *map(" ".join, self.arrows)]).encode()).hexdigest()


@cache
def declared() -> Schema:
    """Read the schema of this code."""
    statements = {subject: (DIRECTORY / f"{subject}.sql").read_text(encoding="utf-8") for subject in SUBJECTS}
    arrows = {(graph.entity, one.source or "", one.target) for graph in GRAPHS for one in graph.transitions}
    return Schema(statements, tuple(sorted(arrows)))


async def migrate(url: str, schema: Schema | None = None) -> str:
    """Give an empty database the schema; what was done, in words. Raises SchemaError.

    Everything happens in one transaction under one lock: another call waits, and finds all of it or nothing.
    """
    wanted = schema or declared()
    connection = await asyncpg.connect(url, server_settings={"timezone": "UTC", "application_name": "orrery migrate"})
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK_KEY)
            if await is_installed(connection, wanted):
                return LEFT_ALONE
            await _install(connection, wanted)
            await keep_partitions(connection)  # from the first day on
            return INSTALLED
    finally:
        await connection.close()


async def require(connection: asyncpg.Connection) -> None:
    """Refuse a database without the schema of this code. Raises SchemaError."""
    if not await is_installed(connection, declared()):
        raise SchemaError("the database is empty: `orrery migrate` gives it the schema")


async def is_installed(connection: asyncpg.Connection, wanted: Schema) -> bool:
    """Look whether a database has the schema; False: it is empty.

    Raises SchemaError for one that is neither.
    """
    has_record = await connection.fetchval("SELECT to_regclass('installed_schema') IS NOT NULL")
    record = await connection.fetchrow(_RECORD) if has_record else None
    if record is not None:
        if record["digest"] == wanted.digest:
            return True
        raise SchemaError(
            f"the database has the schema of another commit ({record['digest'][:12]}, made by release "
            f"{record['release']}; this commit has {wanted.digest[:12]}). {_WHAT_TO_DO}"
        )
    tables = [row["name"] for row in await connection.fetch(_TABLES)]
    if tables:
        named = ", ".join([*tables[:3], *["..."] * (len(tables) > 3)])
        raise SchemaError(f"the database holds tables ({named}) and no record of what made them. {_WHAT_TO_DO}")
    return False


async def _install(connection: asyncpg.Connection, schema: Schema) -> None:
    for subject, statements in schema.statements.items():
        try:
            await connection.execute(statements)
        except asyncpg.PostgresError as error:
            raise SchemaError(f"{subject}.sql failed, and nothing was changed: {error}") from error
    columns = ("entity", "from_status", "to_status")
    await connection.copy_records_to_table("allowed_transitions", records=schema.arrows, columns=columns)
    await connection.execute("INSERT INTO installed_schema (digest, release) VALUES ($1, $2)", schema.digest, RELEASE)
