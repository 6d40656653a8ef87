"""The composition root of job_dispatch: the only place where its objects are built."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, FastAPI

from services.job_dispatch.acquire.activity import PilotActivity
from services.job_dispatch.acquire.batches import Batches
from services.job_dispatch.acquire.claims import Claims
from services.job_dispatch.acquire.identity import Identity
from services.job_dispatch.acquire.job_secrets import JobSecrets
from services.job_dispatch.acquire.lane_facts import LaneFacts
from services.job_dispatch.acquire.lane_reader import DatabaseLaneReader
from services.job_dispatch.acquire.no_match import NoMatch
from services.job_dispatch.acquire.ordered_texts import OrderedTexts
from services.job_dispatch.acquire.picks import Picks
from services.job_dispatch.acquire.sessions import OwnSessions, ReadSessions, Sessions, SharedSession
from services.job_dispatch.acquire.shapes import KnownShapes
from services.job_dispatch.acquire.site_limits import SiteLimits
from services.job_dispatch.acquire.site_permits import PermittedSessions, SitePermits
from services.job_dispatch.acquire.site_requirements import SiteRequirements
from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.acquire.upkeep import Upkeep, UpkeepNews
from services.job_dispatch.acquire.waiting import ClaimLimits
from services.job_dispatch.acquire.windows import Windows
from services.job_dispatch.api.acquiring import Acquiring
from services.job_dispatch.api.advert import advert_routes
from services.job_dispatch.api.body import BODY_SIZES, IDS
from services.job_dispatch.api.body_sizes import BodySizes
from services.job_dispatch.api.call_limits import PilotLimits
from services.job_dispatch.api.debugging import debug_routes
from services.job_dispatch.api.event_ranges import range_methods, range_routes
from services.job_dispatch.api.factory import factory_routes
from services.job_dispatch.api.failures import COUNT_REFUSAL
from services.job_dispatch.api.job import job_routes
from services.job_dispatch.api.job_of_client import client_job_routes
from services.job_dispatch.api.legacy import LegacyApi
from services.job_dispatch.api.legacy_credentials import credential_methods, renewal_routes
from services.job_dispatch.api.legacy_methods import LegacyMethod
from services.job_dispatch.api.pilot import PilotApi
from services.job_dispatch.api.priorities import priority_routes
from services.job_dispatch.api.relays import relays
from services.job_dispatch.api.secrets import secret_routes
from services.job_dispatch.api.sources import SignedSources
from services.job_dispatch.api.task_queues import task_queue_routes
from services.job_dispatch.api.web import make_web
from services.job_dispatch.api.worker_nodes import worker_node_routes
from services.job_dispatch.coalescing import CoalescerLimits
from services.job_dispatch.environment import DispatchSettings, keyring_of
from services.job_dispatch.handlers import Handlers, NewsHandlers
from services.job_dispatch.lifecycle.balancing import Balancing
from services.job_dispatch.lifecycle.cap_room import CapRoom
from services.job_dispatch.lifecycle.command_slices import SLICE, CommandSlices
from services.job_dispatch.lifecycle.event_ranges import EventRanges
from services.job_dispatch.lifecycle.inputs import Inputs
from services.job_dispatch.lifecycle.outputs import Outputs
from services.job_dispatch.lifecycle.reordering import SLICE as REORDER_SLICE
from services.job_dispatch.lifecycle.reordering import Reordering
from services.job_dispatch.lifecycle.reports import Reporting
from services.job_dispatch.lifecycle.user_caps import UserCaps
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.policy.reading import WindowLimits
from shared.auth.keyring import Keyring
from shared.config.parameters import Parameters
from shared.config.settings import load_settings
from shared.db.database import Database
from shared.events import (
    Event,
    GridChanged,
    JobsActivated,
    JobsDispatched,
    JobsGenerated,
    JobsReordered,
    JobsThrottled,
    OutputsRegistered,
    SharesCorrected,
    TaskCommanded,
    TransfersCompleted,
)
from shared.runtime.service import Context, Handler, NewsHandler, Periodic, Service, with_parameters
from shared.snapshot import KnownGrid

#: paths whose bodies are lists of jobs
TAKES_IDS = ("kill", "get_description", "get_description_incl_archive")
RECHECK_EVERY_S, SWEEP_EVERY_S, RANKS_EVERY_S, QUEUES_EVERY_S = 1.0, 5.0, 10.0, 10.0
MEAN_MEMORY_EVERY_S, ACTIVITY_EVERY_S, REPLICAS_EVERY_S, ADVERTS_EVERY_S = 60.0, 5.0, 10.0, 2.0
FORGET_EVERY_S, FORGET_SAID_EVERY_S = 60.0, 3600.0
CAPS_EVERY_S, BALANCE_EVERY_S = 60.0, 360.0
#: small, so that simulations see commands that are not done yet
SIMULATED_SLICE = 7


@dataclass(frozen=True)
class Parts:
    """What tests and benchmarks reach into; the service is made of the same objects."""

    claims: Claims
    windows: Windows
    sites: SiteRequirements
    reporting: Reporting
    handlers: Handlers
    commands: CommandSlices
    news: NewsHandlers
    activity: PilotActivity
    upkeep: Upkeep
    service: Service
    close: Callable[[], Awaitable[None]]


def build(context: Context) -> Service:
    """The service."""
    return build_parts(context, clock=context.database.monotonic).service


def _handlers(room: CapRoom, grid: KnownGrid, *, simulated: bool) -> tuple[CommandSlices, Reordering, Handlers]:
    """What answers events, with the work that it does in slices; these are small where it is simulated."""
    commands = CommandSlices(room, size=SIMULATED_SLICE if simulated else SLICE)
    reordering = Reordering(size=SIMULATED_SLICE if simulated else REORDER_SLICE)
    inputs, outputs = Inputs(grid, room), Outputs(grid)
    return commands, reordering, Handlers(inputs, outputs, commands, reordering)


def _beside_jobs(
    context: Context, parameters: Parameters, keyring: Keyring, metrics: DispatchMetrics
) -> tuple[JobSecrets, SignedSources]:
    """What a job gets when it is handed out: secrets and logins, and the permission to fetch its sources."""
    secrets = JobSecrets(context.database, parameters, keyring, metrics.unreadable_secrets.inc)
    return secrets, SignedSources(context.source_keys, parameters)


def build_parts(context: Context, *, clock: Callable[[], float] = time.monotonic) -> Parts:
    """Everything, for those who need more than the service.

    On a simulated database there is no reading ahead and only one session, so that every read and write happens within
    the request that needs it.
    """
    database, settings = context.database, _settings(context)
    simulated = database.is_simulated
    identity, parameters, metrics = Identity(), Parameters(), DispatchMetrics(context.metrics)
    grid = KnownGrid(context.cache)
    reads = ReadSessions(settings.database_url, database, settings.read_sessions)
    reader = DatabaseLaneReader(database.read if simulated else reads.read)
    limits = WindowLimits(refill_below=0) if simulated else WindowLimits()
    queues = TaskQueues(database.read, parameters, grid, SiteLimits(parameters, clock), random=context.random)
    facts = LaneFacts(KnownShapes(reader), queues)
    windows = Windows(reader, facts, clock=clock, random=context.random, limits=limits)
    sessions, permits = _sessions(context, settings), SitePermits(database, queues)
    texts = OrderedTexts(PermittedSessions(sessions, permits), reader)
    sites = SiteRequirements(reader, windows, metrics, grid, clock=clock)
    picks, most = Picks(windows, sites), ClaimLimits(settings.claim_batch_limit)
    batches = Batches(windows, texts, picks, metrics, clock=clock, limits=most)
    claims = Claims(windows, reader, picks, batches, identity=identity, clock=clock, limits=most)
    activity = PilotActivity(database, parameters, grid, clock)
    report_limits = _report_limits(settings, simulated=simulated)
    reporting = Reporting(database, metrics, parameters, limits=report_limits, heard=activity.heard)
    commands, reordering, handlers = _handlers(CapRoom(parameters), grid, simulated=simulated)
    upkeep = Upkeep(windows, activity, parameters, metrics, grid, queues, identity=identity, clock=clock)
    no_match = NoMatch(windows, sites, activity, parameters, metrics, clock)
    keyring, call_limits = keyring_of(settings), PilotLimits(parameters, metrics, clock)
    beside = _beside_jobs(context, parameters, keyring, metrics)
    acquiring = Acquiring(claims, activity, no_match, *beside, metrics, call_limits)

    async def close() -> None:
        for one in (reporting, activity, claims, reads):
            await one.close()

    credentials = credential_methods(database, grid, parameters, settings.credentials_directory, keyring)
    routers = [
        renewal_routes(parameters),
        advert_routes(database, sites, parameters, grid),
        priority_routes(database, reordering),
        task_queue_routes(database, queues.orders.copy),
        secret_routes(database, keyring),
    ]
    web = _web(database, parameters, acquiring, reporting, activity, call_limits, credentials, routers)
    caps, balancing = UserCaps(parameters), Balancing(reordering)
    news, upkeep_news = NewsHandlers(windows, upkeep), UpkeepNews(database, upkeep, activity)
    service = Service(
        name="job-dispatch",
        work=_work(handlers),
        news=_news(news, upkeep_news),
        periodic=[*_periodic(upkeep, sites, caps, balancing), *_simulated(database, commands, reordering)],
        web=web,
        body_limits=dict.fromkeys((f"/api/v1/job/{one}" for one in TAKES_IDS), IDS),
        background=_background(database, commands, reordering, close),
        on_start=[lambda: _start(database, identity, activity, upkeep, sites), lambda: _connect(sessions, reads)],
        on_news_interrupted=[windows.forget_all],
    )
    service = with_parameters(parameters, database, service)
    return Parts(claims, windows, sites, reporting, handlers, commands, news, activity, upkeep, service, close)


def _report_limits(settings: DispatchSettings, *, simulated: bool) -> CoalescerLimits:
    """In a simulation nobody waits: time stands still while a request is answered."""
    if simulated:
        return CoalescerLimits(settings.report_batch_limit, concurrency=1)
    collect_s = settings.report_collect_s
    return CoalescerLimits(settings.report_batch_limit, settings.report_sessions, collect_s=collect_s)


def _web(
    database: Database,
    parameters: Parameters,
    acquiring: Acquiring,
    reporting: Reporting,
    activity: PilotActivity,
    limits: PilotLimits,
    credentials: Sequence[LegacyMethod],
    routers: Sequence[APIRouter],
) -> FastAPI:
    """Both interfaces of pilots, and what people ask and order."""
    pilots = PilotApi(acquiring, reporting, activity, database, limits)
    legacy = LegacyApi(acquiring, reporting, activity, database, limits)
    ranges = EventRanges(database, parameters)
    routes = [*pilots.routes(), *worker_node_routes(database)]
    methods = [*legacy.methods(), *credentials, *range_methods(ranges), *relays()]
    for_people = [
        job_routes(database),
        range_routes(ranges),
        client_job_routes(database),
        factory_routes(activity),
        debug_routes(database),
        *routers,
    ]
    web = make_web(routes, methods, pilots.direct(), for_people)
    setattr(web.state, BODY_SIZES, BodySizes(parameters).of)
    setattr(web.state, COUNT_REFUSAL, lambda code: reporting.metrics.bad_calls.labels(code).inc())
    return web


def _work(handlers: Handlers) -> list[tuple[type[Event], Handler]]:
    return [
        (JobsGenerated, handlers.on_jobs_generated),
        (TransfersCompleted, handlers.on_transfers_completed),
        (OutputsRegistered, handlers.on_outputs_registered),
        (TaskCommanded, handlers.on_task_commanded),
    ]


def _news(windows: NewsHandlers, upkeep: UpkeepNews) -> list[tuple[type[Event], NewsHandler]]:
    return [
        (JobsActivated, windows.on_jobs_activated),
        (JobsDispatched, windows.on_jobs_dispatched),
        (JobsThrottled, windows.on_jobs_throttled),
        (JobsReordered, windows.on_jobs_reordered),
        (SharesCorrected, upkeep.on_shares_corrected),
        (GridChanged, upkeep.on_grid_changed),
    ]


def _periodic(upkeep: Upkeep, sites: SiteRequirements, caps: UserCaps, balancing: Balancing) -> list[Periodic]:
    """What each replica keeps in memory is its own affair, without a lease."""
    return [
        Periodic("recheck-lost", RECHECK_EVERY_S, upkeep.recheck, lease=False),
        Periodic("sweep-windows", SWEEP_EVERY_S, upkeep.sweep, lease=False),
        Periodic("ranks", RANKS_EVERY_S, upkeep.rank, lease=False),
        Periodic("queues", QUEUES_EVERY_S, upkeep.read_queues, lease=False),
        Periodic("mean-memory", MEAN_MEMORY_EVERY_S, upkeep.read_mean_memory, lease=False),
        Periodic("queue-activity", ACTIVITY_EVERY_S, upkeep.activity.flush, lease=False),
        Periodic("replicas", REPLICAS_EVERY_S, upkeep.count_replicas, lease=False),
        Periodic("forget-claims", FORGET_EVERY_S, upkeep.forget),
        Periodic("forget-progress", FORGET_SAID_EVERY_S, upkeep.forget_said),
        Periodic("site-advertisements", ADVERTS_EVERY_S, sites.look, lease=False),
        Periodic("user-caps", CAPS_EVERY_S, caps.look),
        Periodic("priority-balance", BALANCE_EVERY_S, balancing.look),
    ]


def _simulated(database: Database, commands: CommandSlices, reordering: Reordering) -> list[Periodic]:
    """What runs beside everything else, where nothing runs by itself."""
    slices = {"commands": commands.run_slice, "order-changes": reordering.run_slice} if database.is_simulated else {}
    return [Periodic(name, 1.0, run, lease=False) for name, run in slices.items()]


def _background(
    database: Database, commands: CommandSlices, reordering: Reordering, close: Callable[[], Awaitable[None]]
) -> list[Callable[[], Awaitable[None]]]:
    if database.is_simulated:
        return []
    return [
        lambda: _at_stop(close),
        lambda: commands.work_off(database),
        lambda: reordering.work_off(database),
    ]


async def _start(
    database: Database, identity: Identity, activity: PilotActivity, upkeep: Upkeep, sites: SiteRequirements
) -> None:
    """Read what the first request needs: who this process is, queues, order of shares, advertisements."""
    await activity.load_queues()
    async with database.begin(reason="start") as work:
        await identity.take_number(work)
        await upkeep.rank(work)
        await upkeep.count_replicas(work)
        await upkeep.read_queues(work)
        await upkeep.recheck(work)
        await sites.refresh(work.connection)


async def _connect(sessions: Sessions, reads: ReadSessions) -> None:
    """Connections for the first requests. Among thousands of new pilots one that is made then is not made in time."""
    if isinstance(sessions, OwnSessions):
        await sessions.open()
        await reads.open()


async def _at_stop(close: Callable[[], Awaitable[None]]) -> None:
    """Runs as long as the service does, and closes what is its own at the end."""
    try:
        await asyncio.Event().wait()
    finally:
        await close()


def _sessions(context: Context, settings: DispatchSettings) -> Sessions:
    """What claims go through."""
    if context.database.is_simulated:
        return SharedSession(context.database)
    return OwnSessions(settings.database_url, context.database, settings.claim_sessions)


def _settings(context: Context) -> DispatchSettings:
    """This service's own settings, also where several services share a process and its settings."""
    if isinstance(context.settings, DispatchSettings):
        return context.settings
    return load_settings(DispatchSettings, database_url=context.settings.database_url)
