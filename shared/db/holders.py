"""For whom a request uses the database: what one caller does leaves sessions for what others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from shared.db.waits import SessionsBusy

T = TypeVar("T")
#: what may wait for other reads, or transactions, of the same caller
MOST_WAITING = 200

_HOLDER: ContextVar[str | None] = ContextVar("orrery_holder", default=None)
#: who holds a session may take another one: waiting for it would be waiting for itself
_HOLDS: ContextVar[bool] = ContextVar("orrery_holds", default=False)


class TooManyOfOne(SessionsBusy):
    """What the same caller does already, not what all do, is in the way."""


@contextmanager
def acting_for(holder: str | None) -> Iterator[None]:
    """What is read and written meanwhile is for this caller; for nobody in particular without one."""
    before = _HOLDER.set(holder)
    try:
        yield
    finally:
        _HOLDER.reset(before)


def for_all(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin what several callers wait for: it is for nobody in particular, whoever's request began it."""
    context = copy_context()
    context.run(_HOLDER.set, None)
    context.run(_HOLDS.set, False)
    return asyncio.get_running_loop().create_task(work, context=context)


class Turns:
    """How many of some sessions one caller has at once; its other requests wait in their order."""

    def __init__(self, size: int, what: str, *, wait_s: float) -> None:
        self.most_of_one = max(1, size // 2)
        self._what = what
        self._wait_s = wait_s
        self._of: dict[str, tuple[asyncio.Semaphore, list[int]]] = {}

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """A turn, as long as the block runs. Raises TooManyOfOne."""
        holder = _HOLDER.get()
        if holder is None or _HOLDS.get():
            yield
            return
        turns, n_here = self._of.setdefault(holder, (asyncio.Semaphore(self.most_of_one), [0]))
        if n_here[0] >= MOST_WAITING + self.most_of_one:
            raise TooManyOfOne(f"{n_here[0]} {self._what} of {holder} are under way or wait already")
        n_here[0] += 1
        try:
            await self._turn(turns, holder)
            held = _HOLDS.set(True)
            try:
                yield
            finally:
                _HOLDS.reset(held)
                turns.release()
        finally:
            n_here[0] -= 1
            if not n_here[0]:
                del self._of[holder]

    async def _turn(self, turns: asyncio.Semaphore, holder: str) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await turns.acquire()
        except TimeoutError:
            text = f"{self.most_of_one} other {self._what} of {holder} have been under way for {self._wait_s:.0f} s"
            raise TooManyOfOne(text) from None
