"""One process with one or more services: connections, consumers, periodic work, HTTP, orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from shared.cache import Cache, NullCache, RedisCache
from shared.cancelling import end
from shared.config.settings import Settings, SettingsError
from shared.db import migrate
from shared.db.database import Database, is_retryable
from shared.db.partitions import make_next_partition
from shared.db.unit_of_work import UnitOfWork
from shared.events.catalogue import ENTRIES
from shared.messaging.dispatcher import DUE_AT_ONCE, Dispatcher
from shared.messaging.gate import DatabaseGate
from shared.messaging.in_process import InProcessTransport
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.rabbitmq import RabbitMQTransport
from shared.messaging.subscription import NewsSubscription, WorkSubscription
from shared.messaging.topology import Topology
from shared.messaging.transport import Attached, Transport
from shared.runtime.believed import authority_of, identity_of, source_keys_of
from shared.runtime.limits import authentication_with, connections_of
from shared.runtime.metrics import RuntimeMetrics
from shared.runtime.periodic import PeriodicRunner
from shared.runtime.service import Build, Context, Periodic, Service, with_authentication
from shared.runtime.web import HttpServer, add_health
from shared.web.connections import Connections
from shared.web.document import add_document
from shared.web.service import install

log = logging.getLogger(__name__)

DEFERRED_EVERY_S = 1.0
RESTART_DELAY_S = 1.0
READY_TIMEOUT_S = 2.0
PARTITIONS_LEASE = "maintenance.partitions"


class StartError(Exception):
    """The process cannot start now; the text says why."""


async def _make_partitions(work: UnitOfWork) -> bool:
    return await make_next_partition(work.connection) is not None


PARTITIONS = Periodic("partitions", 3600.0, run=_make_partitions)


@dataclass
class Running:
    """One service of this process."""

    service: Service
    dispatcher: Dispatcher
    periodic: PeriodicRunner
    http: HttpServer


class Process:
    """Built by `open_process`; `start`, then `stop`."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        cache: Cache,
        transport: Transport,
        metrics: RuntimeMetrics,
        registry: CollectorRegistry,
        connections: Connections,
    ) -> None:
        self._metrics = metrics
        self.registry = registry
        self.settings = settings
        self.database = database
        self.cache = cache
        self.transport = transport
        self.connections = connections
        self.running: list[Running] = []
        self.gate = DatabaseGate(database)
        self._loops: list[asyncio.Task[None]] = []
        self._draining = False

    async def start(self) -> None:
        """Services' own start, then messages, then periodic work and HTTP. Raises what keeps it from starting."""
        for entry in self.running:
            for action in entry.service.on_start:
                await action()
        await self.transport.start()
        for entry in self.running:
            name = entry.service.name
            self._begin(entry, "deferred messages", _deferred_loop(entry.dispatcher))
            for action in entry.service.background:
                self._begin(entry, f"background of {name}", action)
            self._begin(entry, f"leases of {name}", entry.periodic.keep_leases)
            for periodic in entry.service.periodic:
                self._begin_periodic(entry, periodic, None)
        if self.running:
            self._begin_periodic(self.running[0], PARTITIONS, PARTITIONS_LEASE)
        for entry in self.running:
            try:
                await entry.http.start()
            except OSError as error:
                raise StartError(
                    f"ORRERY_HTTP_PORT: {entry.service.name} cannot listen on "
                    f"{self.settings.http_host}:{entry.http.port}: {error.strerror or error}"
                ) from error
            log.info("%s listens on http://%s:%d", entry.service.name, self.settings.http_host, entry.http.port)

    async def problems(self) -> Sequence[str]:
        """Why this process is not ready."""
        if self._draining:
            return ["stopping"]
        found = list(self.transport.problems())
        if not self.gate.is_open:
            found.append("PostgreSQL does not answer")
        else:
            try:
                async with asyncio.timeout(READY_TIMEOUT_S), self.database.read() as connection:
                    await connection.fetchval("SELECT 1")
            except Exception as error:
                found.append(f"PostgreSQL: {type(error).__name__}: {error}")
        return found

    async def stop(self) -> None:
        """Take nothing more, finish what runs, empty the outbox, close HTTP and connections, in this order."""
        self._draining = True
        self.end_answers()
        deadline = time.monotonic() + self.settings.graceful_stop_s
        for entry in self.running:
            entry.periodic.request_stop()
        await self.transport.stop(self.settings.graceful_stop_s)
        await self._end_loops(max(0.1, deadline - time.monotonic()))
        await asyncio.gather(*(entry.http.stop() for entry in self.running))
        await asyncio.gather(*(entry.periodic.stop() for entry in self.running))
        await self.close()

    def end_answers(self) -> None:
        """Let answers come to their end that go on for as long as the process runs."""
        for entry in self.running:
            for action in entry.service.on_stop:
                action()

    async def close(self) -> None:
        """Close the connections of a process that may not have started."""
        await end(self._loops)
        await self.cache.close()
        await self.database.close()

    async def _end_loops(self, grace_s: float) -> None:
        """Periodic runs and deferred messages under way may finish; endless loops are cancelled at once."""
        finite = [task for task in self._loops if task.get_name().startswith("periodic")]
        await end(task for task in self._loops if task not in finite)
        if finite:
            _, late = await asyncio.wait(finite, timeout=grace_s)
            await end(late)

    def _begin(self, entry: Running, what: str, loop: Callable[[], Awaitable[None]]) -> None:
        async def forever() -> None:
            while True:
                try:
                    await loop()
                    return
                except Exception as error:
                    if is_retryable(error):
                        log.warning("%s: %s: %s", what, type(error).__name__, error)
                    else:
                        log.exception("%s failed and is started again", what)
                    self._metrics.background_restarts.labels(entry.service.name).inc()
                    await asyncio.sleep(RESTART_DELAY_S)

        self._loops.append(asyncio.create_task(forever(), name=what))

    def _begin_periodic(self, entry: Running, periodic: Periodic, lease_name: str | None) -> None:
        loop = entry.periodic.run(periodic, lease_name=lease_name)
        self._loops.append(asyncio.create_task(loop, name=f"periodic {periodic.name}"))


