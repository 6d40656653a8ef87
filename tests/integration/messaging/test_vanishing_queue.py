"""A queue is deleted with the messages that wait in it: it is made again, and the sweep says again what was lost."""

from __future__ import annotations

import asyncio

import aio_pika
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.handlers import Watchdog
from shared.cache import NullCache
from shared.config.parameters import Parameters
from shared.db import Database, UnitOfWork
from shared.events import TaskDefined
from shared.snapshot import KnownGrid
from tests import rows
from tests.integration.messaging.bus import (
    DEFINED_QUEUE,
    Effects,
    emit_defined,
    eventually,
    outbox_is_empty,
    raw_channel,
    running,
    topology,
)

N_TASKS, PREFETCH = 120, 4
_FORWARD = """
UPDATE tasks SET status = 'ready', nucleus = 'N', state_change_time = orrery_now()
 WHERE task_id = $1 AND status = 'assigning' RETURNING task_id
"""


async def waiting_in(url: str, queue: str) -> int:
    """Messages that nobody has taken."""
    async with raw_channel(url) as channel:
        found = await channel.declare_queue(queue, passive=True)
        return found.declaration_result.message_count or 0


async def is_consumed(url: str, queue: str) -> bool:
    """Whether the queue is there and somebody takes from it."""
    async with raw_channel(url) as channel:
        try:
            found = await channel.declare_queue(queue, passive=True)
        except aio_pika.exceptions.ChannelNotFoundEntity:
            return False
        return (found.declaration_result.consumer_count or 0) > 0


async def sweep(database: Database) -> None:
    """As the watchdog does: a slice in each transaction until nothing is left."""
    swept = Counter("swept", "", ["kind"], registry=CollectorRegistry())
    watchdog, more = Watchdog(Parameters(), KnownGrid(NullCache()), swept), True
    while more:
        async with database.begin(reason="periodic sweep") as work:
            more = bool(await watchdog.sweep_tasks(work))


async def test_tasks_whose_messages_vanished_with_their_queue_go_on_and_each_once(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects
) -> None:
    async with database.read() as connection:
        tasks = [await rows.task(connection, status="assigning") for _ in range(N_TASKS)]
        await rows.change(
            connection, "UPDATE tasks SET state_change_time = orrery_now() - interval '2 minutes', vo = 'atlas'"
        )
    taken, go_on = asyncio.Event(), asyncio.Event()

    async def choose_nucleus(event: TaskDefined, work: UnitOfWork) -> None:
        taken.set()
        await go_on.wait()
        if await work.connection.fetchval(_FORWARD, event.task_id) is not None:
            await effects.on_task_defined(event, work)

    queue = topology(namespace).queue_of(DEFINED_QUEUE)
    work = [(TaskDefined, choose_nucleus)]
    async with running(rabbitmq_url, database, namespace, work, prefetch=PREFETCH):
        for task_id in tasks:
            await emit_defined(database, [task_id])
        await taken.wait()
        await eventually(lambda: outbox_is_empty(database))  # the broker has confirmed them: nobody sends them again
        assert await waiting_in(rabbitmq_url, queue) > 0
        async with raw_channel(rabbitmq_url) as channel:
            await channel.queue_delete(queue)
        go_on.set()

        await eventually(lambda: is_consumed(rabbitmq_url, queue))
        async with database.read() as connection:
            left = await connection.fetchval("SELECT count(*) FROM tasks WHERE status = 'assigning'")
        assert left > 0, "what waited in the queue is lost"
        await sweep(database)
        assert await effects.reach(N_TASKS) == tasks
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM tasks WHERE status = 'assigning'") == 0
