"""Whoever waits for something that a service could not do is told."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from services.task_definition.tasks.explaining import Explanation
from shared.auth import Caller
from shared.cache import NullCache
from shared.db import Database, UnitOfWork
from shared.events import JobsFinished, TaskDefined
from shared.events.base import Event
from shared.messaging import ledger
from shared.messaging.dispatcher import Dispatcher
from shared.messaging.failure_records import RetryPolicy
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.subscription import Deferred, Delivery, DeliveryOutcome, WorkSubscription
from shared.snapshot import KnownGrid
from tests import rows

OPERATOR = Caller("operations", frozenset({"operator"}), frozenset())


async def overflow(event: Event, work: UnitOfWork) -> None:
    raise OverflowError("date value out of range")


async def fail(database: Database, event: Event, *, attempts: int) -> DeliveryOutcome:
    """What becomes of a message whose handler raises."""
    subscription = WorkSubscription("job-generation", type(event), overflow)
    dispatcher = Dispatcher(
        database,
        {subscription.consumer: subscription},
        MessagingMetrics(CollectorRegistry()),
        retry=RetryPolicy(tries=3),
    )
    async with database.begin(reason="test") as work:
        stamped = event.model_copy(update={"event_id": 77, "occurred_at": work.now})
    body = stamped.model_dump_json().encode()
    deferred = Deferred(77, attempts) if attempts else None
    return await dispatcher.deliver(Delivery(subscription.consumer, event.routing_key(), body, deferred))


async def explained(database: Database, task_id: int) -> tuple[str, dict[str, Any]]:
    async with database.read() as connection:
        found = await Explanation(KnownGrid(NullCache())).task(connection, task_id, OPERATOR)
    assert found is not None
    return found["text"], found["task"]


@pytest.fixture
async def connection(database: Database) -> Any:
    async with database.read() as connection:
        yield connection


async def test_explain_shows_what_a_handler_raised_and_when_it_is_tried_again(
    database: Database, connection: asyncpg.Connection
) -> None:
    task, other = [await rows.task(connection, status="defined") for _ in range(2)]
    assert await fail(database, TaskDefined(task_id=task), attempts=0) is DeliveryOutcome.DEFERRED
    text, _ = await explained(database, task)
    assert "job-generation.task-defined could not handle a message about it: OverflowError: date value" in text
    assert "(try 2 at " in text
    assert "could not handle" not in (await explained(database, other))[0]


async def test_the_owner_is_told_when_a_message_is_put_aside_even_if_the_task_cannot_wait(
    database: Database, connection: asyncpg.Connection
) -> None:
    task = await rows.task(connection, status="aborting")
    assert await fail(database, TaskDefined(task_id=task), attempts=2) is DeliveryOutcome.PARKED
    text, facts = await explained(database, task)
    assert facts["status"] == "aborting"
    assert "failed 3 times: OverflowError: date value out of range" in facts["error_dialog"]
    assert "put aside at " in text


async def test_the_owners_of_all_jobs_of_a_message_are_told_but_not_those_of_tasks_that_ended(
    database: Database, connection: asyncpg.Connection
) -> None:
    first, second, ended = [await rows.task(connection, status=status) for status in ("running", "running", "finished")]
    jobs = [await rows.job(connection, task, status="finished") for task in (first, second, ended)]
    assert await fail(database, JobsFinished(job_ids=tuple(jobs)), attempts=2) is DeliveryOutcome.PARKED
    for task in (first, second):
        text, facts = await explained(database, task)
        assert "OverflowError" in facts["error_dialog"] and "OverflowError" in text
        assert facts["status"] == "running", "nothing that still works is held back"
    assert (await explained(database, ended))[1]["error_dialog"] is None
    [parked] = await ledger.parked(connection)
    async with database.begin(reason="test") as work:
        await ledger.replay(work.connection, [parked.parked_id], by="operator")
