"""Poison, kills and broken connections."""

from __future__ import annotations

import asyncio

import aio_pika
import asyncpg
import pytest

from deploy.local.private_server import PrivateServer
from shared.db import Database
from shared.events import ConfigChanged, TaskDefined
from shared.messaging.codec import MAX_BODY_BYTES
from shared.messaging.transport import BusUnavailable
from tests.integration.messaging.bus import (
    DEFINED_QUEUE,
    Effects,
    emit_defined,
    eventually,
    make_transport,
    outbox_is_empty,
    raw_channel,
    rows,
    running,
    topology,
)

VALID = '{"event_id":900,"occurred_at":"2026-01-02T03:04:05Z","task_id":1}'
POISON = {
    "not JSON": (b'{"event_id": 1, "task_', "task.defined.v1", "Invalid JSON"),
    "not text": (b"\xff\xfe\x00\x01", "task.defined.v1", "Invalid JSON"),
    "a wrong type": (VALID.replace('"task_id":1', '"task_id":"x"').encode(), "task.defined.v1", "task_id"),
    "a missing field": (VALID.replace(',"task_id":1', "").encode(), "task.defined.v1", "task_id: Field required"),
    "no event id": (VALID.replace('"event_id":900,', "").encode(), "task.defined.v1", "did not come from an outbox"),
    "an unknown version": (VALID.encode(), "task.defined.v99", "unknown version"),
    "too large": (VALID.encode() + b" " * MAX_BODY_BYTES * 10, "task.defined.v1", "bytes; allowed are"),
}


