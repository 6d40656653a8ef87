"""Services that die: just before a commit, or just after it and before anybody hears of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

import asyncpg

from shared.db.codecs import prepare_connection
from shared.db.database import Database
from shared.db.unit_of_work import InboxKey, UnitOfWork
from tests.simulation.faults import Faults

T = TypeVar("T")


class ServiceDied(BaseException):
    """A service was killed: not an Exception, so that nothing on the way can swallow it."""


class Crashes:
    """Asked around every commit of every service; `survive` runs one step, which may end in a death."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.faults = Faults()
        self.n_commits = 0
        self._died: asyncio.Future[None] | None = None
        self._name: str | None = None

    async def survive(self, step: Coroutine[Any, Any, T]) -> T:
        """The step's result. Raises ServiceDied as soon as a service died in it, whoever was waiting for that service:
        a request whose transaction runs in a task of its own would wait for ever."""
        self._died, self._name = asyncio.get_running_loop().create_future(), None
        task = asyncio.create_task(step)
        try:
            both: set[asyncio.Future[Any]] = {task, self._died}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._name is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise ServiceDied(self._name)
            return task.result()
        finally:
            self._died = None

    def before_commit(self, service: str) -> None:
        self.n_commits += 1
        self._perhaps(service, self.faults.die_before_commit)

    def after_commit(self, service: str) -> None:
        self._perhaps(service, self.faults.die_after_commit)

    def _perhaps(self, service: str, chance: float) -> None:
        if self._died is None or self._died.done() or self._rng.random() >= chance:
            return
        self._name = service
        self._died.set_result(None)
        raise ServiceDied(service)


async def open_pool(url: str, *, name: str) -> asyncpg.Pool:
    """Sessions of this name whose statements stay prepared, and for which nothing ever times out by the real clock."""
    pool = await asyncpg.create_pool(
        url, min_size=1, max_size=4, init=prepare_connection, reset=_keep, statement_cache_size=2000,
        max_cached_statement_lifetime=0, max_inactive_connection_lifetime=0,
        server_settings={"application_name": name, "timezone": "UTC", "jit": "off"},
    )  # fmt: skip
    assert pool is not None
    return pool


class SimulatedDatabase(Database):
    """The pool of all services, on the simulated clock; a transaction may be the last of its `replica`."""

    def __init__(self, pool: asyncpg.Pool, *, actor: str, now: Callable[[], datetime], crashes: Crashes) -> None:
        super().__init__(pool, actor=actor, now=now)
        self._clock, self._crashes = now, crashes
        self.replica = actor

    def acting_as(self, actor: str) -> SimulatedDatabase:
        other = SimulatedDatabase(self.pool, actor=actor, now=self._clock, crashes=self._crashes)
        other.on_commit = self.on_commit
        return other

    @asynccontextmanager
    async def begin(
        self, *, reason: str, cause_event_id: int | None = None, inbox: Sequence[InboxKey] = ()
    ) -> AsyncIterator[UnitOfWork]:
        async with super().begin(reason=reason, cause_event_id=cause_event_id, inbox=inbox) as work:
            yield work
            self._crashes.before_commit(self.replica)
        self._crashes.after_commit(self.replica)


async def _keep(connection: asyncpg.Connection) -> None:
    """A connection goes back to the pool as it is, unless a killed service left a transaction open."""
    if connection.is_in_transaction():
        await connection.reset()
