"""Several events in one transaction, over a real RabbitMQ: what is bad has its own outcome, the rest lands."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

import aio_pika
import pytest

from shared.db import Database, UnitOfWork
from shared.events import JobsFinished, TaskDefined
from shared.messaging.dispatcher import Dispatcher
from shared.messaging.failures import Permanent, Transient
from shared.messaging.subscription import Delivery, DeliveryOutcome
from tests.integration.messaging.bus import (
    FINISHED_QUEUE,
    Effects,
    eventually,
    make_transport,
    raw_channel,
    rows,
    running,
    topology,
)

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KNOWN, PERMANENT, TRANSIENT, BUG = 5, 13, 14, 15
GOOD = [*range(20, 60)]


class Jobs:
    """A handler that writes a row for each job; `batches` are the jobs of each call that was committed."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, ...]] = []

    async def on_jobs_finished(self, event: JobsFinished, work: UnitOfWork) -> None:
        query = "INSERT INTO effects SELECT $1, unnest($2::bigint[])"
        await work.connection.execute(query, event.event_id, list(event.job_ids))
        if PERMANENT in event.job_ids:
            raise Permanent("job 13 is nobody's")
        if TRANSIENT in event.job_ids:
            raise Transient("the catalogue is away", retry_after_s=3600)
        if BUG in event.job_ids:
            raise KeyError("queue")
        work.after_commit(lambda: self.batches.append(event.job_ids))


@pytest.fixture
def jobs(effects: Effects) -> Jobs:
    return Jobs()


def event_of(job_id: int) -> JobsFinished:
    """The event has the number of its job."""
    return JobsFinished(event_id=job_id, occurred_at=AT, job_ids=(job_id,))


async def publish(url: str, namespace: str, messages: list[tuple[bytes, str]]) -> None:
    """Bodies, each with what its publisher called it, into the queue."""
    async with raw_channel(url) as channel:
        for body, kind in messages:
            message = aio_pika.Message(body, type=kind, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, topology(namespace).queue_of(FINISHED_QUEUE))


def message(job_id: int) -> tuple[bytes, str]:
    return event_of(job_id).model_dump_json().encode(), "jobs.finished.v1"


async def test_what_is_bad_in_a_batch_has_its_own_outcome_and_the_rest_lands(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects, jobs: Jobs
) -> None:
    async with running(rabbitmq_url, database, namespace, [(JobsFinished, jobs.on_jobs_finished)]):
        await publish(rabbitmq_url, namespace, [message(KNOWN)])
        await effects.reach(1)
    foreign = TaskDefined(event_id=77, occurred_at=AT, task_id=1).model_dump_json().encode()
    bad = [(b'{"event_id": 1, "job_', "jobs.finished.v1"), (foreign, "task.defined.v1")]
    bad += [message(KNOWN), message(PERMANENT), message(TRANSIENT), message(BUG), message(GOOD[0])]
    await publish(rabbitmq_url, namespace, [*map(message, GOOD[:20]), *bad, *map(message, GOOD[20:])])
    work = [(JobsFinished, jobs.on_jobs_finished)]
    async with running(rabbitmq_url, database, namespace, work, drains_dead_queue=True) as (_, dispatcher):

        async def all_settled() -> bool:
            await dispatcher.deliver_due()  # the bug is tried again until it is parked
            return len(await rows(database, "SELECT 1 FROM parked_messages")) == 4

        assert await effects.reach(1 + len(GOOD)) == [KNOWN, *GOOD]
        await eventually(all_settled)
    assert await effects.task_ids() == [KNOWN, *GOOD], "each landed once"
    parked = {row["event_id"]: row["reason"] for row in await rows(database, "SELECT * FROM parked_messages")}
    assert parked[PERMANENT] == "job 13 is nobody's" and "failed 3 times: KeyError" in parked[BUG]
    assert any("Invalid JSON" in reason for reason in parked.values()) and "another event" in parked[77]
    deferred = await rows(database, "SELECT event_id, reason, attempts FROM deferred_messages")
    assert [tuple(row) for row in deferred] == [(TRANSIENT, "the catalogue is away", 1)]


