"""The services' endless loops, as tasks that end with their service."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence


class Background:
    def __init__(self) -> None:
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    def start(self, name: str, loops: Sequence[Callable[[], Awaitable[None]]]) -> None:
        async def run(loop: Callable[[], Awaitable[None]]) -> None:
            await loop()

        self._tasks[name] = [asyncio.create_task(run(loop)) for loop in loops]

    async def stop(self, name: str) -> None:
        tasks = self._tasks.pop(name, [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def failures(self) -> list[BaseException]:
        """What ended a loop that should not have ended."""
        return [
            error
            for tasks in self._tasks.values()
            for task in tasks
            if task.done() and not task.cancelled() and (error := task.exception()) is not None
        ]
