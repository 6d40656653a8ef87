"""The eight services that hear events, some of them twice, each replaceable by a fresh build: that is a restart."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.cli.one_process import composition_roots
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db.unit_of_work import UnitOfWork
from shared.events.base import Event
from shared.messaging.dispatcher import Dispatcher
from shared.messaging.failure_records import RetryPolicy
from shared.messaging.in_process import InProcessTransport
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.subscription import NewsSubscription, WorkSubscription
from shared.messaging.transport import Attached
from shared.runtime.service import Context, Periodic, Service
from shared.web.service import install
from tests.simulation.background import Background
from tests.simulation.calls import Caller
from tests.simulation.crashes import SimulatedDatabase

#: of these there are two: one claims and makes what the other has in its memory
TWICE = ("job-dispatch", "job-generation")


class Services:
    """Built once, attached once; which replica a subscription calls is decided anew each time."""

    def __init__(
        self,
        rng: random.Random,
        database: SimulatedDatabase,
        database_url: str,
        transport: InProcessTransport,
        authority: Authority,
        seed: int,
    ) -> None:
        self._rng = rng
        # pages for people hear no event and change nothing
        self._roots = {name: build for name, build in composition_roots().items() if name != "console"}
        self._database = database
        self._authority = authority
        self._settings = Settings(database_url=database_url)
        self._seed = seed
        self._builds = 0
        self.background = Background()
        self.services: dict[str, Service] = {}
        self.dispatchers: dict[str, Dispatcher] = {}
        self._webs: dict[str, FastAPI] = {}
        self._replicas = {
            name: [f"{name}#{number}" for number in range(1, 3 if name in TWICE else 2)] for name in self._roots
        }
        self._metrics = MessagingMetrics(CollectorRegistry())
        for name, replicas in self._replicas.items():
            for replica in replicas:
                self._build(replica)
            service = self.services[replicas[0]]
            work = [WorkSubscription(service.name, event, self._working(name, event)) for event, _ in service.work]
            news = [
                NewsSubscription(service.name, event, self._hearing(replica, event))
                for event, _ in service.news
                for replica in replicas
            ]
            consumers = {item.consumer: item for item in work}
            # a handler that raises what it should not is a bug, also if it would succeed the next time
            once = RetryPolicy(tries=1)
            dispatcher = Dispatcher(database.acting_as(name), consumers, self._metrics, retry=once, sleep=_no_sleep)
            self.dispatchers[name] = dispatcher
            transport.attach(Attached(service.name, dispatcher, work, news))

    async def start(self) -> None:
        for replica in self.services:
            await self._start(replica)

    def names(self) -> list[str]:
        return sorted(self._roots)

    async def restart(self, name: str) -> None:
        """Everything that one replica had in memory is gone; of a service any of its replicas."""
        replica = name if "#" in name else self._one_of(name)
        await self.background.stop(replica)
        self._build(replica)
        await self._start(replica)

    def failed_together(self) -> list[str]:
        """Consumers that failed with several events in one transaction; that each was then handled alone hides it."""
        samples = next(iter(self._metrics.tried_alone.collect())).samples
        return [f"{one.labels['consumer']}: {one.labels['cause']}" for one in samples if one.name.endswith("_total")]

    async def stop(self) -> None:
        for replica in self.services:
            await self.background.stop(replica)

    def client(self, name: str, token: str) -> Caller:
        """A client that calls the service's routes in this process, at any of its replicas."""
        return Caller(lambda: self._webs[self._one_of(name)], token)

    def periodics(self) -> list[tuple[str, Periodic]]:
        """What each replica does by itself, and once what one of them does for all."""
        return [
            (replica, periodic)
            for replica, service in self.services.items()
            for periodic in service.periodic
            if not periodic.lease or replica.endswith("#1")
        ]

    async def run_periodic(self, replica: str, periodic: Periodic) -> bool:
        """One run in its transaction, as the one replica that holds the lease if there is one; whether it left some."""
        if periodic.lease:
            replica = self._one_of(_name_of(replica))
        # it may have been restarted since the round began
        wanted = periodic.name, periodic.partition
        run = next(one.run for one in self.services[replica].periodic if (one.name, one.partition) == wanted)
        async with self._database_of(replica).begin(reason=f"periodic {periodic.name}") as work:
            return bool(await run(work))

    def _one_of(self, name: str) -> str:
        replicas = self._replicas[name]
        return replicas[0] if len(replicas) == 1 else self._rng.choice(replicas)

    def _database_of(self, replica: str) -> SimulatedDatabase:
        database = self._database.acting_as(_name_of(replica))
        database.replica = replica
        return database

    def _build(self, replica: str) -> None:
        self._builds += 1
        name = _name_of(replica)
        context = Context(
            database=self._database_of(replica),
            cache=NullCache(),
            authority=self._authority,
            random=random.Random(f"{self._seed}:{replica}:{self._builds}"),
            settings=self._settings,
            metrics=CollectorRegistry(),
        )
        service = self._roots[name](context)
        self.services[replica] = service
        if service.web is not None:
            install(service.web, self._authority, service.body_limits)
            self._webs[replica] = service.web

    async def _start(self, replica: str) -> None:
        service = self.services[replica]
        for action in service.on_start:
            await action()
        self.background.start(replica, service.background)

    def _working(self, name: str, event: type[Event]) -> Callable[[Any, UnitOfWork], Awaitable[None]]:
        async def handle(message: Any, work: UnitOfWork) -> None:
            handlers = dict(self.services[self._one_of(name)].work)
            await handlers[event](message, work)

        return handle

    def _hearing(self, replica: str, event: type[Event]) -> Callable[[Any], Awaitable[None]]:
        async def hear(message: Any) -> None:
            await dict(self.services[replica].news)[event](message)

        return hear


def _name_of(replica: str) -> str:
    return replica.partition("#")[0]


async def _no_sleep(seconds: float) -> None:
    """Virtual time passes only between steps."""
