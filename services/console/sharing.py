"""Gives open pages of one session that ask the same at once one answer, made once a second.

Not those of others, though they may have the same roles: whose a task is, and what a token is limited to, decides what
is told, and whether a token is still believed is found out by asking with it. Pages of many sessions cost the
services as many reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
#: an answer is given for so long, unless what it is about has changed since
SHARED_S = 1.0
#: more are looked through for those that are too old
MOST_KEPT = 200


@dataclass(frozen=True)
class _Made:
    begun_at: float
    answer: asyncio.Task[Any]


class Sharing:
    """What was made within the last second, by its question; nobody else's question is the same."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._made: dict[Hashable, _Made] = {}

    async def get(self, question: Hashable, changed_at: float, make: Callable[[], Awaitable[T]]) -> T:
        """Give the answer that was begun after the last change and within the last second, or a new one."""
        now = self._monotonic()
        kept = self._made.get(question)
        if kept is None or kept.begun_at < max(changed_at, now - SHARED_S):
            kept = self._made[question] = _Made(now, asyncio.ensure_future(_awaited(make)))
            kept.answer.add_done_callback(_looked_at)
        if len(self._made) > MOST_KEPT:
            self._made = {name: one for name, one in self._made.items() if one.begun_at >= now - SHARED_S}
        answer: T = await asyncio.shield(kept.answer)
        return answer


async def _awaited(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


def _looked_at(task: asyncio.Task[Any]) -> None:
    """An error nobody waits for any more is not logged a second time."""
    if not task.cancelled():
        task.exception()