async def test_poisoned_messages_are_parked_with_a_reason_and_the_rest_flows(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    work = [(TaskDefined, effects.on_task_defined)]
    async with running(rabbitmq_url, database, namespace, work, drains_dead_queue=True):
        async with raw_channel(rabbitmq_url) as channel:
            for index, (body, kind, _) in enumerate(POISON.values()):
                await emit_defined(database, [index])
                message = aio_pika.Message(body, type=kind, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(message, topology(namespace).queue_of(DEFINED_QUEUE))
        assert await effects.reach(len(POISON)) == list(range(len(POISON)))
        await eventually(lambda: _parked(database, len(POISON)))
    parked = await rows(database, "SELECT consumer, reason FROM parked_messages")
    assert {row["consumer"] for row in parked} == {DEFINED_QUEUE}
    for name, (_, _, reason) in POISON.items():
        assert any(reason in row["reason"] for row in parked), f"{name}: no {reason!r} in {parked}"


async def test_a_message_that_crashes_its_consumer_again_and_again_ends_in_the_parking_lot(
    database: Database, rabbitmq_url: str, namespace: str
) -> None:
    async with raw_channel(rabbitmq_url) as channel:
        message = aio_pika.Message(VALID.encode(), type="task.defined.v1")
        await channel.default_exchange.publish(message, topology(namespace).queue_of(DEFINED_QUEUE))
        queue = await channel.get_queue(topology(namespace).queue_of(DEFINED_QUEUE))
        crashes = 0
        while (taken := await queue.get(fail=False)) is not None:
            await taken.reject(requeue=True)  # what RabbitMQ does for a consumer that vanished
            crashes += 1
        assert crashes == 21
    async with running(rabbitmq_url, database, namespace, [], drains_dead_queue=True):
        await eventually(lambda: _parked(database, 1))
    parked = (await rows(database, "SELECT event_id, consumer, reason FROM parked_messages"))[0]
    assert tuple(parked) == (900, DEFINED_QUEUE, "crashed its consumer 20 times")


async def test_a_broker_killed_in_the_middle_loses_nothing_and_repeats_no_effect(
    database: Database, private_broker: PrivateServer, bus_namespace: str, effects: Effects
) -> None:
    total = 600
    half_way = asyncio.Event()

    async def watch(event: TaskDefined) -> None:
        await asyncio.sleep(0.002)
        if effects.calls >= total // 3:
            half_way.set()

    effects.before = watch
    work = [(TaskDefined, effects.on_task_defined)]
    async with running(private_broker.url, database, bus_namespace, work) as (transport, _):

        async def emit_slowly() -> None:
            for first in range(0, total, 20):
                await emit_defined(database, range(first, first + 20))
                await asyncio.sleep(0.02)

        emitting = asyncio.create_task(emit_slowly())
        await asyncio.wait_for(half_way.wait(), 60)
        await asyncio.to_thread(private_broker.kill9)
        assert len(await effects.task_ids()) < total
        await emitting
        await asyncio.to_thread(private_broker.start)
        assert await effects.reach(total, patience_s=60) == list(range(total))
        await eventually(lambda: outbox_is_empty(database))

        async def well() -> bool:
            return transport.problems() == []

        await eventually(well)
        await emit_defined(database, range(total, total + 50))
        assert await effects.reach(total + 50) == list(range(total + 50))


async def test_a_transport_started_while_the_broker_is_down_refuses(database: Database, bus_namespace: str) -> None:
    transport, _ = make_transport("amqp://guest:guest@127.0.0.1:1/", database, bus_namespace, [])
    with pytest.raises(BusUnavailable, match="RabbitMQ cannot be used"):
        await transport.start()


async def test_a_channel_closed_by_the_broker_heals(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    work = [(TaskDefined, effects.on_task_defined)]
    async with running(rabbitmq_url, database, namespace, work) as (transport, _):
        await emit_defined(database, [1])
        await effects.reach(1)
        assert transport._consumers is not None
        subscriber = next(iter(transport._consumers.broker.subscribers))
        underlay = await subscriber._queue_obj.channel.get_underlay_channel()
        closed = underlay.closing
        await underlay.basic_ack(delivery_tag=424242)  # an unknown tag: the broker closes the channel
        await asyncio.wait({closed}, timeout=60)
        publishing = await transport.relay._channel.get_underlay_channel()
        await publishing.basic_ack(delivery_tag=424242)
        await emit_defined(database, range(2, 40))
        assert await effects.reach(39) == list(range(1, 40))


async def test_a_deleted_queue_is_made_again_and_consumed(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    heard = asyncio.Event()

    async def on_config_changed(event: ConfigChanged) -> None:
        heard.set()

    work = [(TaskDefined, effects.on_task_defined)]
    async with running(rabbitmq_url, database, namespace, work, [(ConfigChanged, on_config_changed)]):
        await emit_defined(database, [1])
        await effects.reach(1)
        async with raw_channel(rabbitmq_url) as channel:
            await channel.queue_delete(topology(namespace).queue_of(DEFINED_QUEUE))
        await emit_defined(database, [2, 3])
        assert await effects.reach(3) == [1, 2, 3]
        async with database.begin(reason="test") as unit:
            unit.emit(ConfigChanged(config_version=5))
        await asyncio.wait_for(heard.wait(), 60)


async def test_a_deleted_exchange_is_made_again_by_the_relay(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]):
        async with raw_channel(rabbitmq_url) as channel:
            await channel.exchange_delete(topology(namespace).events_exchange)
        await emit_defined(database, [4, 5])
        assert await effects.reach(2) == [4, 5]


async def test_backends_terminated_at_random_repeat_no_effect(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects, database_url: str
) -> None:
    """Also in the middle of COMMIT, where nobody knows the outcome: the inbox does."""
    stop = asyncio.Event()

    async def terminate() -> None:
        connection = await asyncpg.connect(database_url)
        while not stop.is_set():
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            await asyncio.sleep(0.15)
        await connection.close()

    async def slowly(event: TaskDefined) -> None:
        await asyncio.sleep(0.01)

    effects.before = slowly
    await emit_defined(database, range(300))
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]):
        killer = asyncio.create_task(terminate())
        await asyncio.sleep(2.0)  # the duration of the fault, not a wait for something
        stop.set()
        await killer
        assert await effects.reach(300) == list(range(300))
    assert effects.calls > 300, "some handlers were interrupted and repeated"


async def test_while_postgresql_is_away_messages_are_kept_and_nothing_is_lost(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects, database_url: str, servers_of_tests
) -> None:
    name = database_url.rsplit("/", 1)[1]
    admin = await asyncpg.connect(servers_of_tests.database_url)
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]) as (_, dispatcher):
        await emit_defined(database, [1])
        await effects.reach(1)
        await admin.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        late = TaskDefined(event_id=10_000, occurred_at="2026-01-02T03:04:05Z", task_id=2)
        async with raw_channel(rabbitmq_url) as channel:
            exchange = await channel.get_exchange(topology(namespace).events_exchange)
            await exchange.publish(aio_pika.Message(late.model_dump_json().encode()), "task.defined.v1")

        async def closed() -> bool:
            return not dispatcher.gate.is_open

        await eventually(closed)
        await admin.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true')
        assert await effects.reach(2) == [1, 2]
    await admin.close()


async def _parked(database: Database, count: int) -> bool:
    return (await rows(database, "SELECT count(*) AS n FROM parked_messages"))[0]["n"] == count
