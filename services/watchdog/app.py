"""The composition root of the watchdog."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from services.watchdog.acting import Action, ActionMetrics, Actions
from services.watchdog.api.system import web_application
from services.watchdog.expiring import ExpiringJobs
from services.watchdog.filling import Filling
from services.watchdog.handlers import Watchdog
from services.watchdog.hurrying import Hurrying
from services.watchdog.policy.retention import RULES
from services.watchdog.retaining import REST_OF_RETENTION, Retaining, RetentionMetrics
from services.watchdog.sweeping import SWEEPS, TASKS, WORK
from services.watchdog.withholding import Withholding
from shared.config.parameters import Parameters
from shared.events import TasksWoken
from shared.runtime.service import Context, Service, with_parameters
from shared.snapshot import KnownGrid


def actions_of(
    jobs: ExpiringJobs,
    watchdog: Watchdog,
    withholding: Withholding,
    filling: Filling,
    hurrying: Hurrying,
    retaining: Retaining,
) -> list[Action]:
    """Every action: its name in `watch_runs`, what it does, its period, its work."""
    return [
        Action("jobs", "asks time-out rules about jobs whose deadline has come", lambda every: every.jobs_period_s,
               jobs.watch_jobs),
        Action("overloaded_queues", "sends jobs of queues that have too many elsewhere (fast rebrokerage)",
               lambda every: every.rebrokerage_period_s, jobs.watch_overloaded_queues),
        Action("tasks", "lets waiting tasks go on, or gives them up", lambda every: every.pending_period_s,
               watchdog.watch_tasks),
        Action("attempts", "pauses tasks that fail again and again, and lets them go on",
               lambda every: every.throttle_period_s, watchdog.watch_attempts),
        Action("withheld", "withholds production whose input is beside busy queues alone",
               lambda every: every.withhold_period_s, withholding.watch_busy_sites),
        Action("queue_filler", "sends production to queues that are nearly empty, and lets it go again",
               lambda every: every.filling_period_s, filling.watch_empty_queues),
        Action("nearly_done", "sends analysis that is nearly done to Express Analysis",
               lambda every: every.nearly_done_period_s, hurrying.watch_nearly_done),
        Action("deadlines", "works out when tasks end that are wanted by a time, and hurries those that would be late",
               lambda every: every.deadlines_period_s, hurrying.watch_deadlines),
        Action("sweep", "says again what seems to be lost", lambda every: every.sweep_period_s,
               partitions={TASKS: watchdog.sweep_tasks, WORK: watchdog.sweep_work}, dry_slices=len(SWEEPS)),
        Action("retention", "drops what is older than it may be", lambda every: every.retention_period_s,
               retaining.drop_old, dry_slices=1 + len(RULES), rest=REST_OF_RETENTION),
    ]  # fmt: skip


def _made(parameters: Parameters, grid: KnownGrid, registry: CollectorRegistry) -> tuple[Watchdog, list[Action]]:
    expired = Counter("orrery_watchdog_expired_jobs", "Jobs ended by a timeout", ["rule"], registry=registry)
    swept = Counter("orrery_watchdog_swept", "Rows announced again by the sweep", ["kind"], registry=registry)
    skipped = Counter(
        "orrery_watchdog_skipped_rule_sets", "Times that a VO's rules were unreadable", ["vo"], registry=registry
    )
    watchdog = Watchdog(parameters, grid, swept)
    retaining = Retaining(parameters, RetentionMetrics.of(registry))
    jobs = ExpiringJobs(parameters, grid, expired, skipped)
    withholding, filling = Withholding(parameters, grid), Filling(parameters, grid)
    return watchdog, actions_of(jobs, watchdog, withholding, filling, Hurrying(parameters), retaining)


def build(context: Context) -> Service:
    parameters = Parameters()
    grid = KnownGrid(context.cache)
    watchdog, declared = _made(parameters, grid, context.metrics)
    actions = Actions(declared, parameters, ActionMetrics(context.metrics))

    def once() -> Actions:
        """Actions for one run that is asked for: what they remember and count ends with it."""
        registry = CollectorRegistry()
        return Actions(_made(parameters, grid, registry)[1], parameters, ActionMetrics(registry))

    service = Service(
        name="watchdog",
        work=[(TasksWoken, watchdog.on_tasks_woken)],
        periodic=actions.periodic(),
        web=web_application(context.database, parameters, once),
        drains_dead_queue=True,
    )
    return with_parameters(parameters, context.database, service)
