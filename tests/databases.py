"""Databases that the tests of one process use one after another.

To copy the template takes some hundred milliseconds of a processor, to empty a copy a tenth of that: a test leaves its
database to the next one, with the rows, sequences and statistics of the template. A database in which anything else
changed (its schema, its settings), or that cannot be emptied for whatever reason, is dropped.

A new session reads the catalogues and plans every statement anew, which takes longer than the statements. So each
database has one session of ours as long as it lives, in an event loop that outlives those of the tests, and the pools
of a test are left to the next one, too: tests of one process run in one event loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import Any, TypeVar

import asyncpg

import shared.db.database
from shared.db import Database
from tests import servers

T = TypeVar("T")

SESSION_END_TIMEOUT_S = 60.0
#: what asyncpg raises when a session ends, before, during or between its statements
_ENDED = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
#: the name of our session, for tests that look at the sessions of their database
OWN_SESSION = "databases of the tests"
#: the sessions of the pools that are left to the next test
KEPT_SESSIONS = "kept by the tests"
_NAME_OF_KEPT = f"orrery {KEPT_SESSIONS}, process {os.getpid()}"
_MAX_SIZE = 8
_SETTINGS = {"application_name": OWN_SESSION, "plan_cache_mode": "force_generic_plan"}

#: asked until nobody is left; the function's own way of waiting looks every 100 ms
_END_SESSIONS = """
SELECT count(*) FROM (SELECT pg_terminate_backend(pid), pg_sleep(0.001) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid()
                         AND application_name IS DISTINCT FROM $1 OFFSET 0) AS ended
"""

#: Of these the number of rows and the last transaction that wrote one tell of every change of the schema. Emptying a
#: table writes to pg_class: there, only the columns are compared that it leaves alone.
_CATALOGUES = {
    "pg_attrdef": "true", "pg_attribute": "true", "pg_constraint": "true", "pg_default_acl": "true",
    "pg_description": "true", "pg_enum": "true", "pg_event_trigger": "true", "pg_extension": "true",
    "pg_index": "true", "pg_inherits": "true", "pg_namespace": "nspname !~ '^pg_(toast_)?temp_'", "pg_policy": "true",
    "pg_proc": "true", "pg_rewrite": "true", "pg_sequence": "true", "pg_statistic_ext": "true",
    "pg_trigger": "true", "pg_type": "true",
    "pg_statistic": "starelid >= 16384",  # what ANALYZE found in our own tables
}  # fmt: skip
_CATALOGUE = "SELECT '{0}' AS what, concat(count(*), ' ', max(xmin::text::bigint)) AS state FROM {0} WHERE {1}"
_SHAPE = " UNION ALL ".join(
    [
        *(_CATALOGUE.format(name, condition) for name, condition in _CATALOGUES.items()),
        """
SELECT 'pg_class', md5(string_agg(concat_ws(' ', oid, relname, relowner, relacl, reloptions, relreplident,
                                            relpersistence, relrowsecurity), ',' ORDER BY oid))
  FROM pg_class WHERE oid >= 16384
""",
        """
SELECT 'pg_database', concat_ws(' ', datallowconn, datconnlimit, datacl) FROM pg_database
 WHERE datname = current_database()
""",
        """
SELECT 'pg_db_role_setting', concat(string_agg(setrole || array_to_string(setconfig, ','), ';' ORDER BY setrole))
  FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
""",
    ]
)
#: To the planner a table that was never vacuumed and has fewer pages than this has so many: whether rows were deleted
#: makes no difference to it. New files for a table and its indexes take far longer than to delete a few rows.
_FEW_PAGES = 10
_FILLED = f"""
SELECT oid::regclass::text AS name,
       pg_relation_size(oid) <= {_FEW_PAGES} * current_setting('block_size')::integer AS is_small
  FROM pg_class WHERE relkind = 'r' AND oid >= 16384 AND pg_relation_size(oid) > 0 ORDER BY oid
"""
_SEQUENCES = "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'S' AND oid >= 16384 ORDER BY oid"
_SET_SEQUENCES = """
SELECT setval(name::regclass, last_value, is_called)
  FROM unnest($1::text[], $2::bigint[], $3::boolean[]) AS kept (name, last_value, is_called)
