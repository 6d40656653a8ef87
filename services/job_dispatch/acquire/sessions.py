"""Connections that only claim. Their settings keep the plan of the claim a chain of look-ups by key.

With plain planning the same statement turns into hash or merge joins over the jobs table as soon as the statistics
are old or the batch is large: 1 700 to 4 900 claims/s where look-ups give 16 000. A test guards the plan.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol, cast

import asyncpg

from services.job_dispatch.store.claims import SQL
from shared.db.codecs import prepare_connection
from shared.db.database import Database

log = logging.getLogger(__name__)

REASON = "taken by a pilot"
PLAN_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "enable_material": "off",
    "jit": "off",
}
#: the windows are read in the order of the lane index: to sort half a million jobs and read 256 is too slow
READ_SETTINGS = {**PLAN_SETTINGS, "enable_bitmapscan": "off", "enable_sort": "off"}
COMMAND_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0


class ClaimLine(NamedTuple):
    """One line of the claim: a request key, and the job picked for it (0: only look the key up).

    `gshare` and `priority` are what the job was picked by: one that has others meanwhile is not taken. `asks_vo`: the
    VO of the job is to be told.
    """

    request_key: str
    job_id: int
    queue: str
    gshare: str
    shape_id: int
    priority: int
    worker: str | None
    subject: str | None = None
    asks_vo: bool = False


class ClaimOutcome(NamedTuple):
    """What a line got: its job with its specification as JSON text, claimed now or before; else None.

    `source_spots`: places in the text for the permission to fetch its archives. `vo`: of its task, where it was asked
    for or the job uses secrets. `secrets`: what its owner keeps for it, encrypted, as JSON; None where it uses none.
    """

    job_id: int | None
    known: bool
    spec: str | None
    task_id: int | None = None
    source_spots: Sequence[int] | None = None
    vo: str | None = None
    secrets: str | None = None


class Sessions(Protocol):
    """Something that runs the claim. `count` of them may run at the same time."""

    @property
    def count(self) -> int: ...

    async def claim(self, session: int, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]: ...

    async def close(self) -> None: ...


async def run_claim(connection: asyncpg.Connection, producer: str, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]:
    """Claim on one connection.

    `wanted` is in the order of the job ids; the outcomes are in the order of `wanted`.
    """
    rows: list[Any] = await SQL.rows(
        connection,
        "claim",
        request_keys=[one.request_key for one in wanted],
        job_ids=[one.job_id for one in wanted],
        queues=[one.queue for one in wanted],
        gshares=[one.gshare for one in wanted],
        shape_ids=[one.shape_id for one in wanted],
        priorities=[one.priority for one in wanted],
        workers=[one.worker for one in wanted],
        subjects=[one.subject for one in wanted],
        asks_vo=any(one.asks_vo for one in wanted),
        producer=producer,
    )
    outcomes = [ClaimOutcome(None, False, None)] * len(wanted)
    for place, known, job_id, *told in rows:
        outcomes[place - 1] = ClaimOutcome(job_id, known, *told)
    return outcomes


async def _nothing_to_reset(_: asyncpg.Connection) -> None:
    """Reset nothing: reads in autocommit leave nothing behind, and asyncpg's reset is a round trip."""


class ReadSessions:
    """A few connections for the reads of windows, opened by `open` or when they are needed."""

    def __init__(self, url: str, database: Database, count: int) -> None:
        self._url = url
        self._database = database
        self._count = count
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> asyncpg.Pool:
        """Connect before the first request: among thousands of new pilots a connection is not made in time.

        Raises what asyncpg raises.
        """
        async with self._opening:
            if self._pool is None:
                settings = {"application_name": f"orrery {self._database.actor} windows"[:63], **READ_SETTINGS}
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=self._count,
                    max_size=self._count,
                    max_inactive_connection_lifetime=0.0,
                    timeout=CONNECT_TIMEOUT_S,
                    command_timeout=COMMAND_TIMEOUT_S,
                    server_settings=settings,
                    reset=_nothing_to_reset,
                )
            return self._pool

    @asynccontextmanager
    async def read(self) -> AsyncIterator[asyncpg.Connection]:
        """Borrow a connection in autocommit. Raises what asyncpg raises."""
        pool = self._pool or await self.open()
        async with pool.acquire(timeout=COMMAND_TIMEOUT_S) as connection:
            yield cast(asyncpg.Connection, connection)

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None


class OwnSessions:
    """A fixed number of connections of its own: no pool, so a late request never overtakes an early one."""

    def __init__(self, url: str, database: Database, count: int) -> None:
        self.count = count
        self._url = url
        self._database = database
        self._connections: list[asyncpg.Connection | None] = [None] * count

    async def open(self) -> None:
        """Connect before the first request. Raises what asyncpg raises."""
        for session in range(self.count):
            await self._connected(session)

    async def claim(self, session: int, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]:
        """Claim in one autocommit statement.

        Raises what asyncpg raises; a broken connection is made anew by the next call.
        """
        connection = await self._connected(session)
        try:
            outcomes = await run_claim(connection, self._database.actor, wanted)
        except asyncpg.InternalClientError as error:
            # asyncpg's internal error when the server closes a connection during a reply: the connection is lost
            connection.terminate()
            raise ConnectionError(str(error)) from error
        for callback in self._database.on_commit:
            callback()
        return outcomes

    async def _connected(self, session: int) -> asyncpg.Connection:
        """The connection of a session; each is used by one claim at a time."""
        connection = self._connections[session]
        if connection is None or connection.is_closed():
            connection = await self._connect()
            self._connections[session] = connection
        return connection

    async def _connect(self) -> asyncpg.Connection:
        connection = await asyncpg.connect(
            self._url,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=COMMAND_TIMEOUT_S,
            server_settings={
                "application_name": f"orrery {self._database.actor} claims"[:63],
                "timezone": "UTC",
                "orrery.actor": self._database.actor,
                "orrery.reason": REASON,
                **PLAN_SETTINGS,
            },
        )
        await prepare_connection(connection)
        return connection

    async def close(self) -> None:
        """Close the connections; a claim under way may end first."""
        for connection in self._connections:
            if connection is not None and not connection.is_closed():
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(connection.close(), CONNECT_TIMEOUT_S)


class SharedSession:
    """The claim as an ordinary transaction of the pool.

    For simulations, where one transaction runs at a time.
    """

    count = 1

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, session: int, wanted: Sequence[ClaimLine]) -> list[ClaimOutcome]:
        async with self._database.begin(reason=REASON) as work:
            outcomes = await run_claim(work.connection, work.actor, wanted)
        for callback in self._database.on_commit:
            callback()
        return outcomes

    async def close(self) -> None:
        """Close nothing: it has no connection of its own."""
