"""Does together what arrives together: one transaction for all that waits, a reply after the commit.

Where much arrives, more is waited for: what pilots report over many connections shares a transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from shared.db.database import is_retryable, unavailable
from shared.db.holders import for_all
from shared.pace import Pace

T = TypeVar("T")
R = TypeVar("R")
_Waiting: TypeAlias = tuple[T, asyncio.Future[R]]


class TooLate(Exception):
    """PostgreSQL was away, or another transaction held the needed row, for too long; nothing has changed."""


class LockedItem:
    """In place of a result: not now, as another transaction holds what this item needs.

    The other results stand.
    """


HELD = LockedItem()
HELD_TEXT = "not now: another transaction holds the row; nothing was changed, try again in a few seconds"


@dataclass(frozen=True)
class CoalescerLimits:
    """Limits of a coalescer.

    `batch` items in one transaction, `concurrency` transactions at once; how PostgreSQL's absence is waited out.

    What another transaction holds is tried again every `held_after_s`, `held_tries` times: by default for 40 s.

    Where at least `worth` more items may be expected within `collect_s`, an item waits for them for so long, and longer
    after a transaction that took long; who is alone waits for nobody.
    """

    batch: int = 200
    concurrency: int = 2
    tries: int = 20
    retry_after_s: float = 0.25
    held_tries: int = 800
    held_after_s: float = 0.05
    collect_s: float = 0.0
    worth: int = 4


class Coalescer(Generic[T, R]):
    """Items with the same key are handled in the order of their arrival, never two at a time.

    `run` gets a batch and returns one result per item, or HELD where it is to be asked again; it may be repeated after
    an error of PostgreSQL, so it must be idempotent. When it fails otherwise, each item is tried alone, so that one bad
    item affects no other. Items that are held wait together, outside the batches, and delay no other item.
    """

    def __init__(
        self,
        run: Callable[[Sequence[T]], Awaitable[Sequence[R | LockedItem]]],
        *,
        key: Callable[[T], Hashable],
        limits: CoalescerLimits,
    ) -> None:
        self._run = run
        self._key = key
        self._limits = limits
        self._waiting: deque[_Waiting[T, R]] = deque()
        self._busy: set[Hashable] = set()
        self._n_running = 0
        self._pace = Pace(self._limits.collect_s, worth=self._limits.worth)
        self._waiting_since = 0.0
        self._scheduled: asyncio.Handle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[tuple[_Waiting[T, R], int]] = []
        self._is_retrying = False

    async def submit(self, item: T) -> R:
        """Hand in an item; its result, after the commit. Raises TooLate, or what `run` raised for this item."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        arrived = self._pace.arrived()
        if not self._waiting:
            self._waiting_since = arrived
        self._waiting.append((item, future))
        self._schedule()
        return await future

    def _schedule(self) -> None:
        """Begin a batch soon: when the first that waits has waited for long enough, or when there is a whole batch."""
        is_full = len(self._waiting) >= self._limits.batch
        if self._scheduled is not None and not is_full:
            return
        if self._scheduled is not None:
            self._scheduled.cancel()
        left_s = 0.0 if is_full else self._pace.left_s(self._waiting_since)
        loop = asyncio.get_running_loop()
        self._scheduled = loop.call_later(left_s, self._pump) if left_s > 0 else loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = None
        while self._waiting and self._n_running < self._limits.concurrency:
            batch = self._next_batch()
            if not batch:
                return  # all that waits is about things that are being handled
            self._n_running += 1
            self._begin(self._handle(batch))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = for_all(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _next_batch(self) -> list[_Waiting[T, R]]:
        batch: list[_Waiting[T, R]] = []
        held_back: list[_Waiting[T, R]] = []
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

    async def _handle(self, batch: list[_Waiting[T, R]]) -> None:
        held: list[_Waiting[T, R]] = []
        begun_s = time.monotonic()
        try:
            held = await self._try(batch)
        finally:
            self._pace.took(time.monotonic() - begun_s)
            self._busy.difference_update({self._key(item) for item, _ in batch} - {self._key(item) for item, _ in held})
            self._n_running -= 1
            self._schedule()
        self._held.extend((one, self._limits.held_tries) for one in held)
        if self._held and not self._is_retrying:
            self._is_retrying = True
            self._begin(self._retry_held())

    async def _retry_held(self) -> None:
        """Try all that is held again, until nothing is."""
        try:
            while self._held:
                await asyncio.sleep(self._limits.held_after_s)
                tried, self._held = self._held[: self._limits.batch], self._held[self._limits.batch :]
                left = {self._key(one[0]): n_tries - 1 for one, n_tries in tried}
                again = await self._try([one for one, _ in tried])
                given_up = [one for one in again if left[self._key(one[0])] <= 0]
                _fail(given_up, TooLate(HELD_TEXT))
                waiting = [(one, left[self._key(one[0])]) for one in again if left[self._key(one[0])] > 0]
                self._held.extend(waiting)
                self._busy.difference_update(left.keys() - {self._key(one[0]) for one, _ in waiting})
                self._schedule()
        finally:
            self._is_retrying = False

    async def _try(self, batch: list[_Waiting[T, R]]) -> list[_Waiting[T, R]]:
        """Handle these; those that are held, while all others have their answers."""
        for attempt in range(self._limits.tries):
            try:
                results = await self._run([item for item, _ in batch])
            except Exception as error:
                if not is_retryable(error):
                    return await self._one_by_one(batch, error)
                if attempt + 1 < self._limits.tries:
                    await asyncio.sleep(self._limits.retry_after_s)
                    continue
                _fail(batch, TooLate(unavailable(error)))
                return []
            return _answer(batch, results)
        return []

    async def _one_by_one(self, batch: list[_Waiting[T, R]], error: Exception) -> list[_Waiting[T, R]]:
        if len(batch) == 1:
            _fail(batch, error)
            return []
        return [held for one in batch for held in await self._try([one])]

    async def close(self) -> None:
        """Let what is under way end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)


def _answer(batch: list[_Waiting[T, R]], results: Sequence[R | LockedItem]) -> list[_Waiting[T, R]]:
    """Give each its result, except those that are held: these are returned."""
    held = []
    for one, result in zip(batch, results, strict=True):
        if isinstance(result, LockedItem):
            held.append(one)
        elif not one[1].done():
            one[1].set_result(result)
    return held


def _fail(batch: Sequence[_Waiting[T, R]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
            future.exception()  # seen: a caller that has gone is not an error of ours
