"""Requests that may be served: picked for, claimed together, answered when it is committed.

Everything that waits, of any queues, goes into one statement as soon as a claim session is free; there is no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from services.job_dispatch.acquire.picks import AwaitedReads, Granted, Picks, Request
from services.job_dispatch.acquire.sessions import ClaimOutcome, Sessions
from services.job_dispatch.acquire.waiting import (
    ClaimLimits,
    Unavailable,
    WaitingRequests,
    answer,
    answer_all,
    fail,
    give_up,
    line_of,
)
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.metrics import DispatchMetrics
from shared.db.database import is_retryable
from shared.db.holders import for_all

log = logging.getLogger(__name__)


class Batches:
    """The claims of one process, one at a time in each session."""

    def __init__(
        self,
        windows: Windows,
        sessions: Sessions,
        picks: Picks,
        metrics: DispatchMetrics,
        *,
        clock: Callable[[], float],
        limits: ClaimLimits,
    ) -> None:
        self._windows = windows
        self._sessions = sessions
        self._picks = picks
        self._metrics = metrics
        self._taken, self._repeated, self._lost = map(metrics.claims.labels, ("taken", "repeated", "lost"))
        self._clock = clock
        self._limits = limits
        self._queue = WaitingRequests()
        self._free: deque[int] = deque(range(sessions.count))
        self._running: set[asyncio.Task[None]] = set()

    def enter(self, request: Request) -> None:
        """Let a request wait for its claim, behind those that came before."""
        self._queue.waiting.append(request)
        self._schedule()

    def keep(self, task: asyncio.Task[None]) -> None:
        """Hold a task until it ends, so that `close` waits for it."""
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _schedule(self) -> None:
        """Make batches once what runs now has run: what arrives in one turn of the loop is claimed together."""
        if not self._queue.scheduled:
            self._queue.scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._queue.scheduled = False
        self._queue.take_back()
        while self._free and self._queue.waiting:
            if self._is_left_to(self._sessions.count - len(self._free)):
                return
            batch = self._next_batch()
            if not batch:
                return
            session = self._free.popleft()
            self.keep(for_all(self._run(session, batch)))

    def _is_left_to(self, n_claiming: int) -> bool:
        """Whether what waits is too little for one more session: those that claim now take it when they are done."""
        return n_claiming > 0 and len(self._queue.waiting) < self._limits.worth_another_session

    def _next_batch(self) -> list[Request]:
        """Pick for what waits, up to a full statement; requests that get nothing are answered here."""
        batch: list[Request] = []
        while self._queue.waiting and len(batch) < self._limits.batch:
            request = self._queue.waiting.popleft()
            if request.n_callers == 0:
                request.future.cancel()
            if request.future.done():
                continue
            if self._clock() > request.deadline:
                give_up(request, self._limits.give_up_after_s)
                continue
            try:
                found = self._picks.next(request)
            except Exception as error:  # a fault of one pick: the others are served
                log.exception("a pick at queue %s failed", request.offer.queue)
                fail(request, Unavailable(f"a job could not be picked at {request.offer.queue}: {error!r}"))
                continue
            if isinstance(found, AwaitedReads):
                self._after(found.reads, request)
            elif found is not None or request.must_look_up:
                request.pick, request.in_flight = found, True
                batch.append(request)
            else:
                answer(request, None)
        return batch

    def _after(self, reads: Sequence[asyncio.Task[None]], request: Request) -> None:
        """Put a request back to the front when all these reads have ended well."""
        waiting = len(reads)

        def read_ended(task: asyncio.Task[None]) -> None:
            nonlocal waiting
            waiting -= 1
            error = None if task.cancelled() else task.exception()
            if error is not None:
                fail(request, Unavailable(f"the jobs of {request.offer.queue} could not be read: {error}"))
            elif waiting == 0:
                self._queue.returned.append(request)
                self._schedule()

        for read in reads:
            read.add_done_callback(read_ended)

    async def _run(self, session: int, batch: list[Request]) -> None:
        """Claim a batch, then what waits by then, until nothing does.

        The next claim is on its way before the answers to this one are given: PostgreSQL works meanwhile.
        """
        try:
            while batch:
                batch = await self._claim(session, batch)
        finally:
            self._free.append(session)
            self._schedule()

    async def _claim(self, session: int, batch: list[Request]) -> list[Request]:
        """Claim a batch; what to claim next."""
        batch.sort(key=Request.picked_id)
        try:
            outcomes = await self._sessions.claim(session, [line_of(request) for request in batch])
        except Exception as error:
            await self._failed(batch, error)
            return []
        self._metrics.claim_batch.observe(len(batch))
        asyncio.get_running_loop().call_soon(answer_all, self._settle(batch, outcomes))  # the next claim is sent before
        self._queue.take_back()
        others = self._sessions.count - len(self._free) - 1
        return [] if self._is_left_to(others) else self._next_batch()

    def _settle(
        self, batch: Sequence[Request], outcomes: Sequence[ClaimOutcome]
    ) -> Sequence[tuple[Request, Granted | None]]:
        """Note what became of each claim; the answers.

        Requests that have none pick again, before everybody who came later.
        """
        settled: list[tuple[Request, Granted | None]] = []
        again: list[Request] = []
        taken: list[int] = []
        for request, outcome in zip(batch, outcomes, strict=True):
            pick, request.pick = request.pick, None
            if outcome.job_id is not None:
                if outcome.known and pick is not None:
                    self._windows.unused(request.offer.queue, pick)
                elif pick is not None:
                    taken.append(outcome.job_id)
                given = Granted(outcome.job_id, outcome.spec, outcome.known, *outcome[3:])
                settled.append((request, given))
            elif pick is None:
                settled.append((request, None))
            else:
                self._windows.lost(pick.job_id)
                self._lost.inc()
                request.in_flight = False
                request.n_lost += 1
                if request.n_lost % self._limits.lost_before_reread == 0 and request.candidates is None:
                    self._after([self._windows.reread(request.offer.queue)], request)
                else:
                    again.append(request)
        self._windows.taken(taken)
        self._taken.inc(len(taken))
        self._repeated.inc(sum(outcome.known for outcome in outcomes))
        self._queue.first(again)
        return settled

    async def _failed(self, batch: Sequence[Request], error: Exception) -> None:
        """Ask again under the same keys: the statement failed, or it is unknown whether it was committed."""
        retry = is_retryable(error)
        if not retry:
            log.error("a claim failed: %s: %s", type(error).__name__, error)
        again = []
        for request in batch:
            request.in_flight = False
            if request.pick is not None:
                self._windows.lost(request.pick.job_id)
                request.pick = None
            request.must_look_up = True
            if not retry:
                fail(request, error)
            elif self._clock() > request.deadline:
                fail(request, Unavailable(f"PostgreSQL is away: {error}"))
            else:
                again.append(request)
        if again:
            await asyncio.sleep(self._limits.retry_after_s)
            self._queue.first(again)

    async def close(self) -> None:
        """Let the claims under way end, then close their connections."""
        if self._running:
            await asyncio.wait(self._running, timeout=5.0)
        await self._sessions.close()
