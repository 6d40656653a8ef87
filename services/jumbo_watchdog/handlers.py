"""The periodic work: load, decide, commit."""

from __future__ import annotations

import logging

from services.jumbo_watchdog import store
from services.jumbo_watchdog.policy.switch import JumboLimits, decide
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork
from shared.events import ConfigChanged, TaskJumboSwitched

log = logging.getLogger(__name__)

COMPONENT = "jumbo_dog"


class JumboWatchdog:
    def __init__(self, database: Database, parameters: Parameters) -> None:
        self._database = database
        self._parameters = parameters

    async def on_config_changed(self, event: ConfigChanged) -> None:
        async with self._database.read() as connection:
            await self._parameters.refresh(connection)

    async def switch(self, work: UnitOfWork) -> None:
        """Every 10 min: jumbo jobs off where few events remain, on where most do."""
        await self._parameters.refresh(work.connection)
        period_s = self._parameters.get(COMPONENT, "PERIOD_S", default=600.0)
        if await take_turn(work.connection, "jumbo", period_s) is None:
            return
        tasks = {task.task_id: task for task in await store.event_service_tasks(work.connection)}
        software = await store.software_at_jumbo_queues(work.connection)
        for decision in decide(list(tasks.values()), software, self.limits()):
            await work.because(decision.reason)
            if await store.switch(work.connection, tasks[decision.task_id], decision):
                work.emit(TaskJumboSwitched(task_id=decision.task_id, enabled=decision.enable))
                log.info("task %s: jumbo jobs %s: %s", decision.task_id, "on" if decision.enable else "off",
                         decision.reason)  # fmt: skip

    def limits(self) -> JumboLimits:
        """The parameters JUMBO_*; what is not set, or is negative, follows from the others."""
        get, usual = self._parameters.get, JumboLimits()
        enable = get(COMPONENT, "JUMBO_MIN_EVENTS_ENABLE", default=-1)
        events = get(COMPONENT, "JUMBO_MAX_EVENTS", default=-1)
        return JumboLimits(
            max_tasks=get(COMPONENT, "JUMBO_MAX_TASKS", default=usual.max_tasks),
            min_events_disable=get(COMPONENT, "JUMBO_MIN_EVENTS_DISABLE", default=usual.min_events_disable),
            min_events_enable=enable if enable >= 0 else None,
            max_events=events if events >= 0 else None,
            max_current_priority=get(COMPONENT, "JUMBO_MAX_CURR_PRIO", default=usual.max_current_priority),
        )
