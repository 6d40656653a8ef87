"""The connection pool of one process and the transactions made from it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast

import asyncpg

from shared.cancelling import cancellations_of_others_are_errors
from shared.db.codecs import prepare_connection
from shared.db.holders import Turns
from shared.db.places import ACQUIRE_TIMEOUT_S, Places
from shared.db.unit_of_work import InboxKey, UnitOfWork
from shared.db.waits import RowHeld, SessionsBusy

log = logging.getLogger(__name__)

COMMAND_TIMEOUT_S = 120.0
#: no statement waits longer for a row: what could not be done is tried again later
LOCK_TIMEOUT_S = 2.0
#: a transaction that does nothing for so long belongs to a process that was stopped: the database ends it
IDLE_IN_TRANSACTION_S = 5.0
#: a client that takes no data for so long is gone, although its machine still answers
SILENT_CLIENT_S = 15.0

# What PostgreSQL (or the network to it) raises when a transaction failed for a reason that has nothing to do with what
# it tried to do: trying again is right, and the outcome of a COMMIT that was under way is unknown.
# InterfaceError is asyncpg's "connection was closed in the middle of operation".
RETRYABLE_ERRORS: tuple[type[BaseException], ...] = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.TransactionRollbackError,  # serialization failure, deadlock, statement completion unknown
    asyncpg.InsufficientResourcesError,  # too many connections, disk full, out of memory
    asyncpg.OperatorInterventionError,  # shutdown, backend terminated, statement cancelled
    asyncpg.LockNotAvailableError,
    RowHeld,
    SessionsBusy,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidCachedStatementError,  # a table changed meanwhile; the statement is prepared again
    asyncpg.InternalClientError,  # the protocol was cut in the middle of an exchange; the connection is discarded
    ConnectionError,
    TimeoutError,
    OSError,
)


def is_unstorable(error: BaseException) -> bool:
    """Whether `error` is about a value: too large for its column, not a storable text, not a number.

    What asyncpg cannot encode is an InterfaceError (and a ValueError), what the server refuses a DataError.
    """
    if isinstance(error, asyncpg.InterfaceError):
        return isinstance(error, ValueError)
    return isinstance(error, asyncpg.DataError)


def is_retryable(error: BaseException) -> bool:
    """Whether the database, and not the statement, is to blame for `error`."""
    if is_unstorable(error):
        return False
    if type(error) is asyncpg.InterfaceError:
        text = str(error)
        return "clos" in text or "released" in text or "connection" in text
    return isinstance(error, RETRYABLE_ERRORS)


def unavailable(error: BaseException) -> str:
    """What a caller is told about a retryable error: what was waited for, or that no server answers."""
    if isinstance(error, RowHeld):
        return f"not now: the request {error}; nothing was changed, try again in a few seconds"
    if isinstance(error, SessionsBusy):
        return f"not now: {error}; nothing was changed, try again in a few seconds"
    if isinstance(error, asyncpg.LockNotAvailableError):
        return (
            "not now: another transaction holds what the request needs; nothing was changed, try again in a few seconds"
        )
    return f"PostgreSQL does not answer now ({type(error).__name__}: {error}); try again in a few seconds"


async def _reset(connection: asyncpg.Connection) -> None:
    """A connection goes back to the pool: asyncpg's own reset would be a round trip after each transaction."""
    if connection.is_in_transaction():
        await connection.reset(timeout=5.0)


