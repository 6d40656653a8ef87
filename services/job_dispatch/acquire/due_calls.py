"""Calls after a while, nearly all of which are taken back before: one timer for all of them.

A timer per request, set and cancelled, costs as much as reading the request.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

#: the loop's clock is read once per turn: what is due so soon is due
_SLACK_S = 0.001


class DueCalls:
    """Calls in the order in which they were begun; each comes after about the same time."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[float, Callable[[], None]]] = {}
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, delay_s: float, call: Callable[[], None]) -> int:
        """Call after `delay_s`, not before those that were begun before. The number is for `end`."""
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        self._waiting[number] = (loop.time() + delay_s, call)
        if self._timer is None:
            self._timer = loop.call_later(delay_s, self._run)
        return number

    def end(self, number: int) -> None:
        """Take a call back, unless it was made already."""
        self._waiting.pop(number, None)

    def _run(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time() + _SLACK_S
        due = list(itertools.takewhile(lambda one: one[1][0] <= now, self._waiting.items()))
        for number, (_, call) in due:
            if self._waiting.pop(number, None) is not None:
                call()
        if self._waiting and self._timer is None:
            at, _ = next(iter(self._waiting.values()))
            self._timer = loop.call_at(at, self._run)
