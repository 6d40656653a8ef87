"""Hands the deliveries of one subscription to its dispatcher, several at a time where it is busy."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from shared.cancelling import end
from shared.messaging.dispatcher import Dispatcher
from shared.messaging.subscription import Delivery, DeliveryOutcome, Received, WorkSubscription
from shared.pace import Pace

#: in one transaction
MOST_EVENTS, MOST_SUBJECTS = 200, 2000
#: fewer events than this are not waited for
WORTH = 2
#: a transaction holds its rows no longer: after one that took longer the next is smaller
LONGEST_S = 0.5
FEWEST_SUBJECTS = 50
#: events of a transaction that failed are tried at the same time
ALONE_TOGETHER = 4


@dataclass(frozen=True)
class _Waiting:
    received: Received
    future: asyncio.Future[DeliveryOutcome | None]
    since: float


class Collector:
    """One transaction at a time: what arrives meanwhile, and for a bounded time after, is the next.

    Events that share no transaction pass through, and so does what is no event.
    """

    def __init__(self, dispatcher: Dispatcher, subscription: WorkSubscription) -> None:
        self._dispatcher = dispatcher
        self._pace = Pace(subscription.collects_s, worth=WORTH)
        self._waiting: deque[_Waiting] = deque()
        self._most_subjects = MOST_SUBJECTS
        self._enough = asyncio.Event()
        self._alone = asyncio.Semaphore(ALONE_TOGETHER)
        self._is_closed = False
        self._working: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def deliver(self, delivery: Delivery) -> DeliveryOutcome | None:
        """Have the delivery handled; its outcome after the commit, None if it was not begun before the end."""
        if self._is_closed:
            return None
        received = self._dispatcher.received(delivery)
        if received is None:
            return await self._dispatcher.deliver(delivery)
        future: asyncio.Future[DeliveryOutcome | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(received, future, self._pace.arrived()))
        if len(self._waiting) >= MOST_EVENTS:
            self._enough.set()
        if self._working is None or self._working.done():
            self._working = self._begin(self._work())
        return await future

    def close(self) -> None:
        """Begin nothing more; what waits goes back to where it came from."""
        self._is_closed = True
        self._enough.set()
        while self._waiting:
            _settle(self._waiting.popleft(), None)

    async def stop(self) -> None:
        """Cancel what is under way: its transaction is rolled back."""
        self.close()
        await end(self._tasks)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _work(self) -> None:
        while self._waiting:
            await self._collect()
            batch = self._next()
            if batch:
                await self._handle(batch)

    async def _collect(self) -> None:
        """Until there is enough, or the oldest has waited for long enough."""
        self._enough.clear()
        if len(self._waiting) >= MOST_EVENTS or self._is_closed:
            return
        left_s = self._pace.left_s(self._waiting[0].since)
        if left_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._enough.wait()

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        n_subjects = 0
        while self._waiting and len(batch) < MOST_EVENTS:
            n_subjects += self._waiting[0].received.event.n_subjects
            if batch and n_subjects > self._most_subjects:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _handle(self, batch: Sequence[_Waiting]) -> None:
        started = time.monotonic()
        try:
            outcomes = await self._dispatcher.deliver_together([one.received for one in batch])
        except BaseException:
            for one in batch:
                _settle(one, None)
            raise
        took_s = time.monotonic() - started
        self._bound(took_s)
        self._pace.took(took_s)
        for one, outcome in zip(batch, outcomes or (), strict=outcomes is not None):
            _settle(one, outcome)
        if outcomes is None:
            for one in batch:
                self._begin(self._handle_alone(one))

    async def _handle_alone(self, one: _Waiting) -> None:
        outcome = None
        try:
            async with self._alone:
                if not self._is_closed:
                    outcome = await self._dispatcher.deliver(one.received.delivery)
        finally:
            _settle(one, outcome)

    def _bound(self, took_s: float) -> None:
        """Keep transactions short: others wait for the rows that they hold."""
        factor = 0.5 if took_s > LONGEST_S else 2.0 if took_s < LONGEST_S / 4 else 1.0
        self._most_subjects = round(min(MOST_SUBJECTS, max(FEWEST_SUBJECTS, self._most_subjects * factor)))


def _settle(one: _Waiting, outcome: DeliveryOutcome | None) -> None:
    if not one.future.done():
        one.future.set_result(outcome)
