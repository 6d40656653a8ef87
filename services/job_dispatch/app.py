"""The composition root of job_dispatch: the only place where its objects are built."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import FastAPI

from services.job_dispatch.activity import Activity
from services.job_dispatch.advert_api import AdvertApi
from services.job_dispatch.body import IDS
from services.job_dispatch.claims import ClaimLimits, Claims
from services.job_dispatch.coalescer import CoalescerLimits
from services.job_dispatch.command_slices import SLICE, CommandSlices
from services.job_dispatch.handlers import Handlers, NewsHandlers
from services.job_dispatch.identity import Identity
from services.job_dispatch.inputs import Inputs
from services.job_dispatch.job_api import JobApi
from services.job_dispatch.lane_reader import DatabaseLaneReader
from services.job_dispatch.lifecycle import Lifecycle
from services.job_dispatch.metrics import DispatchMetrics
from services.job_dispatch.no_match import NoMatch
from services.job_dispatch.outputs import Outputs
from services.job_dispatch.picks import Picks
from services.job_dispatch.pilot_api import PilotApi
from services.job_dispatch.queries_of_jobs import JobQueries
from services.job_dispatch.reporting import Reporting
from services.job_dispatch.sessions import OwnSessions, ReadSessions, Sessions, SharedSession
from services.job_dispatch.settings import DispatchSettings
from services.job_dispatch.shapes import Shapes
from services.job_dispatch.site_requirements import SiteRequirements
from services.job_dispatch.store import Store
from services.job_dispatch.upkeep import Upkeep, UpkeepNews
from services.job_dispatch.web import make_web
from services.job_dispatch.windows import WindowLimits, Windows
from shared.config.parameters import Parameters
from shared.config.settings import load_settings
from shared.db.database import Database
from shared.events import (
    ConfigChanged,
    Event,
    GridChanged,
    JobsActivated,
    JobsDispatched,
    JobsGenerated,
    JobsThrottled,
    OutputsRegistered,
    SharesCorrected,
    TaskCommanded,
    TransfersCompleted,
)
from shared.runtime.service import Context, Handler, NewsHandler, Periodic, Service

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
    activity: Activity
    upkeep: Upkeep
    service: Service
    close: Callable[[], Awaitable[None]]


def build(context: Context) -> Service:
    """The service."""
    return build_parts(context, clock=context.database.monotonic).service


def build_parts(context: Context, *, clock: Callable[[], float] = time.monotonic) -> Parts:
    """Everything, for those who need more than the service. On a simulated database there is no reading ahead and only
    one session, so that every read and write happens within the request that needs it."""
    database, settings = context.database, _settings(context)
    simulated = database.is_simulated
    identity, parameters, metrics = Identity(), Parameters(), DispatchMetrics(context.metrics)
    store, reads = Store(), ReadSessions(settings.database_url, database, settings.read_sessions)
    reader = DatabaseLaneReader(database.read if simulated else reads.read)
    limits = WindowLimits(refill_below=0) if simulated else WindowLimits()
    windows = Windows(reader, Shapes(reader), clock=clock, random=context.random, limits=limits)
    sessions: Sessions = (
        SharedSession(database) if simulated else OwnSessions(settings.database_url, database, settings.claim_sessions)
    )
    claim_limits = ClaimLimits(settings.claim_batch_limit)
    sites = SiteRequirements(reader, windows, metrics, clock=clock)
    picks = Picks(windows, sites)
    claims = Claims(windows, reader, sessions, picks, metrics, identity=identity, clock=clock, limits=claim_limits)
    report_limits = CoalescerLimits(settings.report_batch_limit, 1 if simulated else settings.report_sessions)
    reporting = Reporting(database, store, metrics, parameters, limits=report_limits)
    activity = Activity(database, clock)
    lifecycle = Lifecycle(store)
    commands = CommandSlices(store, lifecycle, size=SIMULATED_SLICE if simulated else SLICE)
    handlers = Handlers(store, lifecycle, Inputs(store, lifecycle), Outputs(store, lifecycle), commands)
    upkeep = Upkeep(windows, activity, parameters, metrics, identity=identity)
    jobs = JobQueries(database)
    pilots = PilotApi(claims, reporting, activity, NoMatch(windows, sites, parameters), jobs, metrics)

    async def close() -> None:
        for one in (reporting, activity, claims, reads):
            await one.close()

    simulated_work = [Periodic("commands", 1.0, commands.run_slice, lease=False)] if simulated else []
    news = NewsHandlers(windows)
    upkeep_news = UpkeepNews(database, upkeep, activity)
    service = Service(
        name="job-dispatch",
        work=_work(handlers),
        news=_news(news, upkeep_news),
        periodic=[*upkeep.periodic(), sites.periodic(), *simulated_work],
        web=_web(make_web(pilots, JobApi(database, store, handlers, jobs)), AdvertApi(database, sites, parameters)),
        body_limits={"/api/v1/job/kill": IDS},
        background=[] if simulated else [lambda: _at_stop(close), lambda: commands.work_off(database)],
        on_start=[lambda: _start(database, identity, activity, upkeep, sites)],
        on_news_interrupted=[windows.forget_all],
    )
    return Parts(claims, windows, sites, reporting, handlers, commands, news, activity, upkeep, service, close)


def _web(web: FastAPI, adverts: AdvertApi) -> FastAPI:
    web.include_router(adverts.router())
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
        (SharesCorrected, upkeep.on_shares_corrected),
        (ConfigChanged, upkeep.on_config_changed),
        (GridChanged, upkeep.on_grid_changed),
    ]


async def _start(
    database: Database, identity: Identity, activity: Activity, upkeep: Upkeep, sites: SiteRequirements
) -> None:
    """Before the first request: who this process is, which queues there are, in which order shares are served, what
    sites advertise."""
    await activity.load_queues()
    async with database.begin(reason="start") as work:
        await identity.take_number(work)
        await upkeep.rank(work)
        await upkeep.count_replicas(work)
        await sites.refresh(work.connection)


async def _at_stop(close: Callable[[], Awaitable[None]]) -> None:
    """Runs as long as the service does, and closes what is its own at the end."""
    try:
        await asyncio.Event().wait()
    finally:
        await close()


def _settings(context: Context) -> DispatchSettings:
    """This service's own settings, also where several services share a process and its settings."""
    if isinstance(context.settings, DispatchSettings):
        return context.settings
    return load_settings(DispatchSettings, database_url=context.settings.database_url)
