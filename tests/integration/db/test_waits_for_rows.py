"""Rows are not waited for: whoever meets a held row gives its session back soon, says what it waited for, and comes
again; the database ends a transaction whose process does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient
from prometheus_client import CollectorRegistry

from shared.db import Database, UnitOfWork
from shared.db.unit_of_work import InboxKey
from shared.db.waits import LONG_S, LockWaits, RowHeld, SessionsBusy
from shared.events import TaskDefined
from shared.messaging.dispatcher import Dispatcher
from shared.messaging.failure_records import RetryPolicy
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.subscription import Delivery, DeliveryOutcome, WorkSubscription
from shared.web.answers import answer_errors
from tests import rows
from tests.integration.messaging.bus import eventually

LOCK = "SELECT task_id FROM tasks WHERE task_id = 7 FOR UPDATE"
OCCURRED = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def holder(database_url: str) -> AsyncIterator[Database]:
    other = await Database.connect(database_url, actor="job-generation", max_size=2, idle_in_transaction_s=5)
    yield other
    await other.close()


@pytest.fixture
async def task(database: Database) -> None:
    async with database.begin(reason="test") as work:
        await rows.task(work.connection, task_id=7)


@asynccontextmanager
async def row_held(holder: Database) -> AsyncIterator[None]:
    """Another process holds the row of task 7 and does nothing."""
    async with holder.begin(reason="frozen") as work:
        await work.connection.fetchval(LOCK)
        yield


async def lock(database: Database, *inbox: InboxKey) -> None:
    async with database.begin(reason="test", inbox=inbox) as work:
        await work.connection.fetchval(LOCK)


async def test_whoever_waits_for_a_held_row_is_told_which_row_and_which_process_holds_it(
    database: Database, holder: Database, task: None
) -> None:
    async with row_held(holder):
        results = await asyncio.gather(*(lock(database) for _ in range(4)), return_exceptions=True)
    assert all(isinstance(one, RowHeld) for one in results), results
    for one in results:
        assert "waits for the row of task 7, held by orrery job-generation, process" in str(one)
        assert "which does nothing" in str(one)


async def test_the_database_ends_a_transaction_that_does_nothing_and_its_row_is_free(
    database: Database, holder: Database, task: None
) -> None:
    held, ended = asyncio.Event(), asyncio.Event()

    async def frozen() -> None:
        async with row_held(holder):
            held.set()
            await ended.wait()

    async def no_session_idles_in_a_transaction() -> bool:
        async with database.read() as connection:
            return not await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND state LIKE 'idle in transaction%' AND application_name LIKE 'orrery job-generation,%'"
            )

    stopped = asyncio.create_task(frozen())
    await held.wait()
    assert not await no_session_idles_in_a_transaction()
    await eventually(no_session_idles_in_a_transaction)
    await lock(database)
    ended.set()
    (error,) = await asyncio.gather(stopped, return_exceptions=True)
    assert isinstance(error, Exception), "what the frozen process did must not be committed"


async def test_messages_that_wait_for_a_row_leave_sessions_to_reads_to_callers_and_to_the_relay(
    database: Database, holder: Database, task: None
) -> None:
    async with row_held(holder):
        waiting = [
            asyncio.create_task(lock(database, InboxKey("job-generation.jobs-finished", number, OCCURRED)))
            for number in range(1, 30)
        ]
        async with database.read() as connection:

            async def some_wait() -> bool:
                waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                return bool(await connection.fetchval(f"{waits} AND datname = current_database()"))

            await eventually(some_wait)
            async with database.begin(reason="a caller") as work, database.transaction() as relay:
                assert await work.connection.fetchval("SELECT 1") == 1
                assert await relay.fetchval("SELECT 1") == 1
                assert not any(one.done() for one in waiting), "it did not take the wait's end to get a session"
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_message_whose_row_is_held_comes_again_and_is_not_counted_as_failed(
    database: Database, holder: Database, task: None
) -> None:
    handled: list[int] = []

    async def on_task_defined(event: TaskDefined, work: UnitOfWork) -> None:
        await work.connection.fetchval(LOCK)
        handled.append(event.task_id)

    subscription = WorkSubscription("task-brokerage", TaskDefined, on_task_defined)
    retry = RetryPolicy(tries=1, first_wait_s=0.0)
    metrics = MessagingMetrics(CollectorRegistry())
    dispatcher = Dispatcher(database, {subscription.consumer: subscription}, metrics, retry=retry)
    body = TaskDefined(task_id=7, event_id=900, occurred_at=OCCURRED).model_dump_json().encode()
    async with row_held(holder):
        assert (
            await dispatcher.deliver(Delivery(subscription.consumer, "task.defined.v1", body))
            is DeliveryOutcome.DEFERRED
        )
        async with database.read() as connection:
            row = await connection.fetchrow("SELECT attempts, waits, reason FROM deferred_messages")
        assert row is not None
        assert (row["attempts"], row["waits"]) == (0, 1)
        assert "waits for the row of task 7" in row["reason"]
        assert await dispatcher.deliver_due() == 1
        assert dispatcher.gate.is_open, "PostgreSQL answers: nobody may say that it does not"
    assert await dispatcher.deliver_due() == 1
    assert handled == [7]
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM deferred_messages") == 0
        assert await connection.fetchval("SELECT count(*) FROM parked_messages") == 0


async def test_a_caller_whose_row_is_held_hears_what_it_waited_for_and_when_to_come_again(
    database: Database, holder: Database, task: None
) -> None:
    web = FastAPI()
    answer_errors(web)

    @web.post("/kill")
    async def kill() -> None:
        await lock(database)

    async with row_held(holder), AsyncClient(transport=ASGITransport(web), base_url="http://test") as client:
        answer = await client.post("/kill")
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert "waits for the row of task 7, held by orrery job-generation" in answer.json()["message"]
    assert "PostgreSQL does not answer" not in answer.json()["message"]


async def test_who_finds_all_sessions_in_use_is_told_so_and_not_that_postgresql_is_away(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = await Database.connect(database_url, actor="test", max_size=2)
    try:
        async with small.begin(reason="first"), small.read():
            pass  # the sessions are there: a busy machine takes longer to open one than the time-outs below
        monkeypatch.setattr("shared.db.database.ACQUIRE_TIMEOUT_S", 0.05)
        monkeypatch.setattr("shared.db.places.ACQUIRE_TIMEOUT_S", 0.05)
        async with small.begin(reason="busy"):
            with pytest.raises(SessionsBusy, match="all 2 sessions for transactions have been in use"):
                await lock(small)
            async with small.read():
                with pytest.raises(SessionsBusy, match="all 1 sessions of the pool"):
                    async with small.read():
                        pass
    finally:
        await small.close()


@pytest.mark.parametrize(("waits", "seconds"), [(0, 1.0), (1, 2.0), (3, 8.0), (4, 15.0), (60, 15.0)])
def test_a_message_waits_twice_as_long_each_time_up_to_a_quarter_of_a_minute(waits: int, seconds: float) -> None:
    assert RetryPolicy().wait_s(waits) == seconds


def test_the_log_tells_once_of_a_transaction_that_holds_others_up_for_long_and_of_no_moment(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waits = LockWaits(lambda: (_ for _ in ()).throw(AssertionError("nothing is read")))  # type: ignore[arg-type]
    short = {"waiting": 1, "session": 71, "held_s": LONG_S - 1}
    long = {"waiting": 2, "session": 72, "held_s": LONG_S + 1}
    waits._texts = {1: "waits for a row, held for a moment", 2: "waits for the row of task 7, held by a frozen service"}
    with caplog.at_level("INFO", logger="shared.db.waits"):
        for _ in range(3):
            waits._log([short, long, {**long, "waiting": 2}])
        waits._log([])
        waits._log([long])
    assert caplog.messages == ["waits for the row of task 7, held by a frozen service"] * 2
