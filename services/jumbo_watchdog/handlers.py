"""The periodic work: load, decide, commit."""

from __future__ import annotations

import logging

from services.jumbo_watchdog.parameters import PERIOD_S
from services.jumbo_watchdog.policy.switch import JumboLimits, decide
from services.jumbo_watchdog.store import tasks as store
from shared.config.parameters import Parameters
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskJumboSwitched
from shared.snapshot import KnownGrid

log = logging.getLogger(__name__)


class JumboWatchdog:
    def __init__(self, parameters: Parameters, grid: KnownGrid) -> None:
        self._parameters = parameters
        self._grid = grid

    async def switch(self, work: UnitOfWork) -> None:
        """Every 10 min: jumbo jobs off where few events remain, on where most do."""
        period_s = self._parameters.read(PERIOD_S)
        if await take_turn(work.connection, "jumbo", period_s) is None:
            return
        tasks = {task.task_id: task for task in await store.event_service_tasks(work.connection)}
        software = store.software_at_jumbo_queues(await self._grid.grid(work.connection))
        for decision in decide(list(tasks.values()), software, self._parameters.filled(JumboLimits)):
            await work.because(decision.reason)
            if await store.switch(work.connection, tasks[decision.task_id], decision):
                work.emit(TaskJumboSwitched(task_id=decision.task_id, enabled=decision.enable))
                log.info(
                    "task %s: jumbo jobs %s: %s", decision.task_id, "on" if decision.enable else "off", decision.reason
                )
