"""A small bus for tests: one or more replicas of a service with the handlers that a test gives it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
from prometheus_client import CollectorRegistry

from shared.db import Database, UnitOfWork
from shared.events import ConfigChanged, JobsFinished, TaskDefined, TaskReady
from shared.events.base import Event
from shared.events.catalogue import Entry
from shared.messaging.dispatcher import Dispatcher
from shared.messaging.failure_records import RetryPolicy
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.rabbitmq import RabbitMQTransport
from shared.messaging.subscription import NewsSubscription, WorkSubscription
from shared.messaging.topology import Topology
from shared.messaging.transport import Attached

SERVICE = "task-brokerage"
DEFINED_QUEUE = "task-brokerage.task-defined"
FINISHED_QUEUE = "task-brokerage.jobs-finished"
ENTRIES = (
    Entry(TaskDefined, ("task_definition",), ("task_brokerage",)),
    Entry(TaskReady, ("task_brokerage",), ("job_generation",)),
    Entry(JobsFinished, ("job_dispatch",), ("task_brokerage",)),
    Entry(ConfigChanged, ("task_definition",), (), ("task_brokerage",)),
)
QUICK = RetryPolicy(tries=3, first_delay_s=0.01, factor=1.0)
PATIENCE_S = 90.0

Handler = Callable[[Any, UnitOfWork], Awaitable[None]]


def topology(namespace: str) -> Topology:
    return Topology(namespace, ENTRIES)


class Effects:
    """A handler that writes one row per call into table `effects` (nothing keeps it from writing two), and a way to
    wait for a number of them. `before` and `after` are called around the write, inside the transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.calls = 0
        self.before: Callable[[Any], Awaitable[None]] | None = None
        self.after: Callable[[Any], Awaitable[None]] | None = None

    async def create(self) -> None:
        async with self.database.read() as connection:
            await connection.execute("CREATE TABLE IF NOT EXISTS effects (event_id bigint, task_id bigint)")

    async def on_task_defined(self, event: TaskDefined, work: UnitOfWork) -> None:
        self.calls += 1
        if self.before:
            await self.before(event)
        await work.connection.execute("INSERT INTO effects VALUES ($1, $2)", event.event_id, event.task_id)
        if self.after:
            await self.after(event)

    async def task_ids(self) -> list[int]:
        async with self.database.read() as connection:
            return [r["task_id"] for r in await connection.fetch("SELECT task_id FROM effects ORDER BY task_id")]

    async def reach(self, count: int, *, patience_s: float = PATIENCE_S) -> list[int]:
        """The task ids once there are at least `count` of them."""
        await eventually(lambda: self._at_least(count), patience_s=patience_s)
        return await self.task_ids()

    async def _at_least(self, count: int) -> bool:
        return len(await self.task_ids()) >= count


async def eventually(condition: Callable[[], Awaitable[bool]], *, patience_s: float = PATIENCE_S) -> None:
    """Wait until a condition in another process (a server) holds; a failure says so."""
    deadline = time.monotonic() + patience_s
    while not await condition():
        assert time.monotonic() < deadline, f"still not true after {patience_s:.0f} s"
        await asyncio.sleep(0.05)


def make_transport(
    url: str,
    database: Database,
    namespace: str,
    work: Sequence[tuple[type[Event], Handler]],
    news: Sequence[tuple[type[Event], Any]] = (),
    *,
    retry: RetryPolicy = QUICK,
    drains_dead_queue: bool = False,
    prefetch: int = 16,
) -> tuple[RabbitMQTransport, Dispatcher]:
    """A replica that is not started yet."""
    metrics = MessagingMetrics(CollectorRegistry())
    subscriptions = [WorkSubscription(SERVICE, event, handler) for event, handler in work]
    listeners = [NewsSubscription(SERVICE, event, handler) for event, handler in news]
    dispatcher = Dispatcher(database, {s.consumer: s for s in subscriptions}, metrics, retry=retry)
    transport = RabbitMQTransport(url, database, metrics, topology=topology(namespace), prefetch=prefetch)
    transport.attach(Attached(SERVICE, dispatcher, subscriptions, listeners, drains_dead_queue))
    return transport, dispatcher


@asynccontextmanager
async def running(
    url: str, database: Database, namespace: str, *args: Any, **kwargs: Any
) -> AsyncIterator[tuple[RabbitMQTransport, Dispatcher]]:
    """A replica, started and stopped."""
    transport, dispatcher = make_transport(url, database, namespace, *args, **kwargs)
    await transport.start()
    try:
        yield transport, dispatcher
    finally:
        await transport.stop(5.0)


@asynccontextmanager
async def raw_channel(url: str, **options: Any) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """AMQP without anything of ours between."""
    connection = await aio_pika.connect(url)
    try:
        yield await connection.channel(**options)
    finally:
        await connection.close()


async def emit_defined(database: Database, task_ids: Sequence[int]) -> None:
    """One transaction that announces all these tasks."""
    async with database.begin(reason="test") as work:
        for task_id in task_ids:
            work.emit(TaskDefined(task_id=task_id))


async def rows(database: Database, query: str, *arguments: Any) -> list[Any]:
    async with database.read() as connection:
        return list(await connection.fetch(query, *arguments))


async def outbox_is_empty(database: Database) -> bool:
    return (await rows(database, "SELECT count(*) AS n FROM outbox"))[0]["n"] == 0
