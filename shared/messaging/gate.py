"""One gate per database: while PostgreSQL is away consumers wait at it with their messages unsettled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from shared.db.database import Database

log = logging.getLogger(__name__)

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
PROBE_TIMEOUT_S = 5.0


class DatabaseGate:
    """Open while the last probe was answered.

    Consumers take no more messages than their prefetch while they wait.
    """

    def __init__(self, database: Database, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._database = database
        self._sleep = sleep
        self._open = asyncio.Event()
        self._open.set()
        self._prober: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    async def opened(self) -> None:
        """Wait until PostgreSQL answers."""
        await self._open.wait()

    async def probe(self) -> bool:
        """Ask PostgreSQL now; close the gate, and start looking for its return, if it does not answer."""
        if not self.is_open:
            await self.opened()
            return False
        if await self._answers():
            return True
        if self.is_open:
            self._open.clear()
            log.error("PostgreSQL does not answer: messages are kept and nothing more is taken")
            self._prober = asyncio.create_task(self._look_for_return(), name="database gate")
        await self.opened()
        return False

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S), self._database.read() as connection:
                await connection.fetchval("SELECT 1")
        except Exception:
            return False
        return True

    async def _look_for_return(self) -> None:
        delay_s = FIRST_DELAY_S
        while not await self._answers():
            await self._sleep(delay_s)
            delay_s = min(delay_s * 2, LONGEST_DELAY_S)
        log.info("PostgreSQL answers again")
        self._open.set()
