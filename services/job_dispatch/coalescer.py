"""What arrives together is done together: one transaction for all that waits, a reply to each when it committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.db.database import is_retryable, unavailable

T = TypeVar("T")
R = TypeVar("R")


class TooLate(Exception):
    """PostgreSQL was away for too long; nothing is known to have changed."""


@dataclass(frozen=True)
class CoalescerLimits:
    """`batch` items in one transaction, `concurrency` transactions at once; how PostgreSQL's absence is waited out."""

    batch: int = 200
    concurrency: int = 2
    tries: int = 20
    retry_after_s: float = 0.25


class Coalescer(Generic[T, R]):
    """Items with the same key are handled in the order of their arrival, never two at a time.

    `run` gets a batch and returns one result per item; it may be repeated after an error of PostgreSQL, so it must be
    idempotent. When it fails otherwise, each item is tried alone, so that one bad item harms nobody else.
    """

    def __init__(
        self,
        run: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        *,
        key: Callable[[T], Hashable],
        limits: CoalescerLimits | None = None,
    ) -> None:
        self._run = run
        self._key = key
        self._limits = limits or CoalescerLimits()
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._busy: set[Hashable] = set()
        self._n_running = 0
        self._scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: T) -> R:
        """The item's result, after the commit. Raises TooLate, or what `run` raised for this item."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._schedule()
        return await future

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        while self._waiting and self._n_running < self._limits.concurrency:
            batch = self._next_batch()
            if not batch:
                return  # all that waits is about things that are being handled
            self._n_running += 1
            task = asyncio.get_running_loop().create_task(self._handle(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next_batch(self) -> list[tuple[T, asyncio.Future[R]]]:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        held_back: list[tuple[T, asyncio.Future[R]]] = []
        blocked: set[Hashable] = set()
        while self._waiting and len(batch) < self._limits.batch:
            one = self._waiting.popleft()
            key = self._key(one[0])
            if key in self._busy or key in blocked:
                held_back.append(one)
                blocked.add(key)
            else:
                batch.append(one)
                self._busy.add(key)
        self._waiting.extendleft(reversed(held_back))
        return batch

    async def _handle(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            await self._try(batch)
        finally:
            self._busy.difference_update(self._key(item) for item, _ in batch)
            self._n_running -= 1
            self._schedule()

    async def _try(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        for attempt in range(self._limits.tries):
            try:
                results = await self._run([item for item, _ in batch])
            except Exception as error:
                if not is_retryable(error):
                    await self._one_by_one(batch, error)
                    return
                if attempt + 1 == self._limits.tries:
                    _fail(batch, TooLate(unavailable(error)))
                    return
                await asyncio.sleep(self._limits.retry_after_s)
            else:
                for (_, future), result in zip(batch, results, strict=True):
                    if not future.done():
                        future.set_result(result)
                return

    async def _one_by_one(self, batch: list[tuple[T, asyncio.Future[R]]], error: Exception) -> None:
        if len(batch) == 1:
            _fail(batch, error)
            return
        for one in batch:
            await self._try([one])

    async def close(self) -> None:
        """Let what is under way end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)


def _fail(batch: Sequence[tuple[T, asyncio.Future[R]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
            future.exception()  # seen: a caller that has gone is not an error of ours
