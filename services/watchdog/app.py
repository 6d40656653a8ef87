"""The composition root of the watchdog."""

from __future__ import annotations

from prometheus_client import Counter

from services.watchdog.api.system import web_application
from services.watchdog.expiring import ExpiringJobs
from services.watchdog.handlers import Watchdog
from services.watchdog.retaining import Retaining, RetentionMetrics
from shared.config.parameters import Parameters
from shared.events import TasksWoken
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.snapshot import KnownGrid

#: how often the turn of each watch is tried; the real periods are runtime parameters (`parameters.py`)
TICK_S = 5.0


def build(context: Context) -> Service:
    expired = Counter("orrery_watchdog_expired_jobs", "Jobs ended by a timeout", ["rule"], registry=context.metrics)
    swept = Counter("orrery_watchdog_swept", "Rows announced again by the sweep", ["kind"], registry=context.metrics)
    skipped = Counter(
        "orrery_watchdog_skipped_rule_sets", "Times that a VO's rules were unreadable", ["vo"], registry=context.metrics
    )
    parameters = Parameters()
    grid = KnownGrid(context.cache)
    jobs, watchdog = ExpiringJobs(parameters, grid, expired, skipped), Watchdog(parameters, grid, swept)
    retaining = Retaining(parameters, RetentionMetrics.of(context.metrics))
    service = Service(
        name="watchdog",
        work=[(TasksWoken, watchdog.on_tasks_woken)],
        periodic=[
            Periodic("jobs", TICK_S, jobs.watch_jobs),
            Periodic("overloaded-queues", TICK_S, jobs.watch_overloaded_queues),
            Periodic("tasks", TICK_S, watchdog.watch_tasks),
            Periodic("attempts", TICK_S, watchdog.watch_attempts),
            Periodic("sweep", TICK_S, watchdog.sweep),
            Periodic("retention", TICK_S, retaining.drop_old),
        ],
        web=web_application(context.database, parameters),
        drains_dead_queue=True,
    )
    return with_parameters(parameters, context.database, service)
