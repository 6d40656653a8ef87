"""Names on the bus that are removed after the test, and a table of effects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deploy.local.binaries import find_rabbitmq
from deploy.local.private_server import PrivateServer
from deploy.local.rabbitmq import RABBITMQ
from shared.db import Database
from tests.integration.messaging.bus import Effects, raw_channel, topology


@pytest.fixture
async def namespace(rabbitmq_url: str, bus_namespace: str) -> AsyncIterator[str]:
    """A bus of the test's own on the shared broker."""
    async with raw_channel(rabbitmq_url) as channel:
        await topology(bus_namespace).declare(channel)
    yield bus_namespace
    async with raw_channel(rabbitmq_url) as channel:
        await topology(bus_namespace).remove(channel)


@pytest.fixture
async def effects(database: Database) -> Effects:
    effects = Effects(database)
    await effects.create()
    return effects


@pytest.fixture
def private_broker(tmp_path: Path) -> Iterator[PrivateServer]:
    """A RabbitMQ that only this test uses, so that it may be killed."""
    programs = find_rabbitmq()
    if programs is None:
        pytest.skip("no RabbitMQ on this machine")
    broker = PrivateServer(RABBITMQ, programs, base=tmp_path, durable=True)
    broker.start()
    yield broker
    broker.stop()