class Database:
    """Two pools; `actor` is written into every line of the transition log made through it.

    Reads have sessions of their own. One caller has half of these, and half of those for transactions. Of the latter
    handlers of messages never take the last two, and nothing that may wait for a row takes the last one, which is the
    relay's: a row that is held for long delays those who need that row.

    `on_commit` is called (synchronously, after the commit) each time a transaction that emitted events committed.
    `now` replaces the database's clock in simulations: every transaction sets `orrery.now` from it.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        *,
        actor: str,
        now: Callable[[], datetime] | None = None,
        reads: asyncpg.Pool | None = None,
        places: Places | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.pool = pool
        self.actor = actor
        self.on_commit: list[Callable[[], None]] = []
        self._now = now
        self._reads = reads or pool
        self._turns = turns or Turns(self._reads.get_max_size(), "reads", wait_s=ACQUIRE_TIMEOUT_S)
        self._places = places or Places(pool.get_max_size(), self.read)

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        actor: str,
        min_size: int = 1,
        max_size: int = 8,
        now: Callable[[], datetime] | None = None,
        idle_in_transaction_s: float | None = None,
    ) -> Database:
        """Open the pools: `max_size` sessions for transactions, half as many for reads.

        Raises what asyncpg raises when the server cannot be reached.
        """
        may_idle_s = IDLE_IN_TRANSACTION_S if idle_in_transaction_s is None else idle_in_transaction_s
        pool = await open_pool(url, actor, min_size, max_size, may_idle_s)
        reads = await open_pool(url, f"{actor} reads", 0, max(1, max_size // 2), may_idle_s)
        return cls(pool, actor=actor, now=now, reads=reads)

    @property
    def is_simulated(self) -> bool:
        """Whether the clock is a simulation's: then `begin` makes every transaction, one at a time."""
        return self._now is not None

    def monotonic(self) -> float:
        """Seconds for time-outs in memory: the process's monotonic clock, in a simulation the simulated one."""
        return self._now().timestamp() if self._now else time.monotonic()

    def acting_as(self, actor: str) -> Database:
        """The same pool under another name: several services in one process, each with its own actor."""
        other = Database(
            self.pool, actor=actor, now=self._now, reads=self._reads, places=self._places, turns=self._turns
        )
        other.on_commit = self.on_commit
        return other

    @asynccontextmanager
    async def begin(
        self, *, reason: str, cause_event_id: int | None = None, inbox: Sequence[InboxKey] = ()
    ) -> AsyncIterator[UnitOfWork]:
        """One transaction: committed on exit, rolled back when an exception leaves the block.

        Events emitted in it go to the outbox in the same transaction. With `inbox`, the transaction begins by noting
        that a consumer handles these events; `work.new_events` are those that it did not handle before. Raises RowHeld
        when another transaction holds a row for too long, SessionsBusy when others have all sessions.
        """
        async with (
            self._places.taken(for_message=bool(inbox)),
            self.transaction() as connection,
            self._places.waits.noticed(connection, look=self._now is None),
        ):
            work = UnitOfWork(connection, actor=self.actor, clock=self.monotonic)
            await work.open(
                reason=reason,
                cause_event_id=cause_event_id,
                simulated_now=self._now() if self._now else None,
                inbox=inbox,
            )
            yield work
            wrote_events = await work.flush()
        work.committed()
        if wrote_events:
            for callback in self.on_commit:
                callback()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """A transaction and nothing else: no inbox, no outbox, no line in the log of transitions (the relay)."""
        async with self._lend(self.pool) as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                yield connection
            except BaseException:
                await _roll_back(transaction, connection)
                raise
            await transaction.commit()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection in autocommit for reads. In a simulation it sees the simulated clock.

        Raises TooManyOfOne where others of the same caller are in the way, SessionsBusy where anybody's are.
        """
        async with self._turns.taken(), self._lend(self._reads) as connection:
            if self._now is not None:
                await connection.execute("SELECT set_config('orrery.now', $1, false)", self._now().isoformat())
            yield connection

    @asynccontextmanager
    async def _lend(self, pool: asyncpg.Pool) -> AsyncIterator[asyncpg.Connection]:
        """A connection of the pool, given back whatever happens.

        Cancellation always comes through: what a broken connection raises while its user is being cancelled (in a
        rollback, when it goes back to the pool) must not take its place, or whoever waits for the end waits for ever.
        What a broken connection cancels by itself is an error.
        """
        try:
            with cancellations_of_others_are_errors():
                proxy = await _session_of(pool)
                try:
                    yield proxy
                finally:
                    await pool.release(cast(Any, proxy))
        except Exception as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError from error
            raise

    async def close(self) -> None:
        """Give running transactions a moment, then cut."""
        self._places.waits.close()
        pools = {self.pool, self._reads}
        try:
            async with asyncio.timeout(5.0):
                await asyncio.gather(*(pool.close() for pool in pools))
        except (TimeoutError, asyncio.CancelledError):
            for pool in pools:
                pool.terminate()


async def open_pool(
    url: str, actor: str, min_size: int, max_size: int, idle_in_transaction_s: float, **connecting: Any
) -> asyncpg.Pool:
    """Open sessions that wait for nothing for long. Their name tells which process has them."""
    pool = await asyncpg.create_pool(
        url,
        min_size=min_size,
        max_size=max_size,
        init=prepare_connection,
        reset=_reset,
        command_timeout=COMMAND_TIMEOUT_S,
        timeout=10.0,
        server_settings={
            "application_name": f"orrery {actor}, process {os.getpid()}"[:63],
            "timezone": "UTC",
            "jit": "off",
            "lock_timeout": f"{LOCK_TIMEOUT_S}s",
            "idle_in_transaction_session_timeout": f"{idle_in_transaction_s}s",
            "tcp_user_timeout": f"{SILENT_CLIENT_S}s",
        },
        **connecting,
    )
    assert pool is not None
    return pool


async def _session_of(pool: asyncpg.Pool) -> asyncpg.Connection:
    """One session of the pool. Raises SessionsBusy if others have them all for too long, else what asyncpg raises."""
    try:
        return cast(asyncpg.Connection, await pool.acquire(timeout=ACQUIRE_TIMEOUT_S))
    except TimeoutError:
        if pool.get_size() < pool.get_max_size() or pool.get_idle_size():
            raise
        text = f"all {pool.get_max_size()} sessions of the pool have been in use for {ACQUIRE_TIMEOUT_S:.0f} s"
        raise SessionsBusy(text) from None


async def _roll_back(transaction: Any, connection: asyncpg.Connection) -> None:
    """Roll back if there is still something to roll back: the original error matters, not this one."""
    try:
        if not connection.is_closed():
            await transaction.rollback()
    except Exception:
        log.debug("rollback failed; the connection is discarded", exc_info=True)
        with contextlib.suppress(asyncpg.InterfaceError):  # it broke, and the pool has taken it back already
            connection.terminate()
