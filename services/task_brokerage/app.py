"""The composition root: the only place where the objects of this service are built."""

from __future__ import annotations

from functools import cache

from services.task_brokerage.handlers import TaskHandlers, correct_remaining_work, on_task_moved
from services.task_brokerage.waking import NucleusWaking
from shared import events
from shared.brokerage.policy import TASK_BROKERAGE, TaskBrokerage
from shared.catalogue import BuiltInCatalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.plugins import find
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.snapshot import Snapshot
from shared.snapshot.snapshot import CHECK_EVERY_S
from shared.waits.store import forget_waits
from shared.waits.waker import FORGET_EVERY_S as FORGET_WAITS_EVERY_S
from shared.waits.waker import LOOK_EVERY_S, WakeMetrics

CORRECT_EVERY_S = 120.0


@cache
def find_policy(vo: str, label: str) -> TaskBrokerage:
    """Find the plugin for tasks of a VO and label."""
    policy: TaskBrokerage = find(TASK_BROKERAGE, vo, label)()
    return policy


def build(context: Context) -> Service:
    """Put the service together."""
    parameters, snapshot = Parameters(), Snapshot(context.database, context.cache)
    wakes = WakeMetrics.of(context.metrics)
    tasks = TaskHandlers(BuiltInCatalogue(), snapshot, parameters, find_policy, context.random, context.metrics, wakes)
    waking = NucleusWaking(snapshot, parameters, wakes)

    async def refresh(work: UnitOfWork) -> None:
        await snapshot.refresh(work.connection)

    async def forget_waits_of_nuclei(work: UnitOfWork) -> None:
        await forget_waits(work.connection, "nucleus")

    service = Service(
        name="task-brokerage",
        work=[
            (events.TaskDefined, tasks.on_task_defined),
            (events.TaskReleased, tasks.on_task_released),
            (events.TaskReady, on_task_moved),
            (events.TaskProgressed, on_task_moved),
            (events.TaskCompleted, on_task_moved),
        ],
        news=[
            (events.GridChanged, snapshot.on_grid_changed),
            (events.StatisticsChanged, snapshot.on_statistics_changed),
        ],
        periodic=[
            Periodic("refresh", CHECK_EVERY_S, refresh, lease=False),
            Periodic("wake", LOOK_EVERY_S, waking.look, lease=False),
            Periodic("forget-waits", FORGET_WAITS_EVERY_S, forget_waits_of_nuclei),
            Periodic("correct-remaining-work", CORRECT_EVERY_S, correct_remaining_work),
        ],
        on_start=[snapshot.check],
    )
    return with_parameters(parameters, context.database, service)
