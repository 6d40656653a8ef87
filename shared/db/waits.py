"""What a transaction waits for: which row, and which process holds it.

PostgreSQL tells a statement that met its lock time-out only that it did. So while a transaction of this process is
open for longer than a moment, the server is asked, at most once a second, what the process's sessions wait for; the
answer becomes the text of the error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.7
#: the log tells of a transaction that others wait for once it has been open for so long
LONG_S = 5.0

# The end of the chain of those who wait for one another is the session that really holds the row: the first one in the
# queue waits for the holder's transaction, the others for the first one.
_WAITS = """
WITH RECURSIVE chain AS (
    SELECT own.pid AS waiting, by.pid AS pid, 1 AS depth
      FROM unnest($1::int[]) AS own (pid) CROSS JOIN LATERAL unnest(pg_blocking_pids(own.pid)) AS by (pid)
    UNION
    SELECT c.waiting, by.pid, c.depth + 1
      FROM chain c CROSS JOIN LATERAL unnest(pg_blocking_pids(c.pid)) AS by (pid) WHERE c.depth < 8
), root AS (
    SELECT DISTINCT ON (waiting) waiting, pid FROM chain ORDER BY waiting, depth DESC, pid
)
SELECT root.waiting, place.relation::regclass::text AS relation, place.page, place.tuple,
       coalesce(nullif(holder.application_name, ''), 'a session') AS holder, root.pid AS session,
       coalesce(extract(epoch FROM orrery_now() - holder.xact_start), 0)::double precision AS held_s,
       holder.state = 'idle in transaction' AS is_idle
  FROM root
  LEFT JOIN pg_stat_activity holder ON holder.pid = root.pid
  LEFT JOIN LATERAL (SELECT l.relation, l.page, l.tuple FROM pg_locks l
                      WHERE l.pid = root.waiting AND l.locktype IN ('tuple', 'relation')
                      ORDER BY l.granted, l.locktype = 'tuple' DESC LIMIT 1) place ON true
"""

# The tables whose rows are waited for, by the name a user knows and the column that names the row.
_ROWS = {
    "tasks": ("task", "SELECT task_id::text FROM tasks WHERE ctid = $1::text::tid"),
    "jobs": ("job", "SELECT job_id::text FROM jobs WHERE ctid = $1::text::tid"),
    "chunks": ("chunk", "SELECT chunk_id::text FROM chunks WHERE ctid = $1::text::tid"),
    "task_datasets": ("dataset", "SELECT dataset_name FROM task_datasets WHERE ctid = $1::text::tid"),
    "task_files": ("file", "SELECT lfn FROM task_files WHERE ctid = $1::text::tid"),
    "leases": ("lease", "SELECT name FROM leases WHERE ctid = $1::text::tid"),
}

Read = Callable[[], AbstractAsyncContextManager[asyncpg.Connection]]


class RowHeld(Exception):
    """Another transaction held a row (or a table) for longer than anybody waits.

    Trying again later is right.
    """


class SessionsBusy(Exception):
    """All sessions of this process were in use for too long. PostgreSQL itself may be well."""


class LockWaits:
    """Knows what the open transactions of one process wait for, if they wait."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._open: set[int] = set()
        self._texts: dict[int, str] = {}
        self._told: set[int] = set()
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def noticed(self, connection: asyncpg.Connection, *, look: bool = True) -> AsyncIterator[None]:
        """While the block runs, its session is one whose waits are looked up (never in simulations: `look`).

        Raises RowHeld for a lock time-out.
        """
        pid = connection.get_server_pid()
        self._open.add(pid)
        if look and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look(), name="waits for rows")
        try:
            yield
        except asyncpg.LockNotAvailableError as error:
            raise RowHeld(self._texts.get(pid, "waited too long for a row that another transaction holds")) from error
        finally:
            self._open.discard(pid)
            self._texts.pop(pid, None)

    def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        """As long as there are transactions: ask about those that were open at the last look too."""
        seen: set[int] = set()
        while self._open:
            await asyncio.sleep(LOOK_EVERY_S)
            both, seen = sorted(seen & self._open), set(self._open)
            old = both or sorted(seen)
            if not old:
                continue
            try:
                async with asyncio.timeout(LOOK_EVERY_S), self._read() as connection:
                    rows: list[Any] = await connection.fetch(_WAITS, old)
                    self._texts = {row["waiting"]: await _described(connection, row) for row in rows}
            except Exception as error:
                log.debug("what transactions wait for is not known: %s", error)
            else:
                self._log(rows)

    def _log(self, rows: Sequence[Any]) -> None:
        """Each session that holds up others for long is told once; who waits for a moment is what a busy system has."""
        holders = {row["session"]: self._texts[row["waiting"]] for row in rows if row["held_s"] >= LONG_S}
        for session, text in sorted(holders.items()):
            if session not in self._told:
                log.info("%s", text)
        self._told = set(holders)


async def _described(connection: asyncpg.Connection, row: Any) -> str:
    what = f"a row of {row['relation']}" if row["relation"] else "a lock"
    if row["relation"] in _ROWS and row["tuple"] is not None:
        word, statement = _ROWS[row["relation"]]
        name = await connection.fetchval(statement, f"({row['page']},{row['tuple']})")
        what = f"the row of {word} {name}" if name else what
    idle = ", which does nothing," if row["is_idle"] else ""
    return f"waits for {what}, held by {row['holder']} (session {row['session']}){idle} for {row['held_s']:.1f} s"
