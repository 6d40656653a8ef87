"""The composition root of the console."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import httpx
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from services.console.api import (
    bulk,
    commands,
    home,
    jobs,
    live,
    parameters,
    queues,
    shares,
    sites,
    suggestions,
    system,
    task,
    task_queues,
    tasks,
    what_if,
)
from services.console.api.session import SessionRoutes
from services.console.api.visits import SEARCH_HINT, Console
from services.console.asking import open_client
from services.console.ending import Ended
from services.console.environment import ConsoleSettings, client_of, keyring_of
from services.console.hinting import Hints, news_of
from services.console.identifying import Issuer
from services.console.policy.sessions import HOME, ROOT
from services.console.renewing import Renewals, Renewing
from services.console.sealing import Seals
from services.console.showing.pages import problem_page
from services.console.showing.rendering import HEADERS, Renderer
from services.console.signing import Signing
from shared.cache import NullCache, RedisCache
from shared.config.settings import load_settings
from shared.runtime.service import Context, Service

SUBJECTS = (
    home,
    bulk,
    tasks,
    task,
    commands,
    jobs,
    queues,
    shares,
    task_queues,
    sites,
    suggestions,
    system,
    parameters,
    live,
    what_if,
)
SMALLEST_PACKED_BYTES = 500


def build(context: Context) -> Service:
    """The console among other services of one process."""
    settings = context.settings
    return service_of(settings if isinstance(settings, ConsoleSettings) else load_settings(ConsoleSettings))


def service_of(
    settings: ConsoleSettings, http: httpx.AsyncClient | None = None, clock: Callable[[], float] = time.time
) -> Service:
    """The console, which needs neither database nor bus; without the bus there are no hints.

    `http`: what calls the API, instead of its own client.
    """
    client = http or open_client()
    cache = RedisCache(settings.redis_url, prefix=settings.cache_prefix) if settings.redis_url else NullCache()
    seals, known_as = Seals(keyring_of(settings)), client_of(settings)
    issuer = Issuer(known_as, seals, clock) if known_as else None
    signing = Signing(
        seals,
        Ended(cache, clock),
        session_s=3600.0 * settings.console_session_h,
        public_url=settings.console_public_url,
        clock=clock,
    )
    hints = Hints(clock)
    renewing = Renewing(signing, issuer, Renewals(cache, seals, clock), clock) if issuer else None
    console = Console(client, Renderer(), signing, settings.api_url, clock, hints, renewing)

    async def keep_client() -> None:
        """Keep the connections until the process stops."""
        try:
            await asyncio.Event().wait()
        finally:
            await client.aclose()
            await cache.close()

    return Service(
        name="console",
        news=news_of(hints),
        web=web_application(console, issuer),
        background=[keep_client],
        on_news_interrupted=[hints.interrupted],
        on_stop=[hints.close],
    )


def web_application(console: Console, issuer: Issuer | None) -> FastAPI:
    """Everything under /console/, and the two addresses that lead there."""
    web = FastAPI(title="Orrery console", docs_url=None, redoc_url=None, openapi_url=None)
    web.add_middleware(GZipMiddleware, minimum_size=SMALLEST_PACKED_BYTES)
    web.router.routes.extend(
        [
            Route("/", _to_home, methods=["GET"]),
            Route(ROOT, _to_home, methods=["GET"]),
            *SessionRoutes(console, issuer).routes(),
            *(route for subject in SUBJECTS for route in subject.routes(console)),
            *_rest(console),
        ]
    )
    return web


async def _to_home(request: Request) -> Response:
    return RedirectResponse(HOME, 307, HEADERS)


def _rest(console: Console) -> list[Route]:
    async def file(request: Request) -> Response:
        """Give a file that pages load."""
        found = console.renderer.file(request.path_params["name"], request.path_params["digest"])
        return found if found is not None else await nothing(request)

    async def nothing(request: Request) -> Response:
        """Say that there is no page at this address."""
        what = f"{request.url.path} is no page of the console"
        page = problem_page("There is no such page", what, status=404, hint=SEARCH_HINT)
        return console.shown(request, page, await console.signing.session_of(request))

    return [
        Route(f"{HOME}static/{{digest}}/{{name}}", file, methods=["GET"]),
        Route(f"{HOME}{{rest:path}}", nothing, methods=["GET", "POST"]),
    ]
