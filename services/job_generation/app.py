"""The composition root: the only place where the objects of this service are built."""

from __future__ import annotations

from functools import cache

from services.job_generation.api.retry_rules import web_application
from services.job_generation.applying import Applying
from services.job_generation.compiling import Compiling
from services.job_generation.event_serving.jumbo import MakingJumboJobs
from services.job_generation.event_serving.making import MakingJobSets
from services.job_generation.event_serving.serving import ServingJobSets
from services.job_generation.event_serving.waiting import WaitingJobSets
from services.job_generation.generating import Generating
from services.job_generation.handlers import Handlers
from services.job_generation.merging import Merging
from services.job_generation.offering import Offering
from services.job_generation.ordering import Rekeying
from services.job_generation.policy.plugin import JobGeneration
from services.job_generation.preprocessing import Preprocessing
from services.job_generation.retry.retrying import Retrying, forget_retry_decisions
from services.job_generation.scouts.scouting import Scouting
from services.job_generation.settling import Settling
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
from shared.web.json_text import BodyLimits

GROUP = "orrery.job_generation"
LOOK_EVERY_S = 5.0
ARCHIVE_EVERY_S = 3.0  # with ARCHIVE_BATCH more than ends in that time, so that finished jobs do not pile up
FORGET_EVERY_S = 600.0
ORDER_KEYS_EVERY_S = 2.0
FINISH_CO_JUMBO_EVERY_S = 3600.0


@cache
def find_plugin(vo: str, label: str) -> JobGeneration:
    """The plugin for tasks of a VO and label."""
    plugin: JobGeneration = find(GROUP, vo, label)()
    return plugin


def build_handlers(context: Context, parameters: Parameters, offering: Offering, rekeying: Rekeying) -> Handlers:
    """The handlers with everything they need."""
    grid = KnownGrid(context.cache)
    generating = Generating(parameters, grid, ShapeIds(), context.random, find_plugin)
    job_sets = MakingJobSets(parameters, generating)
    merges, compiling = Merging(parameters, generating), Compiling(parameters, generating, job_sets)
    preprocessing = Preprocessing(parameters, generating)
    applying = Applying(parameters, merges, Retrying(grid), compiling, preprocessing)
    waiting = WaitingJobSets(parameters, generating, job_sets, applying)
    jumbo_jobs = MakingJumboJobs(parameters, generating)
    serving = ServingJobSets(generating, job_sets, applying)
    settling = Settling(Scouting(parameters, grid), offering, merges, serving, jumbo_jobs, waiting, preprocessing)
    return Handlers(parameters, compiling, merges, preprocessing, applying, settling, rekeying, waiting)


def build(context: Context) -> Service:
    """Put the service together."""
    parameters = Parameters()
    wakes = WakeMetrics.of(context.metrics)
    gating = Gating(parameters)
    offering = Offering(parameters, gating, wakes)
    rekeying, waking = Rekeying(parameters), ShareWaking(gating.judge_share, gating.order, wakes)
    handlers = build_handlers(context, parameters, offering, rekeying)

    async def forget_waits_of_shares(work: UnitOfWork) -> None:
        await forget_waits(work.connection, "share")

    service = Service(
        name="job-generation",
        work=[
            (events.TaskReady, handlers.on_task_ready),
            (events.TaskReleased, handlers.releasing.on_task_released),
            (events.TaskCommanded, handlers.on_task_commanded),
            (events.TaskJumboSwitched, handlers.on_task_jumbo_switched),
            (events.TaskPointsOpened, handlers.on_task_points_opened),
            (events.ChunkBrokered, handlers.on_chunk_brokered),
            (events.ChunkUnplaceable, handlers.on_chunk_unplaceable),
            (events.JobsStarted, handlers.copies.on_jobs_started),
            (events.JobsTransferring, handlers.copies.on_jobs_transferring),
            (events.JobsFinished, handlers.on_jobs_ended),
            (events.JobsFailed, handlers.on_jobs_ended),
            (events.JobsExpired, handlers.on_jobs_ended),
            (events.JobsMerging, handlers.on_jobs_ended),
        ],
        periodic=[
            Periodic("look-at-idle-tasks", LOOK_EVERY_S, handlers.releasing.look_at_idle_tasks),
            Periodic("look-at-merges", LOOK_EVERY_S, handlers.releasing.look_at_merges),
            Periodic("wake", WAKE_EVERY_S, waking.look, lease=False),
            Periodic("forget-waits", FORGET_WAITS_EVERY_S, forget_waits_of_shares),
            Periodic("archive-jobs", ARCHIVE_EVERY_S, handlers.archive),
            Periodic("order-keys", ORDER_KEYS_EVERY_S, rekeying.look),
            Periodic("finish-co-jumbo-jobs", FINISH_CO_JUMBO_EVERY_S, handlers.finish_co_jumbo_jobs),
            Periodic("forget-specs", FORGET_EVERY_S, handlers.forget_specs),
            Periodic("forget-retry-decisions", FORGET_EVERY_S, forget_retry_decisions),
        ],
        web=web_application(context.database),
        body_limits={"/api/v1/retry_rule/load": BodyLimits(2**20, n_values=20_000)},
    )
    return with_parameters(parameters, context.database, service)
