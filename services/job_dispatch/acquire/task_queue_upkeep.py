"""When priorities of task queues are calculated and limits of sites are read."""

from __future__ import annotations

from collections.abc import Callable

import asyncpg

from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.store.task_queues import forget_empty
from shared.config.parameters import Parameters
from shared.order.parameters import EMPTY_QUEUE_KEPT_S, RECALCULATE_S

LIMITS_EVERY_S, LIMITS_AFTER_NEWS_S = 10.0, 1.0


class TaskQueueUpkeep:
    """Looks every second whether anything is due; `clock` is the monotonic clock of the process."""

    def __init__(self, task_queues: TaskQueues, parameters: Parameters, clock: Callable[[], float]) -> None:
        self._task_queues = task_queues
        self._parameters = parameters
        self._clock = clock
        self._calculated_at = self._read_at = float("-inf")
        self._heard_of_jobs = False

    def heard_of_corrections(self) -> None:
        """Calculate priorities at the next look: factors of groups or users have changed."""
        self._calculated_at = float("-inf")

    def heard_of_jobs(self) -> None:
        """Read what runs at sites soon: some dispatcher handed out jobs."""
        self._heard_of_jobs = True

    async def look(self, connection: asyncpg.Connection) -> None:
        """Calculate and read what is due."""
        now = self._clock()
        if now - self._calculated_at >= self._parameters.read(RECALCULATE_S):
            self._calculated_at = now
            await self._task_queues.recalculate(connection)
        after_s = LIMITS_AFTER_NEWS_S if self._heard_of_jobs else LIMITS_EVERY_S
        if now - self._read_at >= after_s:
            self._read_at, self._heard_of_jobs = now, False
            await self._task_queues.read_limits(connection, self._clock)

    async def read_grid(self, connection: asyncpg.Connection) -> None:
        """Read the sites of queues."""
        await self._task_queues.read_grid(connection)

    async def forget(self, connection: asyncpg.Connection) -> None:
        """Delete task queues that have been empty for long."""
        await forget_empty(connection, float(self._parameters.read(EMPTY_QUEUE_KEPT_S)))
