"""What Rucio's hermes sends into RabbitMQ is read by the system itself, as it was recorded from the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aio_pika
import pytest

from services.task_definition.data.cataloguing.hearing import Hearing
from services.task_definition.data.wishing import Wishes
from shared.config.parameters import Parameters
from shared.db import Database
from shared.messaging.messages_outside import MessagesOutside
from tests.integration.messaging.bus import eventually, raw_channel, rows, topology
from tests.rows import insert

#: body, destination and headers of each message that hermes of Rucio 41.5.1 sent when a rule was done
RECORDED = json.loads((Path(__file__).parents[2] / "data" / "rucio" / "hermes.json").read_text())
RULE = next(
    json.loads(one["body"])["payload"]["rule_id"] for one in RECORDED if one["headers"]["event_type"] == "rule_ok"
)
QUEUE = "catalogue-messages"


@pytest.fixture
async def moving(database: Database) -> None:
    """A transfer whose rule is looked at in an hour."""
    async with database.pool.acquire() as connection:
        later = await connection.fetchval("SELECT orrery_now() + interval '1 hour'")
        request = {
            "vo": "atlas", "task_id": 1, "kind": "move", "subject": "B_DISK", "status": "moving", "rule_id": RULE,
            "next_at": later,
        }  # fmt: skip
        await insert(connection, "catalogue_requests", request)


@pytest.fixture
async def key(rabbitmq_url: str, namespace: str, database: Database) -> AsyncIterator[str]:
    """The topic of this test, which the service reads."""
    key = f"rucio.events.{namespace}"
    heard = Hearing(database, Wishes(["atlas"], Parameters()))
    reader = MessagesOutside(rabbitmq_url, key, QUEUE, heard.hear, topology(namespace))
    task = asyncio.create_task(reader.run())
    async with raw_channel(rabbitmq_url) as channel:
        await eventually(lambda: is_consumed(channel, topology(namespace).queue_of(QUEUE)))
        yield key
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await channel.queue_delete(topology(namespace).queue_of(QUEUE))


async def is_consumed(channel: aio_pika.abc.AbstractChannel, queue: str) -> bool:
    try:
        declared = await channel.declare_queue(queue, passive=True)
    except aio_pika.exceptions.ChannelClosed:
        await channel.reopen()
        return False
    return bool(declared.declaration_result.consumer_count)


async def send(url: str, key: str, *bodies: str) -> None:
    """As RabbitMQ's STOMP plugin does with what is sent to /topic/KEY."""
    async with raw_channel(url) as channel:
        exchange = await channel.get_exchange("amq.topic")
        for body in bodies:
            await exchange.publish(aio_pika.Message(body.encode()), routing_key=key)


async def is_due(database: Database) -> bool:
    [row] = await rows(database, "SELECT next_at <= orrery_now() AS is_due FROM catalogue_requests")
    return bool(row["is_due"])


async def test_a_rule_that_is_done_is_looked_at_at_once_and_not_an_hour_later(
    database: Database, rabbitmq_url: str, key: str, moving: None
) -> None:
    assert not await is_due(database), "by itself it is looked at in an hour"
    await send(rabbitmq_url, key, *(one["body"] for one in RECORDED))
    await eventually(lambda: is_due(database))
    assert len(await rows(database, "SELECT FROM catalogue_requests")) == 1


async def test_what_is_no_message_of_a_catalogue_is_parked_and_holds_nothing_up(
    database: Database, rabbitmq_url: str, namespace: str, key: str, moving: None
) -> None:
    await send(rabbitmq_url, key, "{", '["rule_ok"]', *(one["body"] for one in RECORDED))
    await eventually(lambda: is_due(database))
    dead: list[bytes] = []
    async with raw_channel(rabbitmq_url) as channel:
        queue = await channel.get_queue(topology(namespace).dead_queue)

        async def are_dead() -> bool:
            if (message := await queue.get(fail=False)) is not None:
                await message.ack()
                dead.append(message.body)
            return len(dead) == 2

        await eventually(are_dead)
    assert sorted(dead) == [b'["rule_ok"]', b"{"]


def test_messages_of_single_files_name_no_rule_and_are_taken() -> None:
    kinds = {one["headers"]["event_type"] for one in RECORDED}
    assert {"rule_ok", "datasetlock_ok"} <= kinds
