"""Requests that wait for a job: their order, and their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.job_dispatch.acquire.picks import Granted, Request
from services.job_dispatch.acquire.sessions import ClaimLine


class Unavailable(Exception):
    """PostgreSQL did not answer in time, or a pick failed: the caller should try again with the same key."""


@dataclass
class ClaimLimits:
    """Limits of a claim: lines of one statement (`batch`), time of a request, waits between tries.

    `give_up_after_s`: how long a request may wait. `worth_another_session`: while one session claims, so many must wait
    before another one does, for claims of a few jobs cost half as much again for each.

    A request that lost so many picks in a row looks at a window that is out of date (a large task was killed or
    paused): its queue is read again.
    """

    batch: int = 128
    worth_another_session: int = 16
    give_up_after_s: float = 20.0
    retry_after_s: float = 0.25
    lost_before_reread: int = 10


@dataclass
class WaitingRequests:
    """Requests that wait, in arrival order.

    A request whose pick was lost goes to the front, as do those that waited for a read (`returned`, in arrival order
    again). `scheduled`: batches will be made of it in this turn of the loop.
    """

    waiting: deque[Request] = field(default_factory=deque)
    returned: list[Request] = field(default_factory=list)
    scheduled: bool = False

    def first(self, requests: Sequence[Request]) -> None:
        """Put them before all others, in their order."""
        self.waiting.extendleft(reversed(requests))

    def take_back(self) -> None:
        """Put those that waited for a read to the front."""
        self.first(sorted(self.returned, key=lambda request: request.number))
        self.returned.clear()


def line_of(request: Request) -> ClaimLine:
    """The request as a line of the claim; without a pick only its key is looked up."""
    offer, pick = request.offer, request.pick
    if pick is None:
        return ClaimLine(request.key, 0, offer.queue, "", 0, 0, offer.worker, offer.subject, request.asks_vo)
    lane, (negated_priority, job_id) = pick.lane, pick.entry
    return ClaimLine(
        request.key, job_id, offer.queue, lane.gshare, lane.shape_id, -negated_priority, offer.worker, offer.subject,
        request.asks_vo,
    )  # fmt: skip


def answer_all(settled: Sequence[tuple[Request, Granted | None]]) -> None:
    """Give each request what its claim brought."""
    for request, found in settled:
        request.in_flight = False
        answer(request, found)


def answer(request: Request, found: Granted | None) -> None:
    """Give the request its answer, unless it has one."""
    if not request.future.done():
        request.future.set_result(found)


def give_up(request: Request, after_s: float) -> None:
    """End a request whose time is over.

    A claim that is being made is waited for: it may have given the request a job.
    """
    if not request.in_flight:
        fail(request, Unavailable(f"no job could be looked for within {after_s:g} s"))


def fail(request: Request, error: Exception) -> None:
    """Tell the request why it gets nothing, unless it has been answered."""
    if not request.future.done():
        request.future.set_exception(error)
        request.future.exception()  # seen: a caller that has gone is not an error of ours
