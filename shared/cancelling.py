"""Ending asyncio tasks: cancel, and wait until they have ended; and what only looks like an end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

AGAIN_AFTER_S = 5.0


@contextmanager
def cancellations_of_others_are_errors() -> Iterator[None]:
    """A cancellation that nobody asked the current task for becomes a ConnectionError.

    A library that loses its connection cancels futures of its own; who awaits one gets CancelledError. It would end a
    loop that goes on after every error, without a line in the log. The task's own cancellation passes.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ConnectionError("a lost connection cancelled what waited for it") from error


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these asyncio tasks and wait until each has ended; what they raise is theirs.

    A loop that goes on after every error survives a cancellation when a library raises something else in its place
    while it cleans up. It is told again until it listens: a process that was asked to stop must stop.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        ended, running = await asyncio.wait(running, timeout=AGAIN_AFTER_S)
        for task in ended:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log an exception that was never retrieved
