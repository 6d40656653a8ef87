"""The dispatcher trusts its windows only as long as it hears the news."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from shared.db import Database
from shared.events import JobsActivated
from shared.messaging.dispatcher import Dispatcher
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.rabbitmq import RabbitMQTransport
from shared.messaging.subscription import NewsSubscription
from shared.messaging.topology import Topology
from shared.messaging.transport import Attached


async def test_a_new_connection_tells_that_news_may_have_been_missed(
    database: Database, rabbitmq_url: str, bus_namespace: str
) -> None:
    told = asyncio.Event()

    async def on_jobs_activated(event: JobsActivated) -> None:
        """Not of interest here."""

    metrics = MessagingMetrics(CollectorRegistry())
    transport = RabbitMQTransport(rabbitmq_url, database, metrics, topology=Topology(bus_namespace))
    news = [NewsSubscription("job-dispatch", JobsActivated, on_jobs_activated)]
    dispatcher = Dispatcher(database, {}, metrics)
    transport.attach(Attached("job-dispatch", dispatcher, [], news, on_news_interrupted=[told.set]))
    await transport.start()
    try:
        assert told.is_set()  # nothing was heard before the start
        told.clear()
        assert transport._consumers is not None
        connection = await transport._consumers.broker.connect()
        await connection.transport.connection.close(ConnectionResetError("cut"))  # type: ignore[union-attr]
        await asyncio.wait_for(told.wait(), 60)
    finally:
        await transport.stop(5.0)
