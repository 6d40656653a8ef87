"""What the broker says no to, what it does not answer, and what nobody hears: the outbox keeps it until it is sure."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from deploy.local.binaries import find_rabbitmq
from deploy.local.private_server import PrivateServer
from shared.db import Database
from shared.events import TaskDefined
from shared.messaging import relay as outbox_relay
from shared.messaging.rabbitmq import RabbitMQTransport
from tests.integration.messaging.bus import (
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
from tests.relay import Relay

#: a full queue refuses each message at once, and with it the broker says no to the publisher
FULL = {"x-max-length": 0, "x-overflow": "reject-publish"}


@pytest.fixture
def way(rabbitmq_url: str) -> Iterator[Relay]:
    """The way to the broker, which may fall silent. Who hears nothing for some seconds gives the other up."""
    with Relay(rabbitmq_url).running() as found:
        yield found


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_relay, "PUBLISH_TIMEOUT_S", 2.0)
    monkeypatch.setattr(outbox_relay, "HOLD_S", 0.5)


def failures(transport: RabbitMQTransport, cause: str) -> float:
    return float(transport._metrics.publish_failures.labels(cause)._value.get())


async def test_what_the_broker_refuses_stays_and_has_one_effect_when_it_is_taken(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    async with raw_channel(rabbitmq_url) as channel:
        full = await channel.declare_queue(f"{namespace}.full", arguments=FULL)
        await full.bind(topology(namespace).events_exchange, "task.defined.v1")
        async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]) as (bus, _):
            await emit_defined(database, range(20))

            async def is_refused() -> bool:
                return failures(bus, "refused") >= 20

            await eventually(is_refused)
            assert not await outbox_is_empty(database)
            assert "relay" in "; ".join(bus.problems())
            await full.delete()
            await eventually(lambda: outbox_is_empty(database))
            # the other queue took each message although the broker said no: they came more than once
            assert await effects.reach(20) == list(range(20))
            assert effects.calls == 20


async def test_a_confirm_that_never_comes_leaves_one_effect_of_what_the_broker_stored(
    database: Database, way: Relay, namespace: str, effects: Effects
) -> None:
    work = [(TaskDefined, effects.on_task_defined)]
    async with running(way.url, database, namespace, work) as (bus, _):
        await emit_defined(database, [0])
        assert await effects.reach(1) == [0]
        way.silence(only_answers=True)
        await emit_defined(database, range(1, 30))

        async def is_given_up() -> bool:
            return failures(bus, "unanswered") > 0

        await eventually(is_given_up)
        assert not await outbox_is_empty(database)
        way.speak()
        assert await effects.reach(30) == list(range(30))
        await eventually(lambda: outbox_is_empty(database))
        assert effects.calls == 30


async def test_a_partition_between_a_service_and_the_broker_heals_without_loss(
    database: Database, way: Relay, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    work = [(TaskDefined, effects.on_task_defined)]
    async with running(f"{way.url}?heartbeat=2", database, namespace, work) as (bus, _):
        await emit_defined(database, range(10))
        await effects.reach(10)
        way.silence()
        await emit_defined(database, range(10, 20))
        # another service, on the other side, goes on publishing
        other, _ = make_transport(rabbitmq_url, database, namespace, [])
        await other.relay.connect()

        async def is_noticed() -> bool:
            return bool(bus.problems())

        await eventually(is_noticed)
        await emit_defined(database, range(20, 30))
        await other.relay.flush()
        await other.relay.close()
        way.speak()
        assert await effects.reach(30) == list(range(30))
        await eventually(lambda: outbox_is_empty(database))

        async def is_well() -> bool:
            return not bus.problems()

        await eventually(is_well)
        assert effects.calls >= 30 and len(await effects.task_ids()) == 30


async def test_a_broker_without_memory_takes_nothing_and_what_it_has_is_still_handled(
    database: Database, private_broker: PrivateServer, bus_namespace: str, effects: Effects
) -> None:
    work = [(TaskDefined, effects.on_task_defined)]
    async with running(private_broker.url, database, bus_namespace, work) as (bus, _):
        await emit_defined(database, [0])
        await effects.reach(1)
        set_watermark(private_broker, "absolute", "1MB")
        await emit_defined(database, range(1, 30))

        async def is_told() -> bool:
            return failures(bus, "unanswered") > 0 and bool(bus.problems())

        await eventually(is_told)
        assert len(await rows(database, "SELECT event_id FROM outbox")) == 29
        assert await effects.task_ids() == [0]
        set_watermark(private_broker, "0.6")
        assert await effects.reach(30) == list(range(30))
        await eventually(lambda: outbox_is_empty(database))
        assert effects.calls == 30


def set_watermark(broker: PrivateServer, *value: str) -> None:
    """Say from which use of memory on a broker blocks who publishes."""
    programs = find_rabbitmq()
    assert programs is not None
    environment = {**broker.kind.environment(broker), "RABBITMQ_CTL_ERL_ARGS": ""}
    command = [programs.directory / "rabbitmqctl", "set_vm_memory_high_watermark", *value]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