def _deferred_loop(dispatcher: Dispatcher) -> Callable[[], Awaitable[None]]:
    async def loop() -> None:
        while True:
            if await dispatcher.deliver_due() < DUE_AT_ONCE:
                await asyncio.sleep(DEFERRED_EVERY_S)

    return loop


async def open_process(
    builds: Mapping[str, Build],
    settings: Settings,
    *,
    transport: Transport | None = None,
    ports: Mapping[str, int] | None = None,
) -> Process:
    """Connect to PostgreSQL and build every service.

    `ports` gives the HTTP port of each by name; without it they are counted up from the setting. Raises SettingsError
    or StartError.
    """
    authority, identity = authority_of(settings), identity_of(settings)
    source_keys = source_keys_of(settings, builds)
    if transport is None and settings.rabbitmq_url is None:
        _require_everybody(builds)
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    runtime_metrics, messaging_metrics = RuntimeMetrics(registry), MessagingMetrics(registry)
    database = await _connect(settings, builds)
    authentication = authentication_with(settings, authority, identity, runtime_metrics)
    connections = connections_of(settings, authentication.proxies, runtime_metrics)
    cache = _cache(settings, runtime_metrics)
    transport = transport or _transport(settings, database, messaging_metrics)
    process = Process(settings, database, cache, transport, runtime_metrics, registry, connections)
    generator = random.Random(settings.random_seed)
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
    try:
        for index, (name, build) in enumerate(builds.items()):
            own = CollectorRegistry()
            acting = database.acting_as(name)
            context = Context(acting, cache, authority, generator, settings, own, source_keys)
            service = build(context)
            if index == 0:  # whoever is believed is one question for the whole process
                service = with_authentication(authentication, acting, service)
            dispatcher, attached = _attach(service, acting, messaging_metrics, process.gate)
            process.transport.attach(attached)
            web = service.web or FastAPI(title=f"Orrery {service.name}", docs_url=None, redoc_url=None)
            install(web, authentication, service.body_limits, count_refusal=runtime_metrics.request_refused)
            if service.web is not None:
                add_document(web, service.name)
            add_health(web, ready=process.problems, registries=(own, registry))
            port = ports[name] if ports else (settings.http_port + index if settings.http_port else 0)
            http = HttpServer(
                web,
                host=settings.http_host,
                port=port,
                graceful_stop_s=settings.graceful_stop_s,
                connections=connections,
            )
            periodic = PeriodicRunner(
                acting, runtime_metrics, service=service.name, holder=holder, jitter=random.Random(generator.random())
            )
            process.running.append(Running(service, dispatcher, periodic, http))
    except BaseException:
        await process.close()
        raise
    return process


def _attach(
    service: Service, database: Database, metrics: MessagingMetrics, gate: DatabaseGate
) -> tuple[Dispatcher, Attached]:
    work = [WorkSubscription(service.name, event, handler) for event, handler in service.work]
    news = [NewsSubscription(service.name, event, handler) for event, handler in service.news]
    dispatcher = Dispatcher(database, {item.consumer: item for item in work}, metrics, gate=gate)
    interrupted = tuple(service.on_news_interrupted)
    return dispatcher, Attached(service.name, dispatcher, work, news, service.drains_dead_queue, interrupted)


def _require_everybody(builds: Mapping[str, Build]) -> None:
    """Without RabbitMQ an event whose consumer is not in this process would be lost."""
    needed = {service.replace("_", "-") for entry in ENTRIES for service in entry.consumers}
    missing = sorted(needed - {name.replace("_", "-") for name in builds})
    if missing:
        raise SettingsError(
            f"ORRERY_RABBITMQ_URL is not set: it is needed unless every service runs in one process "
            f"(missing here: {', '.join(missing)})"
        )


async def _connect(settings: Settings, builds: Mapping[str, Build]) -> Database:
    actor = next(iter(builds)) if len(builds) == 1 else "orrery"
    try:
        database = await Database.connect(
            settings.database_url, actor=actor, min_size=2, max_size=settings.database_pool_size
        )
    except Exception as error:
        raise StartError(f"PostgreSQL cannot be used (ORRERY_DATABASE_URL): {type(error).__name__}: {error}") from error
    try:
        async with database.read() as connection:
            await migrate.require(connection)
    except migrate.SchemaError as error:
        await database.close()
        raise StartError(str(error)) from error
    return database


def _cache(settings: Settings, metrics: RuntimeMetrics) -> Cache:
    if settings.redis_url is None:
        return NullCache()
    return RedisCache(
        settings.redis_url,
        prefix=settings.cache_prefix,
        on_miss=lambda cause: metrics.cache_misses.labels(cause).inc(),
    )


def _transport(settings: Settings, database: Database, metrics: MessagingMetrics) -> Transport:
    if settings.rabbitmq_url is None:
        return InProcessTransport(database, metrics)
    topology = Topology(settings.bus_namespace)
    return RabbitMQTransport(
        settings.rabbitmq_url, database, metrics, topology=topology, prefetch=settings.prefetch_count
    )
