"""Requests that wait for a job: their order, and their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.job_dispatch.acquire.picks import Granted, Request


class Unavailable(Exception):
    """PostgreSQL did not answer in time, or a pick failed: the caller should try again with the same key."""


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


def answer(request: Request, found: Granted | None) -> None:
    """What the request gets, unless it has been answered."""
    if not request.future.done():
        request.future.set_result(found)


def fail(request: Request, error: Exception) -> None:
    """Why the request gets nothing, unless it has been answered."""
    if not request.future.done():
        request.future.set_exception(error)
        request.future.exception()  # seen: a caller that has gone is not an error of ours
