"""Numbered plain-SQL migrations, each in its own transaction, all under one advisory lock.

`schema_migrations` remembers number, name and checksum: a file that was changed after it ran is an error, and so is a
database that is newer than this code. Run as a program: `python -m shared.db.migrate`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from shared.db.partitions import keep_partitions

DIRECTORY = Path(__file__).parent / "migrations"
LOCK_KEY = 0x6F727265  # "orre": any fixed number; the same in every process
FILE_NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")

_CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL
)
"""


class MigrationError(Exception):
    """The files and the database do not fit each other."""


@dataclass(frozen=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load(directory: Path = DIRECTORY) -> list[Migration]:
    """The migrations of a directory in order.

    Raises MigrationError for a bad file name or a number used twice.
    """
    found: dict[int, Migration] = {}
    for path in sorted(directory.glob("*.sql")):
        match = FILE_NAME.match(path.name)
        if match is None:
            raise MigrationError(f"migration {path.name!r}: the name must be NNNN_lower_case_words.sql")
        version = int(match[1])
        if version in found:
            raise MigrationError(f"migration number {version:04d} is used by {found[version].name} and {match[2]}")
        found[version] = Migration(version, match[2], path.read_text(encoding="utf-8"))
    return [found[version] for version in sorted(found)]


async def migrate(url: str, *, directory: Path = DIRECTORY, upto: int | None = None) -> list[int]:
    """Bring the database at `url` to the newest version (or `upto`); the numbers that were applied now."""
    migrations = load(directory)
    connection = await asyncpg.connect(url, server_settings={"timezone": "UTC", "application_name": "orrery migrate"})
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
        try:
            done = await _apply(connection, [m for m in migrations if upto is None or m.version <= upto], migrations)
            if upto is None and directory == DIRECTORY:
                async with connection.transaction():
                    await keep_partitions(connection)  # from the first day on
            return done
        finally:
            if not connection.is_closed():
                await connection.execute("SELECT pg_advisory_unlock($1)", LOCK_KEY)
    finally:
        await connection.close()


async def _apply(connection: asyncpg.Connection, wanted: list[Migration], known: list[Migration]) -> list[int]:
    await connection.execute(_CREATE_TABLE)
    rows = await connection.fetch("SELECT version, name, checksum FROM schema_migrations")
    applied = {row["version"]: row for row in rows}
    _compare(applied, {m.version: m for m in known})
    done = []
    for migration in wanted:
        if migration.version in applied:
            continue
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '60s'")
            try:
                await connection.execute(migration.sql)
            except asyncpg.PostgresError as error:
                raise MigrationError(f"migration {migration.version:04d}_{migration.name} failed: {error}") from error
            # orrery_now() is made by the first migration
            await connection.execute(
                "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES ($1, $2, $3, orrery_now())",
                migration.version,
                migration.name,
                migration.checksum,
            )
        done.append(migration.version)
    return done


def _compare(applied: dict[int, asyncpg.Record], known: dict[int, Migration]) -> None:
    for version, row in applied.items():
        migration = known.get(version)
        if migration is None:
            raise MigrationError(
                f"the database has migration {version:04d}_{row['name']}, which this version of Orrery does not know: "
                "it was upgraded by a newer version"
            )
        if migration.checksum != row["checksum"]:
            raise MigrationError(
                f"migration {version:04d}_{migration.name} was changed after it was applied to this database: "
                "write a new migration instead"
            )


async def pending(connection: asyncpg.Connection, directory: Path = DIRECTORY) -> list[int]:
    """The numbers of the migrations that this database still lacks (services refuse to start with any)."""
    exists = await connection.fetchval("SELECT to_regclass('schema_migrations') IS NOT NULL")
    rows = await connection.fetch("SELECT version FROM schema_migrations") if exists else []
    applied = {row["version"] for row in rows}
    return [m.version for m in load(directory) if m.version not in applied]


def main() -> None:
    from shared.config.settings import Settings, SettingsError, load_settings

    try:
        settings = load_settings(Settings)
    except SettingsError as error:
        sys.exit(str(error))
    try:
        applied = asyncio.run(migrate(str(settings.database_url)))
    except OSError as error:
        sys.exit(f"PostgreSQL cannot be used (ORRERY_DATABASE_URL): {type(error).__name__}: {error}")
    sys.stdout.write("applied: " + (", ".join(f"{v:04d}" for v in applied) or "nothing, up to date") + "\n")


if __name__ == "__main__":
    main()