"""
#: what the planner believes of the size of tables and indexes, which emptying a large table forgets
_PAGES = "SELECT oid, relpages, reltuples FROM pg_class WHERE relkind IN ('r', 'i', 't') AND oid >= 16384"
_SET_PAGES = """
UPDATE pg_class c SET relpages = kept.relpages, reltuples = kept.reltuples
  FROM unnest($1::oid[], $2::integer[], $3::real[]) AS kept (oid, relpages, reltuples)
 WHERE c.oid = kept.oid AND (c.relpages, c.reltuples) IS DISTINCT FROM (kept.relpages, kept.reltuples)
"""
#: where a row lies is part of it: rows written anew come in another order
_CONTENT = """
SELECT '{0}' AS name, md5(string_agg(concat(ctid, xmin, kept), ';' ORDER BY ctid)) AS content FROM {0} AS kept
"""


@dataclass
class Origin:
    """What one copy of the template held when it was fresh.

    `rows`: of the tables that are not empty, as COPY writes them; `content` tells whether they are still the same.
    """

    shape: dict[str, str]
    sequences: tuple[list[str], list[int], list[bool]]
    rows: dict[str, bytes]
    content: dict[str, str]
    pages: list[asyncpg.Record]

    @classmethod
    async def of(cls, connection: asyncpg.Connection) -> Origin:
        names = [row["name"] for row in await connection.fetch(_SEQUENCES)]
        values = [await connection.fetchrow(f"SELECT last_value, is_called FROM {name}") for name in names]
        sequences = (names, [row["last_value"] for row in values if row], [row["is_called"] for row in values if row])
        rows = {row["name"]: await _rows(connection, row["name"]) for row in await connection.fetch(_FILLED)}
        pages = await connection.fetch(_PAGES)
        return cls(await _shape(connection), sequences, rows, await _content(connection, rows), pages)

    async def restore(self, connection: asyncpg.Connection, *, kept_sessions: str | None = None) -> bool:
        """Make the database as it was; whether that was possible. All sessions end but those of the name given."""
        async with asyncio.timeout(SESSION_END_TIMEOUT_S):
            while await connection.fetchval(_END_SESSIONS, kept_sessions):
                pass
        if await _shape(connection) != self.shape:
            return False
        async with connection.transaction():
            # no trigger writes a line about rows that go or are put back, and no key refers to them
            await connection.execute("SET LOCAL session_replication_role = replica")
            await self._empty(connection)
            await self._fill(connection)
            await connection.fetch(_SET_SEQUENCES, *self.sequences)
            await connection.execute(_SET_PAGES, *([row[column] for row in self.pages] for column in range(3)))
        # what this session counted is counted now, not at its end, and forgotten: nothing is due for autovacuum
        await connection.execute("SELECT pg_stat_force_next_flush()")
        await connection.execute("SELECT pg_stat_reset()")
        return True

    async def _empty(self, connection: asyncpg.Connection) -> None:
        """Tables that have rows, unless they are the template's."""
        same = self.content.items() & (await _content(connection, self.rows)).items()
        untouched = {name for name, _ in same}
        written = [row for row in await connection.fetch(_FILLED) if row["name"] not in untouched]
        small = [f"DELETE FROM {row['name']}" for row in written if row["is_small"]]
        large = [row["name"] for row in written if not row["is_small"]]
        if written:
            await connection.execute("; ".join(small + [f"TRUNCATE {', '.join(large)} CASCADE"] * bool(large)))

    async def _fill(self, connection: asyncpg.Connection) -> None:
        same = self.content.items() & (await _content(connection, self.rows)).items()
        lost = self.rows.keys() - {name for name, _ in same}
        for name in sorted(lost):
            schema, _, table = name.rpartition(".")
            source = BytesIO(self.rows[name])
            await connection.copy_to_table(table, schema_name=schema or None, source=source, format="binary")
        if lost:
            self.content = await _content(connection, self.rows)


