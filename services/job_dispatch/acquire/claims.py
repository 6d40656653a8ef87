"""Acquires to jobs: what a request needs is read, then it waits for its claim.

Every request has a key, its own (`Idempotency-Key`) or one made here, so that a claim whose outcome is unknown (the
connection broke during the commit) is settled by asking for the same key again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from functools import partial

from services.job_dispatch.acquire.batches import Batches
from services.job_dispatch.acquire.due_calls import DueCalls
from services.job_dispatch.acquire.identity import Identity
from services.job_dispatch.acquire.lane_reader import DatabaseLaneReader
from services.job_dispatch.acquire.picks import Granted, Picks, Request
from services.job_dispatch.acquire.waiting import ClaimLimits, Unavailable, fail, give_up
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.lane import Lane
from services.job_dispatch.policy.share_lanes import PickedJob
from shared.db.database import is_retryable
from shared.db.holders import for_all


class Claims:
    """Claims of one process.

    `identity` makes the keys of requests without one unique among replicas and restarts.
    """

    def __init__(
        self,
        windows: Windows,
        reader: DatabaseLaneReader,
        picks: Picks,
        batches: Batches,
        *,
        identity: Identity,
        clock: Callable[[], float],
        limits: ClaimLimits,
    ) -> None:
        self.windows = windows
        self.limits = limits
        self.batches = batches
        self._reader = reader
        self._picks = picks
        self._identity = identity
        self._clock = clock
        self._numbers = itertools.count(1)
        self._due = DueCalls()
        self._by_key: dict[str, Request] = {}

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
        request.limit = self._due.begin(
            self.limits.give_up_after_s, partial(give_up, request, self.limits.give_up_after_s)
        )
        if key is not None:
            self._by_key[key] = request
            request.future.add_done_callback(lambda _: self._by_key.pop(key, None))
        is_known = offer.is_for_all and self.windows.is_open(offer.queue) and not self.windows.facts.has_unknown
        if is_known or not offer.takes_new:
            self.batches.enter(request)
        else:
            self.batches.keep(for_all(self._prepare(request)))
        return request

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
            self.batches.enter(request)

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

    async def close(self) -> None:
        """Let the claims under way end, then close their connections."""
        await self.batches.close()
