"""Every service in one process: for a machine without RabbitMQ, and for a quick look at the whole.

Without `ORRERY_RABBITMQ_URL` events go over the in-process transport. One port (`ORRERY_HTTP_PORT`) answers for all
services: a request goes to the service that has a route for it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence

import uvloop
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from services.cli.addresses import SERVICES
from shared.config.settings import ListeningSettings, Settings, SettingsError, load_settings
from shared.messaging.transport import BusUnavailable
from shared.runtime import logs
from shared.runtime.process import StartError, open_process
from shared.runtime.serve import EXIT_SETTINGS, EXIT_STOPPED, EXIT_UNAVAILABLE
from shared.runtime.service import Build, Context, Service
from shared.runtime.web import HttpServer, add_health
from shared.web.answers import answer_errors
from shared.web.document import list_of_documents
from shared.web.envelope import Envelope

log = logging.getLogger(__name__)

#: connections for nine services together, unless ORRERY_DATABASE_POOL_SIZE says otherwise
POOL_SIZE = 24
#: pages that show the document of one service
OF_EACH = ("/docs", "/docs/oauth2-redirect", "/redoc")


class OneFront:
    """One application in front of many: the first that has a route for a path answers.

    `/openapi.json` names the documents of all; what else each has under the same name is that of none.
    """

    def __init__(self, webs: Sequence[Starlette], documents: Sequence[str] = ()) -> None:
        self._webs = tuple(webs)
        self._documents = JSONResponse(list_of_documents(documents))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            partly = None
            if scope["path"] == "/openapi.json":
                await self._documents(scope, receive, send)
                return
            for web in () if scope["path"] in OF_EACH else self._webs:
                matches = {route.matches(scope)[0] for route in web.router.routes}
                if Match.FULL in matches:
                    await web(scope, receive, send)
                    return
                if Match.PARTIAL in matches:  # the path is known, the method is not: that service says so
                    partly = partly or web
            if partly is not None:
                await partly(scope, receive, send)
                return
            response = Envelope(None, f"no service has {scope['path']}", success=False, status_code=404)
            await response(scope, receive, send)


def serve_all() -> int:
    """Run until SIGTERM or SIGINT; the exit code, as of a single service."""
    try:
        settings = settings_of_all()
        logs.configure("orrery", form=settings.log_format, level=settings.log_level)
        uvloop.run(_run(settings))
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_SETTINGS
    except (StartError, BusUnavailable) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNAVAILABLE
    return EXIT_STOPPED


def settings_of_all() -> Settings:
    """One object with the settings of every service. Raises SettingsError."""
    classes: list[type[ListeningSettings]] = []
    for service in SERVICES:
        try:
            module = importlib.import_module(f"services.{service}.environment")
        except ModuleNotFoundError:
            continue
        classes += [
            found
            for found in vars(module).values()
            if isinstance(found, type) and issubclass(found, ListeningSettings) and found.__module__ == module.__name__
        ]
    combined = type("SettingsOfAll", tuple(classes), {}) if classes else Settings
    overrides = {} if os.environ.get("ORRERY_DATABASE_POOL_SIZE") else {"database_pool_size": POOL_SIZE}
    return load_settings(combined, **overrides)


def composition_roots() -> dict[str, Build]:
    """The `build` of every service by name."""
    roots: dict[str, Build] = {}
    for service in SERVICES:
        roots[service.replace("_", "-")] = importlib.import_module(f"services.{service}.app").build
    return roots


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    registries: list[CollectorRegistry] = []
    builds = {name: _noting(build, registries) for name, build in composition_roots().items()}
    process = await open_process(builds, settings, ports=dict.fromkeys(builds, 0))
    webs = {one.service.name: one.service.web for one in process.running if one.service.web is not None}
    health = FastAPI(title="Orrery", docs_url=None, redoc_url=None, openapi_url=None)
    answer_errors(health)
    add_health(health, ready=process.problems, registries=(*registries, process.registry))
    front = HttpServer(
        OneFront([health, *webs.values()], [name for name, web in webs.items() if web.openapi_url]),  # type: ignore[arg-type]
        host=settings.http_host,
        port=settings.http_port,
        graceful_stop_s=settings.graceful_stop_s,
        connections=process.connections,
    )
    try:
        await process.start()
        await _listen(front, settings)
        log.info("all services listen together on http://%s:%d", settings.http_host, front.port)
        await stop.wait()
    finally:
        process.end_answers()
        await front.stop()
        await process.stop()


async def _listen(front: HttpServer, settings: Settings) -> None:
    try:
        await front.start()
    except OSError as error:
        where = f"{settings.http_host}:{settings.http_port}"
        raise StartError(f"ORRERY_HTTP_PORT: cannot listen on {where}: {error.strerror or error}") from error


def _noting(build: Build, registries: list[CollectorRegistry]) -> Build:
    """The same composition root; the metrics registry it was given is remembered."""

    def noted(context: Context) -> Service:
        registries.append(context.metrics)
        return build(context)

    return noted
