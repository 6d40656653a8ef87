"""How many transactions of one process may be open at once, by whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from shared.db.holders import Turns
from shared.db.waits import LockWaits, SessionsBusy

ACQUIRE_TIMEOUT_S = 10.0


class Places:
    """Places for them.

    Messages leave two sessions of the pool to others, whoever may wait for a row leaves one to the relay, which never
    does.
    """

    def __init__(self, size: int, read: Callable[[], Any]) -> None:
        self._anybody = asyncio.Semaphore(max(1, size - 1))
        self._messages = asyncio.Semaphore(max(1, size - 2))
        self.size = size
        self.waits = LockWaits(read)
        self._of_one = Turns(size - 1, "transactions", wait_s=ACQUIRE_TIMEOUT_S)

    @asynccontextmanager
    async def taken(self, *, for_message: bool) -> AsyncIterator[None]:
        """A place, as long as the block runs.

        A message waits for its turn; others give up. Raises SessionsBusy.
        """
        async with self._messages if for_message else self._of_one.taken():
            try:
                async with asyncio.timeout(None if for_message else ACQUIRE_TIMEOUT_S):
                    await self._anybody.acquire()
            except TimeoutError:
                text = f"all {self.size} sessions for transactions have been in use for {ACQUIRE_TIMEOUT_S:.0f} s"
                raise SessionsBusy(text) from None
            try:
                yield
            finally:
                self._anybody.release()
