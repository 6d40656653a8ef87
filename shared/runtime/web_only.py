"""Runs a service that only answers HTTP and hears news: it goes on while database and bus are away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from shared.auth import Authority
from shared.auth.configuration import IdentityFile
from shared.cancelling import end
from shared.config.settings import HearingSettings
from shared.messaging.listening import Listening
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.topology import Topology
from shared.runtime.believed import identity_of
from shared.runtime.collector import tune_collector
from shared.runtime.limits import authentication_with, connections_of
from shared.runtime.metrics import RuntimeMetrics
from shared.runtime.process import StartError
from shared.runtime.serve import serve_with, stop_on_signals
from shared.runtime.service import Service
from shared.runtime.web import HttpServer, add_health
from shared.web.document import add_document
from shared.web.service import install

log = logging.getLogger(__name__)

S = TypeVar("S", bound=HearingSettings)


async def _no_problems() -> Sequence[str]:
    return ()


def main_web_only(name: str, settings_class: type[S], build: Callable[[S], Service]) -> None:
    """Run it until it is told to stop, with the exit codes of every service."""
    serve_with(name, settings_class, lambda settings: _run(settings, build(settings)))


async def _run(settings: HearingSettings, service: Service) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    registry = CollectorRegistry()
    http = _server(settings, service, registry)
    loops = [asyncio.ensure_future(one()) for one in (*service.background, *_listening(settings, service, registry))]
    try:
        await http.start()
    except OSError as error:
        await end(loops)
        where = f"{settings.http_host}:{settings.http_port}"
        raise StartError(f"ORRERY_HTTP_PORT: cannot listen on {where}: {error.strerror or error}") from error
    tune_collector()
    log.info("%s listens on http://%s:%d", service.name, settings.http_host, http.port)
    try:
        await stop.wait()
    finally:
        for action in service.on_stop:
            action()
        await http.stop()
        await end(loops)
        log.info("stopped")


def _listening(
    settings: HearingSettings, service: Service, registry: CollectorRegistry
) -> list[Callable[[], Awaitable[None]]]:
    """What hears its news, where it has some and knows the bus."""
    if settings.rabbitmq_url is None or not service.news:
        return []
    topology, metrics = Topology(settings.bus_namespace), MessagingMetrics(registry)
    interrupted = service.on_news_interrupted
    return [Listening(settings.rabbitmq_url, topology, metrics, service.name, service.news, interrupted).run]


def _server(settings: HearingSettings, service: Service, registry: CollectorRegistry) -> HttpServer:
    """Its application as the runtime serves every other: limits, health, metrics. It believes no token itself."""
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    metrics = RuntimeMetrics(registry)
    proxies = IdentityFile(proxies=identity_of(settings).proxies, shares_names=True)
    authentication = authentication_with(settings, Authority.generate(), proxies, metrics)
    web = service.web or FastAPI()
    install(web, authentication, service.body_limits, count_refusal=metrics.request_refused)
    add_document(web, service.name)
    add_health(web, ready=_no_problems, registries=(registry,))
    return HttpServer(
        web,
        host=settings.http_host,
        port=settings.http_port,
        graceful_stop_s=settings.graceful_stop_s,
        connections=connections_of(settings, authentication.proxies, metrics),
    )
