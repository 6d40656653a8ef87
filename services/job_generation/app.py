"""The composition root: the only place where the objects of this service are built."""

from __future__ import annotations

from functools import cache

from services.job_generation.api.retry_rules import web_application
from services.job_generation.api.used_up_files import used_up_file_routes
from services.job_generation.auditing import AUDIT_EVERY_S, CounterAudit
from services.job_generation.generating.plugin import JobGeneration
from services.job_generation.handlers import Handlers
from services.job_generation.kinds.registered import register
from services.job_generation.kinds.room import Steps
from services.job_generation.ordering import Rekeying
from services.job_generation.requesting import Requesting
from services.job_generation.retry.retrying import Retrying, forget_retry_decisions
from services.job_generation.steps.counting import Counting
from services.job_generation.steps.doors import Kinds
from services.job_generation.steps.making import Making
from services.job_generation.steps.offering import Offering
from services.job_generation.steps.settling import Settling
from services.job_generation.store.jobs import ShapeIds
from services.job_generation.throttle.gating import Gating
from services.job_generation.throttle.waking import ShareWaking
from shared import events
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.plugins import find
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.snapshot import KnownGrid
from shared.waits.store import forget_waits
from shared.waits.waker import FORGET_EVERY_S as FORGET_WAITS_EVERY_S
from shared.waits.waker import LOOK_EVERY_S as WAKE_EVERY_S
from shared.waits.waker import WakeMetrics
from shared.web.json_route import add_routes
from shared.web.json_text import BodyLimits

GROUP = "orrery.job_generation"
LOOK_EVERY_S = 5.0
ARCHIVE_EVERY_S = 3.0  # with ARCHIVE_BATCH more than ends in that time, so that finished jobs do not pile up
FORGET_EVERY_S = 600.0
ORDER_KEYS_EVERY_S = 2.0


@cache
def find_plugin(vo: str, label: str) -> JobGeneration:
    """The plugin for tasks of a VO and label."""
    plugin: JobGeneration = find(GROUP, vo, label)()
    return plugin


def build(context: Context) -> Service:
    """Put the service together."""
    parameters, kinds, grid = Parameters(), Kinds(), KnownGrid(context.cache)
    wakes, gating = WakeMetrics.of(context.metrics), Gating(parameters)
    rekeying, waking = Rekeying(parameters, kinds.job), ShareWaking(gating.judge_share, gating.order, wakes)
    requesting = Requesting(parameters, ShapeIds(), find_plugin)
    making = Making(parameters, grid, context.random, requesting, kinds)
    counting = Counting(parameters, Retrying(grid, kinds.job), kinds)
    settling = Settling(Offering(parameters, gating, wakes, kinds), kinds)
    register(kinds, Steps(kinds, parameters, grid, requesting, making, counting, settling))
    handlers = Handlers(parameters, making, counting, settling, rekeying, kinds)

    audits = CounterAudit(context.metrics)

    async def forget_waits_of_shares(work: UnitOfWork) -> None:
        await forget_waits(work.connection, "share")

    web = web_application(context.database)
    add_routes(web, used_up_file_routes(context.database))
    service = Service(
        name="job-generation",
        work=[
            (events.TaskReady, handlers.on_task_ready),
            (events.TaskReleased, handlers.on_task_released),
            (events.TaskCommanded, handlers.on_task_commanded),
            (events.ChunkBrokered, handlers.on_chunk_brokered),
            (events.ChunkUnplaceable, handlers.on_chunk_unplaceable),
            (events.JobsFinished, handlers.on_jobs_ended),
            (events.JobsFailed, handlers.on_jobs_ended),
            (events.JobsExpired, handlers.on_jobs_ended),
            (events.JobsMerging, handlers.on_jobs_ended),
            (events.TasksCounted, handlers.on_tasks_counted),
            *(heard for kind in kinds for heard in kind.hears()),
        ],
        periodic=[
            Periodic("look-at-idle-tasks", LOOK_EVERY_S, handlers.look_at_idle_tasks),
            Periodic("settle-left", LOOK_EVERY_S, handlers.settle_left),
            Periodic("wake", WAKE_EVERY_S, waking.look, lease=False),
            Periodic("forget-waits", FORGET_WAITS_EVERY_S, forget_waits_of_shares),
            Periodic("archive-jobs", ARCHIVE_EVERY_S, handlers.archive),
            Periodic("order-keys", ORDER_KEYS_EVERY_S, rekeying.look),
            Periodic("forget-retry-decisions", FORGET_EVERY_S, forget_retry_decisions),
            Periodic("audit-datasets", AUDIT_EVERY_S, audits.audit_datasets),
            Periodic("audit-ended-datasets", AUDIT_EVERY_S, audits.audit_ended_datasets),
            Periodic("audit-large-datasets", AUDIT_EVERY_S, audits.audit_large_datasets),
            Periodic("audit-job-sets", AUDIT_EVERY_S, audits.audit_job_sets),
            *(work for kind in kinds for work in kind.periodic()),
        ],
        web=web,
        body_limits={"/api/v1/retry_rule/load": BodyLimits(2**20, n_values=20_000)},
    )
    return with_parameters(parameters, context.database, service)
