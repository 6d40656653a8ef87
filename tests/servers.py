"""Which servers the tests use, and a database, queue names and cache keys of their own for each test.

Addresses: ORRERY_DATABASE_URL, ORRERY_RABBITMQ_URL, ORRERY_REDIS_URL; else the private instances that `deploy/local`
wrote into `.local/servers.json`; else the standard ports. Nothing that exists on those servers is touched.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from shared.db import migrate

ROOT = Path(__file__).resolve().parent.parent
SERVERS_FILE = ROOT / ".local" / "servers.json"
STANDARD = {
    "ORRERY_DATABASE_URL": "postgresql://postgres@127.0.0.1:5432/postgres",
    "ORRERY_RABBITMQ_URL": "amqp://guest:guest@127.0.0.1:5672/",
    "ORRERY_REDIS_URL": "redis://127.0.0.1:6379/0",
}
TEMPLATE_PREFIX = "orrery_template_"
TEMPLATE_KEPT_S = 86400
# Copies files instead of writing every block to the log: a quarter of the time for a schema of this many tables.
COPIED = "STRATEGY FILE_COPY"
CREATE_LOCK = 0x74657374  # one template is made at a time, whichever test process comes first


def address(variable: str) -> str:
    """The address of one server; `variable` is the name of its environment variable. Empty where there is none: the
    variable is set but empty when this machine has no such server."""
    if variable in os.environ:
        return os.environ[variable]
    if SERVERS_FILE.exists():
        saved = json.loads(SERVERS_FILE.read_text(encoding="utf-8"))
        if saved.get(variable):
            return str(saved[variable])
    return STANDARD[variable]


@dataclass(frozen=True)
class Servers:
    database_url: str
    rabbitmq_url: str
    redis_url: str

    @classmethod
    def find(cls) -> Servers:
        return cls(*(address(variable) for variable in STANDARD))


def with_database(url: str, name: str) -> str:
    """The same server, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def template_name() -> str:
    """One template for each schema."""
    return f"{TEMPLATE_PREFIX}{migrate.declared().digest[:12]}"


async def ensure_template(url: str) -> str:
    """The name of an empty database with the schema that nobody is connected to; made once, by whoever comes first."""
    name = template_name()
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", CREATE_LOCK)
        # datallowconn is set to false last: a half-made template is made again
        ready = await connection.fetchval("SELECT NOT datallowconn FROM pg_database WHERE datname = $1", name)
        if ready:
            return name
        await _drop_old_templates(connection)
        if ready is not None:
            await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await connection.execute(f'CREATE DATABASE "{name}"')
        await migrate.migrate(with_database(url, name))
        await connection.execute(f"COMMENT ON DATABASE \"{name}\" IS '{int(time.time())}'")
        await connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        return name
    finally:
        await connection.close()  # releases the lock


async def _drop_old_templates(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT datname, shobj_description(oid, 'pg_database') AS made_at FROM pg_database"
        " WHERE starts_with(datname, $1)",
        TEMPLATE_PREFIX,
    )
    for row in rows:
        if row["made_at"] and time.time() - int(row["made_at"]) > TEMPLATE_KEPT_S:
            await connection.execute(f'DROP DATABASE IF EXISTS "{row["datname"]}"')


async def clone_template(url: str, template: str) -> str:
    """The address of a fresh copy of the template."""
    name = f"orrery_test_{uuid.uuid4().hex[:16]}"
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {COPIED}')
    finally:
        await connection.close()
    return with_database(url, name)


async def drop_database(url: str, clone_url: str) -> None:
    """Remove a clone, whoever is still connected to it."""
    name = urlsplit(clone_url).path.lstrip("/")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    finally:
        await connection.close()
