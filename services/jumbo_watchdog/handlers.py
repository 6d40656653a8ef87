"""The periodic work: load, decide, commit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from services.jumbo_watchdog.parameters import PERIOD_S
from services.jumbo_watchdog.policy.switch import (
    DISABLED,
    WAITING,
    JumboLimits,
    JumboTask,
    asks_again,
    boosts,
    decide,
    kicks,
)
from services.jumbo_watchdog.store import tasks as store
from shared.config.parameters import Parameters
from shared.db.turns import take_turn
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskJumboSwitched, TaskOrderRequested
from shared.snapshot import KnownGrid

log = logging.getLogger(__name__)
#: what asks for priorities
NAME = "jumbo-watchdog"
#: why jumbo jobs are made anew
NONE_LEFT = "looked at again: no jumbo job is left, and events are"


class JumboWatchdog:
    def __init__(self, parameters: Parameters, grid: KnownGrid) -> None:
        self._parameters = parameters
        self._grid = grid

    async def switch(self, work: UnitOfWork) -> None:
        """Every 10 min: jumbo jobs off where few events remain, on where most do; why is kept with each task."""
        period_s = self._parameters.read(PERIOD_S)
        if await take_turn(work.connection, "jumbo", period_s) is None:
            return
        grid, limits = await self._grid.grid(work.connection), self._parameters.filled(JumboLimits)
        tasks = {task.task_id: task for task in await store.event_service_tasks(work.connection, grid)}
        decided = decide(list(tasks.values()), limits)
        reasons, switched = dict(decided.reasons), dict[int, str]()
        for one in decided.switches:
            await work.because(one.reason)
            told = reasons[one.task_id]
            if await store.switch(work.connection, tasks[one.task_id], one):
                flag = WAITING if one.enable else DISABLED
                tasks[one.task_id] = replace(tasks[one.task_id], use_jumbo=flag)
                switched[one.task_id] = told
                work.emit(TaskJumboSwitched(task_id=one.task_id, enabled=one.enable))
                log.info("task %s: jumbo jobs %s", one.task_id, told)
            else:
                reasons[one.task_id] = "are looked at again: the task changed, or is worked on, while that was decided"
        kicked = await self._kick(work, kicks(tasks.values()))
        again = self._ask_again(work, tasks)
        await store.note_reasons(work.connection, reasons, again | switched | dict.fromkeys(kicked, NONE_LEFT))
        for boost in boosts(tasks.values(), limits):
            work.emit(
                TaskOrderRequested(
                    task_id=boost.task_id, priority=boost.priority, reason=boost.reason, requested_by=NAME
                )
            )

    def _ask_again(self, work: UnitOfWork, tasks: Mapping[int, JumboTask]) -> dict[int, str]:
        """Have queues for co-jumbo jobs asked for at once; for which tasks, and why."""
        asking = asks_again(tasks.values())
        for task_id, reason in asking.items():
            work.emit(TaskJumboSwitched(task_id=task_id, enabled=tasks[task_id].enabled, asks_again=True))
            log.info("task %s: jumbo jobs %s", task_id, reason)
        return asking

    async def _kick(self, work: UnitOfWork, task_ids: Sequence[int]) -> list[int]:
        """Have jumbo jobs made for tasks that lost theirs; which they were."""
        await work.because(NONE_LEFT)
        kicked = await store.kick(work.connection, task_ids)
        for task_id in kicked:
            work.emit(TaskJumboSwitched(task_id=task_id, enabled=True))
            log.info("task %s: jumbo jobs %s", task_id, NONE_LEFT)
        return kicked
