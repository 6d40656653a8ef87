"""The transport for a machine without RabbitMQ, and the one that simulations steer."""

from __future__ import annotations

import random
from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from shared.db import Database
from shared.events import ConfigChanged, TaskDefined
from shared.messaging.dispatcher import Dispatcher
from shared.messaging.in_process import InProcessTransport
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.schedule import Choice, Handling, InOrder, Schedule
from shared.messaging.subscription import Delivery, NewsSubscription, WorkSubscription
from shared.messaging.transport import Attached
from tests.integration.messaging.bus import QUICK, Effects, emit_defined, eventually, outbox_is_empty, rows

SERVICES = ("task-brokerage", "watchdog")


def make(database: Database, effects: Effects, schedule: Schedule | None = None) -> InProcessTransport:
    """Two services that both work on TaskDefined; the first also listens to news."""
    metrics = MessagingMetrics(CollectorRegistry())
    transport = InProcessTransport(database, metrics, schedule=schedule)

    async def on_config_changed(event: ConfigChanged) -> None:
        effects.calls += 1000

    for service in SERVICES:
        work = [WorkSubscription(service, TaskDefined, effects.on_task_defined)]
        news = [NewsSubscription(service, ConfigChanged, on_config_changed)]
        dispatcher = Dispatcher(database, {w.consumer: w for w in work}, metrics, retry=QUICK)
        transport.attach(Attached(service, dispatcher, work, news))
    return transport


class Unreliable:
    """Reorders, duplicates and delays, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def choose(self, waiting: Sequence[Delivery]) -> Choice | None:
        if self.random.random() < 0.2:
            return None
        handling = Handling.DUPLICATE if self.random.random() < 0.3 else Handling.DELIVER
        return Choice(self.random.randrange(len(waiting)), handling)


class Dropping:
    def choose(self, waiting: Sequence[Delivery]) -> Choice | None:
        return Choice(0, Handling.DROP)


async def test_every_consumer_gets_each_event_once_and_the_outbox_is_emptied(
    database: Database, effects: Effects
) -> None:
    transport = make(database, effects)
    await transport.start()
    await emit_defined(database, range(100))
    assert await effects.reach(200) == sorted([*range(100)] * 2)
    await eventually(lambda: outbox_is_empty(database))
    async with database.begin(reason="test") as work:
        work.emit(ConfigChanged(config_version=1))
    await eventually(lambda: outbox_is_empty(database))
    await transport.stop(5.0)
    assert effects.calls == 2200
    assert transport.problems() == ["the in-process transport has ended"]


async def test_reordered_and_duplicated_deliveries_have_one_effect_each(database: Database, effects: Effects) -> None:
    transport = make(database, effects, Unreliable(seed=4))
    await emit_defined(database, range(30))
    for _ in range(1000):
        await transport.step()
        if await outbox_is_empty(database):
            break
    assert await effects.task_ids() == sorted([*range(30)] * 2)


async def test_a_row_leaves_the_outbox_only_when_its_last_consumer_settled_it(
    database: Database, effects: Effects
) -> None:
    transport = make(database, effects)
    await emit_defined(database, [1])
    assert await transport.step()
    await transport.delete_settled()
    assert not await outbox_is_empty(database), "the second consumer has not had it"
    transport.forget()  # a crash: everything in memory is gone
    while await transport.step():
        pass
    assert await outbox_is_empty(database)
    assert await effects.task_ids() == [1, 1], "one effect per consumer, although one of them saw it twice"
    inbox = await rows(database, "SELECT consumer FROM inbox ORDER BY consumer")
    assert [r["consumer"] for r in inbox] == ["task-brokerage.task-defined", "watchdog.task-defined"]


async def test_a_dropped_message_is_gone(database: Database, effects: Effects) -> None:
    transport = make(database, effects, Dropping())
    await emit_defined(database, [1])
    while await transport.step():
        pass
    assert await outbox_is_empty(database)
    assert await effects.task_ids() == []


async def test_what_is_not_an_event_is_parked(database: Database, effects: Effects) -> None:
    transport = make(database, effects, InOrder())
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO outbox (routing_key, body, producer) VALUES ('task.defined.v1', '{\"task_id\": []}', 'test')"
        )
    while await transport.step():
        pass
    parked = await rows(database, "SELECT consumer, reason FROM parked_messages ORDER BY consumer")
    assert [r["consumer"] for r in parked] == ["task-brokerage.task-defined", "watchdog.task-defined"]
    assert "task_id" in parked[0]["reason"]
    assert await outbox_is_empty(database)
