"""Long work between which the event loop runs, and large values taken apart without holding it.

Three things hold a loop beside the work itself: one long call of a library in C, in a thread as well; the end of a
large value, whose members are freed in one go; and the collector of cycles, which looks at every living container.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager
from typing import Any

from shared.model.steps import Steps, T

#: the loop is given back after so long
SLICE_S = 0.002
#: members of lists and objects that are freed in one step
FREED_AT_ONCE = 1000


async def in_slices(steps: Steps[T]) -> T:
    """What a generator returns; the loop runs before, in between where it yields, and after."""
    given_back = float("-inf")
    while True:
        if time.monotonic() - given_back > SLICE_S:
            await asyncio.sleep(0)
            given_back = time.monotonic()
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            break
    await asyncio.sleep(0)
    return result


async def given_back(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; the loop runs in between, also where who takes them never waits."""
    began = float("-inf")
    for one in items:
        if time.monotonic() - began > SLICE_S:
            await asyncio.sleep(0)
            began = time.monotonic()
        yield one


def freed(value: Any) -> Steps[None]:
    """Take lists and objects apart, so many members in a step. Nothing may use the value any more."""
    waiting, n_members = [value] if isinstance(value, (list, dict)) else [], 0
    del value
    while waiting:
        one = waiting.pop()
        while one:
            members = _taken(one)
            n_members += len(members)
            waiting += [member for member in members if isinstance(member, (list, dict)) and member]
            del members
            if n_members >= FREED_AT_ONCE:
                n_members = 0
                yield


def _taken(container: list[Any] | dict[Any, Any]) -> list[Any]:
    """The last members, which the container then lacks."""
    if isinstance(container, dict):
        return [container.popitem()[1] for _ in range(min(FREED_AT_ONCE, len(container)))]
    members = container[-FREED_AT_ONCE:]
    del container[-FREED_AT_ONCE:]
    return members


class _Collector:
    """How many large values live, and whether the collector ran before the first of them."""

    def __init__(self) -> None:
        self._n_values = 0
        self._ran = True

    def __enter__(self) -> None:
        if not self._n_values:
            self._ran = gc.isenabled()
            gc.disable()
        self._n_values += 1

    def __exit__(self, *_: object) -> None:
        self._n_values -= 1
        if not self._n_values and self._ran:
            gc.enable()


_COLLECTOR = _Collector()


def without_collections() -> AbstractContextManager[None]:
    """No collection of cycles meanwhile: it would look at every member of a large value again and again.

    For as long as one request with a large body takes; cycles that end meanwhile are collected after.
    """
    return _COLLECTOR
