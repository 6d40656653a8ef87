"""News without a database: heard while the bus is there, and it says when some may have been missed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from deploy.local.ports import LOOPBACK, free_port
from shared.db import Database
from shared.events import JobsFinished, TaskReady
from shared.events.base import Event
from shared.messaging import listening
from shared.messaging.listening import Listening
from shared.messaging.metrics import MessagingMetrics
from tests.integration.messaging.bus import running, topology


class Heard:
    """What was heard, and whether it may not have been all."""

    def __init__(self) -> None:
        self.events = asyncio.Queue[Event]()
        self.interrupted = asyncio.Event()

    async def on_event(self, event: Event) -> None:
        self.events.put_nowait(event)


@contextlib.asynccontextmanager
async def listening_at(url: str, namespace: str, heard: Heard) -> AsyncIterator[Listening]:
    news = [(TaskReady, heard.on_event), (JobsFinished, heard.on_event)]
    metrics = MessagingMetrics(CollectorRegistry())
    listens = Listening(url, topology(namespace), metrics, "console", news, [heard.interrupted.set])
    task = asyncio.create_task(listens.run())
    try:
        yield listens
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def relayed(url: str, port: int) -> AsyncIterator[None]:
    """RabbitMQ at another port, as long as the block runs."""
    host, _, there = url.rpartition("@")[2].split("/")[0].partition(":")
    writers = set[asyncio.StreamWriter]()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, on = await asyncio.open_connection(host, int(there or 5672))
        await asyncio.gather(pump(reader, on), pump(back, writer))

    server = await asyncio.start_server(relay, LOOPBACK, port)
    try:
        yield
    finally:
        server.close()
        for writer in writers:
            writer.close()


async def announced(database: Database, task_id: int) -> None:
    async with database.begin(reason="test") as work:
        work.emit(TaskReady(task_id=task_id))


async def test_each_listener_hears_every_event_soon_after_its_commit(
    database: Database, rabbitmq_url: str, namespace: str
) -> None:
    one, other = Heard(), Heard()
    async with (
        running(rabbitmq_url, database, namespace, []),
        listening_at(rabbitmq_url, namespace, one),
        listening_at(rabbitmq_url, namespace, other),
    ):
        await asyncio.wait_for(asyncio.gather(one.interrupted.wait(), other.interrupted.wait()), 20)
        await announced(database, 7)
        for heard in (one, other):
            event = await asyncio.wait_for(heard.events.get(), 5)
            assert isinstance(event, TaskReady) and event.task_id == 7


async def test_it_waits_for_a_bus_that_is_away_and_says_that_something_may_have_been_missed(
    database: Database, rabbitmq_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "CONNECT_AGAIN_S", 0.1)
    port, heard = free_port(), Heard()
    url = rabbitmq_url.replace(rabbitmq_url.rpartition("@")[2].split("/")[0], f"{LOOPBACK}:{port}")
    async with running(rabbitmq_url, database, namespace, []), listening_at(url, namespace, heard):
        await asyncio.sleep(0.3)
        assert not heard.interrupted.is_set()
        for task_id in (1, 2):
            async with relayed(rabbitmq_url, port):
                await asyncio.wait_for(heard.interrupted.wait(), 60)
                await announced(database, task_id)
                event = await asyncio.wait_for(heard.events.get(), 30)
                assert isinstance(event, TaskReady) and event.task_id == task_id
            heard.interrupted.clear()
