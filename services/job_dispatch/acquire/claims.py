"""Acquires to jobs: pick from the windows, claim together, answer when it is committed.

Everything that waits, of any queues, goes into one statement as soon as a claim session is free; there is no timer.
Every request has a key, its own (`Idempotency-Key`) or one made here, so that a claim whose outcome is unknown (the
connection broke during the commit) is settled by asking for the same key again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from services.job_dispatch.acquire.due_calls import DueCalls
from services.job_dispatch.acquire.identity import Identity
from services.job_dispatch.acquire.lane_reader import DatabaseLaneReader
from services.job_dispatch.acquire.picks import AwaitedReads, Granted, Picks, Request
from services.job_dispatch.acquire.sessions import ClaimOutcome, Sessions
from services.job_dispatch.acquire.waiting import (
    ClaimLimits,
    Unavailable,
    WaitingRequests,
    answer,
    answer_all,
    fail,
    line_of,
)
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.lane import Lane
from services.job_dispatch.policy.share_lanes import PickedJob
from shared.db.database import is_retryable
from shared.db.holders import for_all

log = logging.getLogger(__name__)


class Claims:
    """Claims of one process.

    `identity` makes the keys of requests without one unique among replicas and restarts.
    """

    def __init__(
        self,
        windows: Windows,
        reader: DatabaseLaneReader,
        sessions: Sessions,
        picks: Picks,
        metrics: DispatchMetrics,
        *,
        identity: Identity,
        clock: Callable[[], float],
        limits: ClaimLimits,
    ) -> None:
        self.windows = windows
        self.limits = limits
        self._reader = reader
        self._sessions = sessions
        self._picks = picks
        self._metrics = metrics
        self._taken, self._repeated, self._lost = map(metrics.claims.labels, ("taken", "repeated", "lost"))
        self._identity = identity
        self._clock = clock
        self._numbers = itertools.count(1)
        self._queue = WaitingRequests()
        self._due = DueCalls()
        self._free: deque[int] = deque(range(sessions.count))
        self._by_key: dict[str, Request] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def acquire(self, offer: Offer, key: str | None = None, *, asks_vo: bool = False) -> Granted | None:
        """Claim the best job for the offer; None when nothing fits. `asks_vo`: with its VO.

        The same key gets the same job as long as a pilot has it, then another.

        Raises Unavailable when its time is over before a job could be looked for (PostgreSQL is away, or there is too
        much to do), or when the pick failed. Nothing is picked for a request whose time is over or whose callers have
        all gone; a claim that is being made at that moment can no longer be taken back, and answers whoever repeats its
        key.
        """
        request = self._by_key.get(key) if key is not None else None
        if request is None:
            request = self._admit(offer, key)
        request.asks_vo = request.asks_vo or asks_vo
        request.n_callers += 1
        try:
            # others may wait for the same key: then the end of this caller must not end the claim
            return await (request.future if key is None else asyncio.shield(request.future))
        finally:
            request.n_callers -= 1
            if request.n_callers == 0 and not request.in_flight:
                request.future.cancel()  # its pilot no longer waits: nothing is picked for it any more
            if request.future.done():
                self._due.end(request.limit)

    def _admit(self, offer: Offer, key: str | None) -> Request:
        """Put a new request on its way."""
        loop, number = asyncio.get_running_loop(), next(self._numbers)
        request = Request(
            offer=offer,
            number=number,
            key=key or f"{self._identity.name}-{number}",
            must_look_up=key is not None,
            deadline=self._clock() + self.limits.give_up_after_s,
            future=loop.create_future(),
        )
        request.limit = self._due.begin(self.limits.give_up_after_s, partial(self._expire, request))
        if key is not None:
            self._by_key[key] = request
            request.future.add_done_callback(lambda _: self._by_key.pop(key, None))
        is_known = offer.is_for_all and self.windows.is_open(offer.queue) and not self.windows.facts.has_unknown
        if is_known or not offer.takes_new:
            self._enter(request)
        else:
            self._keep(for_all(self._prepare(request)))
        return request

    def _enter(self, request: Request) -> None:
        self._queue.waiting.append(request)
        self._schedule()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _expire(self, request: Request) -> None:
        """End a request whose time is over.

        A claim that is being made is waited for: it may have given the request a job.
        """
        if not request.in_flight:
            fail(request, Unavailable(f"no job could be looked for within {self.limits.give_up_after_s:g} s"))

    async def _prepare(self, request: Request) -> None:
        """Open the queue's windows, or read the candidates that are asked for; then it may be served."""
        offer = request.offer
        try:
            if not offer.is_for_all:
                request.candidates = await self._candidates(offer)
            if self.windows.facts.picks_for(offer) and not self.windows.is_open(offer.queue):
                await self.windows.open(offer.queue)
            if self.windows.facts.has_unknown:
                await self.windows.facts.load_unknown()
        except Exception as error:
            away = Unavailable(f"the jobs of {offer.queue} could not be read: {error}")
            fail(request, away if is_retryable(error) else error)
        else:
            self._enter(request)

    async def _candidates(self, offer: Offer) -> deque[PickedJob]:
        found = await self._reader.candidates(offer, self._picks.candidates_wanted(offer))
        for (_, order_key_id, shape_id), _ in found:
            self.windows.facts.expect(order_key_id, shape_id)
        await self.windows.facts.load_unknown()
        fits = self.windows.facts.fitting(offer)
        return deque(
            PickedJob(Lane(gshare, shape_id, order_key_id=order_key_id), entry)
            for (gshare, order_key_id, shape_id), entry in found
            if fits(order_key_id, shape_id)
        )

    # -- batches

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
            self._keep(for_all(self._run(session, batch)))

    def _is_left_to(self, n_claiming: int) -> bool:
        """Whether what waits is too little for one more session: those that claim now take it when they are done."""
        return n_claiming > 0 and len(self._queue.waiting) < self.limits.worth_another_session

    def _next_batch(self) -> list[Request]:
        """Pick for what waits, up to a full statement; requests that get nothing are answered here."""
        batch: list[Request] = []
        while self._queue.waiting and len(batch) < self.limits.batch:
            request = self._queue.waiting.popleft()
            if request.n_callers == 0:
                request.future.cancel()
            if request.future.done():
                continue
            if self._clock() > request.deadline:
                self._expire(request)
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
                    self.windows.unused(request.offer.queue, pick)
                elif pick is not None:
                    taken.append(outcome.job_id)
                given = Granted(outcome.job_id, outcome.spec, outcome.known, *outcome[3:])
                settled.append((request, given))
            elif pick is None:
                settled.append((request, None))
            else:
                self.windows.lost(pick.job_id)
                self._lost.inc()
                request.in_flight = False
                request.n_lost += 1
                if request.n_lost % self.limits.lost_before_reread == 0 and request.candidates is None:
                    self._after([self.windows.reread(request.offer.queue)], request)
                else:
                    again.append(request)
        self.windows.taken(taken)
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
                self.windows.lost(request.pick.job_id)
                request.pick = None
            request.must_look_up = True
            if not retry:
                fail(request, error)
            elif self._clock() > request.deadline:
                fail(request, Unavailable(f"PostgreSQL is away: {error}"))
            else:
                again.append(request)
        if again:
            await asyncio.sleep(self.limits.retry_after_s)
            self._queue.first(again)

    async def close(self) -> None:
        """Let the claims under way end, then close their connections."""
        if self._running:
            await asyncio.wait(self._running, timeout=5.0)
        await self._sessions.close()
