"""Picks the job that a request tries next: from the windows, or of the one task it asks for.

Requirements must hold.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from services.job_dispatch.acquire.site_requirements import Answer, SiteRequirements
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.policy.fitting import Offer
from services.job_dispatch.policy.lane import Entry
from services.job_dispatch.policy.share_lanes import NeedsRefill, NeedsShares, PickedJob

ASKED_TOGETHER = 256
TASK_CANDIDATES = 16


@dataclass(frozen=True)
class Granted:
    """A job; `spec` is JSON text, None when it was archived at this moment.

    The rest as in `ClaimOutcome`.
    """

    job_id: int
    spec: str | None
    repeated: bool
    task_id: int | None = None
    source_spots: Sequence[int] | None = None
    vo: str | None = None
    secrets: str | None = None


@dataclass(eq=False, slots=True)
class Request:
    """One acquire on its way. `number` counts arrivals.

    `must_look_up`: its key may be known, so it asks PostgreSQL even without a pick. `n_callers`: who waits for it now;
    without a key it is one. `in_flight`: its claim is being made, and its outcome is unknown.
    `limit`: the number of the call that ends it. `asks_vo`: the VO of the job is to be told.
    """

    offer: Offer
    number: int
    key: str
    must_look_up: bool
    deadline: float
    future: asyncio.Future[Granted | None]
    candidates: deque[PickedJob] | None = None
    pick: PickedJob | None = None
    n_lost: int = 0
    n_callers: int = 0
    in_flight: bool = False
    limit: int = -1
    asks_vo: bool = False

    def picked_id(self) -> int:
        """The job that is claimed for it; 0 where only its key is looked up."""
        return self.pick.entry[1] if self.pick is not None else 0


@dataclass(frozen=True)
class AwaitedReads:
    """What comes first is not known yet: pick again when all these reads have ended."""

    reads: Sequence[asyncio.Task[None]]


class Picks:
    """What is picked is in flight, so that no other request of this process tries it."""

    def __init__(self, windows: Windows, sites: SiteRequirements) -> None:
        self._windows = windows
        self._sites = sites

    def candidates_wanted(self, offer: Offer) -> int:
        """How many jobs to read for a pilot that asks for those of a task, a user or a group.

        More where some of them may not match the site, and where they are of several tasks.
        """
        is_alike = offer.task_id is not None and not self._sites.asks(offer.queue)
        return TASK_CANDIDATES if is_alike else ASKED_TOGETHER

    def next(self, request: Request) -> PickedJob | AwaitedReads | None:
        """Pick the best job for the request that its site takes; None when nothing that is known fits."""
        if not request.offer.takes_new:
            return None
        queue = request.offer.queue
        while True:
            found = self._best(request)
            if isinstance(found, NeedsShares):
                return AwaitedReads([self._windows.read_more_shares(queue)])
            if isinstance(found, NeedsRefill):
                return AwaitedReads([self._windows.refill(queue, lane) for lane in found.lanes])
            if found is None:
                return None
            try:
                taken = self._taken_by_site(request, found)
            except Exception:
                self._windows.lost(found.job_id)
                raise
            if taken is not None:
                return taken

    def _taken_by_site(self, request: Request, found: PickedJob) -> PickedJob | AwaitedReads | None:
        """Keep the pick if its site takes the job; None when it does not."""
        queue = request.offer.queue
        answer = self._sites.answer(queue, found.entry) if self._sites.asks(queue) else Answer.HOLDS
        if answer is Answer.HOLDS:
            return found
        if answer is Answer.UNKNOWN:
            return AwaitedReads([self._sites.ask(queue, self._put_back(request, found))])
        self._windows.set_aside(found.job_id)
        return None

    def _best(self, request: Request) -> PickedJob | NeedsRefill | NeedsShares | None:
        if request.candidates is None:
            return self._windows.pick(request.offer)
        if request.offer.task_id is None:
            found = self._windows.pick(request.offer)  # of task queues
            if found is not None:
                return found
        while request.candidates:
            candidate = request.candidates.popleft()
            if self._windows.take(request.offer.queue, candidate):
                return candidate
        return None

    def _put_back(self, request: Request, found: PickedJob) -> list[Entry]:
        """Undo a pick; it and those that come next, to be asked about together."""
        if request.candidates is None:
            self._windows.unused(request.offer.queue, found)
            ahead = found.lane.some(ASKED_TOGETHER)
        else:
            self._windows.set_aside(found.job_id)
            ahead = [one.entry for one in request.candidates]
            request.candidates.appendleft(found)
        return list(dict.fromkeys([found.entry, *ahead]))
