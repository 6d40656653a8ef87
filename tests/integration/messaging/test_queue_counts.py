"""What waits in queues of the bus is noted, and since when, for those who look at the system."""

from __future__ import annotations

import asyncio

import pytest

from services.watchdog.store import condition
from shared.db import Database
from shared.events import TaskDefined
from shared.messaging import rabbitmq
from tests.integration.messaging.bus import DEFINED_QUEUE, Effects, emit_defined, eventually, running

N_TASKS, WAITING, PREFETCH = 600, 9, 1


async def noted(database: Database) -> dict[str, dict[str, object]]:
    async with database.read() as connection:
        rows = await condition.rows(connection, "bus_queues", at_most=condition.MOST_QUEUES)
    return {row["consumer"]: row for row in rows}


async def test_what_waits_is_noted_with_its_consumers_and_not_any_more_when_all_is_done(
    rabbitmq_url: str, database: Database, namespace: str, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(rabbitmq, "COUNT_EVERY", 1)
    held = asyncio.Event()

    async def hold(event: object) -> None:
        await held.wait()

    effects.before = hold
    async with running(rabbitmq_url, database, namespace, [(TaskDefined, effects.on_task_defined)], prefetch=PREFETCH):
        await emit_defined(database, range(1, N_TASKS))

        async def is_waiting() -> bool:
            row = (await noted(database)).get(DEFINED_QUEUE)
            return row is not None and row["n_waiting"] >= WAITING

        await eventually(is_waiting)
        row = (await noted(database))[DEFINED_QUEUE]
        assert row["n_consumers"] == 1 and row["waiting_since"] is not None
        held.set()

        async def is_empty() -> bool:
            row = (await noted(database))[DEFINED_QUEUE]
            return row["n_waiting"] == 0 and row["waiting_since"] is None

        await eventually(is_empty)