@dataclass
class Copy:
    """A copy of the template with our session in it, which a test may have ended."""

    url: str
    session: asyncpg.Connection
    origin: Origin
    pools: list[asyncpg.Pool] = field(default_factory=list)

    async def database(self, actor: str) -> Database:
        """Pools like those of `Database.connect`, of sessions that know the statements of earlier tests."""
        if not self.pools:
            may_idle_s = shared.db.database.IDLE_IN_TRANSACTION_S
            for size in (_MAX_SIZE, _MAX_SIZE // 2):
                pool = await shared.db.database.open_pool(
                    self.url, KEPT_SESSIONS, 0, size, may_idle_s, statement_cache_size=2000,
                    max_cached_statement_lifetime=0, max_inactive_connection_lifetime=0,
                )  # fmt: skip
                self.pools.append(pool)
        pool, reads = self.pools
        return Database(pool, actor=actor, reads=reads)

    async def make_pools_new(self) -> None:
        """Take back what a test set in the sessions; pools of which anything is in use, broken or closed are cut."""
        try:
            for pool in self.pools:
                sessions = [await pool.acquire(timeout=1.0) for _ in range(pool.get_idle_size())]
                is_whole = len(sessions) == pool.get_size()
                for session in sessions:
                    await session.reset()
                    await session.execute("SELECT pg_stat_force_next_flush()")  # what it counted is not the next test's
                    await pool.release(session)
                if not is_whole:
                    self.cut_pools()
                    return
        except _ENDED:
            self.cut_pools()

    def cut_pools(self) -> None:
        while self.pools:
            self.pools.pop().terminate()

    async def connected(self) -> asyncpg.Connection:
        if self.session.is_closed():
            self.session = await _session_in(self.url)
        return self.session

    async def alive(self) -> asyncpg.Connection:
        """Asked, because the news that the server has ended our session may still be on its way."""
        try:
            await (await self.connected()).execute("SELECT")
        except _ENDED:
            self.session.terminate()
            self.session = await _session_in(self.url)
        return self.session


class Databases:
    """Each is lent to one test at a time."""

    def __init__(self, server_url: str, template: str) -> None:
        self._server_url, self._template = server_url, template
        self._free: list[Copy] = []
        self._lent: dict[str, Copy] = {}

    async def lend(self) -> str:
        """The address of an empty database with the schema."""
        copy = self._free.pop() if self._free else await self._apart(self._make())
        self._lent[copy.url] = copy
        return copy.url

    async def ask(self, url: str, question: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """The answer to a question about a lent database, asked in our session. It must change nothing."""

        async def answer(copy: Copy) -> T:
            return await question(await copy.connected())

        return await self._apart(answer(self._lent[url]))

    async def database(self, url: str, actor: str) -> Database:
        """The pools of a lent database; who asks again has the same ones."""
        return await self._lent[url].database(actor)

    async def take_back(self, url: str) -> None:
        """Whoever is still connected is cut off."""
        copy = self._lent.pop(url)
        await copy.make_pools_new()
        if await self._apart(self._clean(copy)):
            self._free.append(copy)
        else:
            copy.cut_pools()
            await self._apart(self._drop(copy))

    async def drop(self) -> None:
        """All that are not lent."""
        while self._free:
            await self._apart(self._drop(self._free.pop()))
        self._loop.call_soon_threadsafe(self._loop.stop)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name=OWN_SESSION, daemon=True).start()
        return loop

    async def _apart(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, done in the loop in which our sessions live."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _make(self) -> Copy:
        url = await servers.clone_template(self._server_url, self._template)
        session = await _session_in(url)
        return Copy(url, session, await Origin.of(session))

    async def _clean(self, copy: Copy) -> bool:
        try:
            return await copy.origin.restore(await copy.alive(), kept_sessions=_NAME_OF_KEPT)
        except _ENDED:
            return False

    async def _drop(self, copy: Copy) -> None:
        copy.session.terminate()
        await servers.drop_database(self._server_url, copy.url)


async def _session_in(url: str) -> asyncpg.Connection:
    """Its statements stay prepared as long as it lives."""
    return await asyncpg.connect(
        url, server_settings=_SETTINGS, statement_cache_size=1000, max_cached_statement_lifetime=0
    )


async def _shape(connection: asyncpg.Connection) -> dict[str, str]:
    return {row["what"]: row["state"] for row in await connection.fetch(_SHAPE)}


async def _content(connection: asyncpg.Connection, names: Iterable[str]) -> dict[str, str]:
    rows = await connection.fetch(" UNION ALL ".join(_CONTENT.format(name) for name in names))
    return {row["name"]: row["content"] for row in rows}


async def _rows(connection: asyncpg.Connection, name: str) -> bytes:
    buffer = BytesIO()
    await connection.copy_from_query(f"SELECT * FROM {name}", output=buffer, format="binary")
    return buffer.getvalue()
