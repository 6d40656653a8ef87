"""From one transaction to another over a real RabbitMQ."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aiormq.exceptions import PublishError

from shared.db import Database, UnitOfWork
from shared.events import ConfigChanged, TaskDefined, TaskReady
from shared.messaging.failures import Permanent, Transient
from tests.integration.messaging.bus import (
    DEFINED_QUEUE,
    Effects,
    emit_defined,
    eventually,
    outbox_is_empty,
    raw_channel,
    rows,
    running,
    topology,
)


async def test_an_event_reaches_its_handler_and_leaves_the_outbox(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]):
        await emit_defined(database, range(1, 101))
        assert await effects.reach(100) == list(range(1, 101))
        await eventually(lambda: outbox_is_empty(database))
    inbox = await rows(database, "SELECT consumer, count(*) AS n FROM inbox GROUP BY consumer")
    assert [(r["consumer"], r["n"]) for r in inbox] == [(DEFINED_QUEUE, 100)]


async def test_a_message_delivered_twice_has_one_effect(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]):
        async with database.begin(reason="test") as work:
            work.emit(TaskDefined(task_id=7))
            row_before_commit = work.now
        await effects.reach(1)
        event_id = (await rows(database, "SELECT event_id FROM inbox"))[0]["event_id"]
        again = TaskDefined(event_id=event_id, occurred_at=row_before_commit, task_id=7)
        async with raw_channel(rabbitmq_url) as channel:
            exchange = await channel.get_exchange(topology(namespace).events_exchange)
            for _ in range(20):
                await exchange.publish(aio_pika.Message(again.model_dump_json().encode()), "task.defined.v1")
        await emit_defined(database, [8])
        assert await effects.reach(2) == [7, 8]


async def test_two_replicas_share_the_work_and_both_hear_the_news(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    heard: list[str] = []
    both = asyncio.Event()

    def listener(name: str):
        async def on_config_changed(event: ConfigChanged) -> None:
            heard.append(name)
            if len(heard) == 2:
                both.set()

        return on_config_changed

    work = [(TaskDefined, effects.on_task_defined)]
    first = running(rabbitmq_url, database, namespace, work, [(ConfigChanged, listener("first"))])
    second = running(rabbitmq_url, database, namespace, work, [(ConfigChanged, listener("second"))])
    async with first, second:
        await emit_defined(database, range(50))
        async with database.begin(reason="test") as unit:
            unit.emit(ConfigChanged(config_version=2))
        assert await effects.reach(50) == list(range(50))
        await asyncio.wait_for(both.wait(), 60)
    assert sorted(heard) == ["first", "second"]


async def test_a_rolled_back_handler_leaves_neither_effect_nor_inbox_row(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    async def fail(event: TaskDefined) -> None:
        if event.task_id == 13:
            raise Transient("the catalogue is not there", retry_after_s=3600)

    effects.after = fail
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]):
        await emit_defined(database, [12, 13, 14])
        assert await effects.reach(2) == [12, 14]
        await eventually(lambda: _count(database, "deferred_messages", 1))
    assert len(await rows(database, "SELECT 1 FROM inbox")) == 2
    deferred = (await rows(database, "SELECT consumer, reason, attempts FROM deferred_messages"))[0]
    assert (deferred["consumer"], deferred["reason"]) == (DEFINED_QUEUE, "the catalogue is not there")


async def test_a_deferred_event_is_handled_when_its_time_comes(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    async def fail_once(event: TaskDefined) -> None:
        if effects.calls == 1:
            raise Transient("not yet", retry_after_s=0.0)

    effects.before = fail_once
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]) as (_, dispatcher):
        await emit_defined(database, [5])
        await eventually(lambda: _count(database, "deferred_messages", 1))
        assert await dispatcher.deliver_due() == 1
        assert await effects.task_ids() == [5]
    assert await _count(database, "deferred_messages", 0)


async def test_a_permanent_failure_is_parked_with_its_reason_and_can_be_replayed(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    from shared.messaging import ledger

    await _insert_task(database, 21, "assigning")

    async def fail(event: TaskDefined) -> None:
        if effects.calls == 1:
            raise Permanent("no nucleus has that name")

    effects.before = fail
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]) as (_, dispatcher):
        await emit_defined(database, [21])
        await eventually(lambda: _count(database, "parked_messages", 1))
        async with database.read() as connection:
            parked = await ledger.parked(connection)
        assert (parked[0].reason, parked[0].task_id) == ("no nucleus has that name", 21)
        task = (await rows(database, "SELECT status, old_status, error_dialog FROM tasks WHERE task_id = 21"))[0]
        assert tuple(task) == ("pending", "assigning", "no nucleus has that name")
        async with database.begin(reason="replay") as work:
            assert await ledger.replay(work.connection, [parked[0].parked_id], by="operator") == [parked[0].parked_id]
        assert await dispatcher.deliver_due() == 1
        assert await effects.task_ids() == [21]
    async with database.read() as connection:
        assert await ledger.parked(connection) == []


async def test_a_handler_with_a_bug_is_tried_three_times_and_then_parked_while_the_rest_flows(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    async def bug(event: TaskDefined) -> None:
        if event.task_id == 3:
            raise KeyError("nucleus")

    effects.before = bug
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)]) as (_, dispatcher):
        await emit_defined(database, [1, 2, 3, 4, 5])
        assert await effects.reach(4) == [1, 2, 4, 5]

        async def parked() -> bool:
            await dispatcher.deliver_due()
            return await _count(database, "parked_messages", 1)

        await eventually(parked)
    assert effects.calls == 4 + 3
    assert (await rows(database, "SELECT reason FROM parked_messages"))[0]["reason"] == (
        "failed 3 times: KeyError: 'nucleus'"
    )
    assert await _count(database, "deferred_messages", 0)


async def test_no_more_handlers_run_at_once_than_the_prefetch_allows(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    at_once, most = 0, 0
    as_many_as_allowed = asyncio.Event()

    async def count(event: TaskDefined) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once == 4:
            as_many_as_allowed.set()
        await as_many_as_allowed.wait()
        await asyncio.sleep(0.01)  # a fifth has time to come
        at_once -= 1

    effects.before = count
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)], prefetch=4):
        await emit_defined(database, range(60))
        await effects.reach(60)
    assert most == 4


async def test_a_chain_of_handlers_carries_an_event_through_two_services(
    database: Database, rabbitmq_url: str, namespace: str
) -> None:
    async def on_task_defined(event: TaskDefined, work: UnitOfWork) -> None:
        work.emit(TaskReady(task_id=event.task_id, nucleus="CERN"))

    async with running(rabbitmq_url, database, namespace, [(TaskDefined, on_task_defined)]):
        await emit_defined(database, [9])
        async with raw_channel(rabbitmq_url) as channel:
            queue = await channel.get_queue(topology(namespace).queue_of("job-generation.task-ready"))

            async def arrived() -> bool:
                message = await queue.get(fail=False, no_ack=True)
                if message is not None:
                    ready = TaskReady.model_validate_json(message.body)
                    assert (ready.task_id, ready.nucleus) == (9, "CERN")
                    assert message.type == "task.ready.v1"
                    assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
                return message is not None

            await eventually(arrived)


async def test_an_unroutable_publish_is_an_error_and_the_row_stays(
    database: Database, rabbitmq_url: str, namespace: str
) -> None:
    async with running(rabbitmq_url, database, namespace, []) as (transport, _):
        await eventually(lambda: outbox_is_empty(database))
        for task in transport._tasks:
            task.cancel()
        await asyncio.gather(*transport._tasks, return_exceptions=True)
        async with database.read() as connection:
            await connection.execute(
                "INSERT INTO outbox (routing_key, body, producer) VALUES ('task.unheard_of.v9', '{}', 'test')"
            )
        with pytest.raises(PublishError):
            await transport.relay.publish_once()
        assert await _count(database, "outbox", 1)
        assert await transport.relay.publish_once() == 0, "it is left alone for a while: no hot loop"


async def test_news_without_listeners_is_no_error(database: Database, rabbitmq_url: str, namespace: str) -> None:
    async with running(rabbitmq_url, database, namespace, []) as (transport, _):
        async with database.begin(reason="test") as work:
            work.emit(ConfigChanged(config_version=3))
        await eventually(lambda: outbox_is_empty(database))
        assert transport.problems() == []


async def _count(database: Database, table: str, expected: int) -> bool:
    return (await rows(database, f"SELECT count(*) AS n FROM {table}"))[0]["n"] == expected


async def _insert_task(database: Database, task_id: int, status: str) -> None:
    async with database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO tasks (task_id, task_name, user_name, status) VALUES ($1, $2, 'user', 'registered')",
            task_id,
            f"task{task_id}",
        )
        for step in ("defined", status):
            await work.connection.execute("UPDATE tasks SET status = $2 WHERE task_id = $1", task_id, step)
