"""Ending asyncio tasks: cancel, and wait until they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_AFTER_S = 5.0


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