async def test_a_batch_is_one_transaction_whose_log_names_the_first_cause_and_the_number(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects, jobs: Jobs
) -> None:
    _, dispatcher = make_transport(rabbitmq_url, database, namespace, [(JobsFinished, jobs.on_jobs_finished)])
    assert await handle(dispatcher, KNOWN) == [DeliveryOutcome.HANDLED]
    said: list[tuple[str, str]] = []

    async def listen(event: JobsFinished, work: UnitOfWork) -> None:
        query = "SELECT current_setting('orrery.reason'), current_setting('orrery.cause')"
        said.append(tuple(await work.connection.fetchrow(query)))
        await jobs.on_jobs_finished(event, work)

    _, listening = make_transport(rabbitmq_url, database, namespace, [(JobsFinished, listen)])
    outcomes = await handle(listening, KNOWN, 42, 41, 42, 43)
    handled, known = DeliveryOutcome.HANDLED, DeliveryOutcome.DUPLICATE
    assert outcomes == [known, handled, handled, known, handled]
    assert said == [("jobs.finished.v1, first of 3 events", "41")]
    assert jobs.batches == [(KNOWN,), (41, 42, 43)], "what is known is left out before the rest is merged"
    assert len(await rows(database, "SELECT 1 FROM inbox")) == 4


async def test_a_batch_of_events_that_are_all_known_calls_no_handler(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects, jobs: Jobs
) -> None:
    _, dispatcher = make_transport(rabbitmq_url, database, namespace, [(JobsFinished, jobs.on_jobs_finished)])
    await handle(dispatcher, 41, 42)
    assert await handle(dispatcher, 42, 41) == [DeliveryOutcome.DUPLICATE] * 2
    assert jobs.batches == [(41, 42)]


async def test_a_batch_that_fails_leaves_nothing_behind(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects, jobs: Jobs,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    _, dispatcher = make_transport(rabbitmq_url, database, namespace, [(JobsFinished, jobs.on_jobs_finished)])
    with caplog.at_level(logging.WARNING):
        assert await handle(dispatcher, 41, PERMANENT, 42) is None
    assert "3 events failed together and are tried alone: job 13 is nobody's" in caplog.text
    assert await effects.task_ids() == [] and await rows(database, "SELECT 1 FROM inbox") == []
    assert await rows(database, "SELECT 1 FROM parked_messages") == []


async def test_messages_that_were_not_begun_at_the_end_go_back_to_the_queue(
    database: Database, rabbitmq_url: str, namespace: str, effects: Effects, jobs: Jobs
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(event: JobsFinished, work: UnitOfWork) -> None:
        begun.set()
        await go_on.wait()
        await jobs.on_jobs_finished(event, work)

    await publish(rabbitmq_url, namespace, [*map(message, GOOD)])
    transport, _ = make_transport(rabbitmq_url, database, namespace, [(JobsFinished, wait)])
    await transport.start()
    await begun.wait()
    stopping = asyncio.create_task(transport.stop(30.0))
    await asyncio.sleep(0)
    go_on.set()
    await stopping
    first = await effects.task_ids()
    assert 0 < len(first) <= len(GOOD), "what was begun is done"
    async with running(rabbitmq_url, database, namespace, [(JobsFinished, jobs.on_jobs_finished)]):
        assert await effects.reach(len(GOOD)) == GOOD


async def handle(dispatcher: Dispatcher, *job_ids: int) -> list[DeliveryOutcome] | None:
    """The outcome of events that are handled together."""
    received = [
        dispatcher.received(Delivery(FINISHED_QUEUE, "jobs.finished.v1", message(job_id)[0])) for job_id in job_ids
    ]
    return await dispatcher.deliver_together([one for one in received if one is not None])
