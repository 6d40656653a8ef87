"""The unit of work, leases and partitions on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from shared.db import Database, UnitOfWork, lease
from shared.db.partitions import keep_partitions
from shared.events import TaskDefined
from shared.runtime.metrics import RuntimeMetrics
from shared.runtime.periodic import LEASE_S, PeriodicRunner, RunOutcome
from shared.runtime.service import Periodic
from tests.integration.messaging.bus import eventually


async def _rows(database: Database, query: str, *arguments: object) -> list[asyncpg.Record]:
    async with database.read() as connection:
        return list(await connection.fetch(query, *arguments))


async def test_events_are_written_with_the_change_and_not_without_it(database: Database) -> None:
    woken = []
    database.on_commit.append(lambda: woken.append(True))
    with pytest.raises(RuntimeError):
        async with database.begin(reason="test") as work:
            work.emit(TaskDefined(task_id=1))
            raise RuntimeError("changed my mind")
    assert await _rows(database, "SELECT 1 FROM outbox") == []
    assert woken == []
    async with database.begin(reason="test") as work:
        work.emit(TaskDefined(task_id=2))
    row = (await _rows(database, "SELECT * FROM outbox"))[0]
    event = TaskDefined.model_validate_json(row["body"])
    assert (event.task_id, event.event_id, event.occurred_at) == (2, row["event_id"], work.now)
    assert (row["routing_key"], row["producer"], woken) == ("task.defined.v1", "test", [True])


async def test_events_may_be_written_in_slices_and_all_belong_to_one_transaction(database: Database) -> None:
    woken = []
    database.on_commit.append(lambda: woken.append(True))
    with pytest.raises(RuntimeError):
        async with database.begin(reason="test") as work:
            work.emit(TaskDefined(task_id=1))
            assert await work.flush()
            raise RuntimeError("changed my mind")
    assert await _rows(database, "SELECT 1 FROM outbox") == []
    async with database.begin(reason="test") as work:
        for task_id in (2, 3):
            work.emit(TaskDefined(task_id=task_id))
            await work.flush()
            assert not work.emitted
    rows = await _rows(database, "SELECT body FROM outbox ORDER BY event_id")
    assert [TaskDefined.model_validate_json(row["body"]).task_id for row in rows] == [2, 3]
    assert woken == [True], "the relay is told, although nothing was left to write at the end"


async def test_the_transition_log_knows_actor_reason_and_cause(database: Database) -> None:
    async with database.begin(reason="submitted", cause_event_id=77) as work:
        await work.connection.execute(
            "INSERT INTO tasks (task_id, task_name, user_name, status) VALUES (1, 'a', 'b', 'registered')"
        )
        await work.because("datasets are known")
        await work.connection.execute("UPDATE tasks SET status = 'defined' WHERE task_id = 1")
    log = await _rows(
        database, "SELECT to_status, actor, reason, cause_event_id FROM transition_log ORDER BY to_status"
    )
    assert [tuple(row) for row in log] == [
        ("defined", "test", "datasets are known", 77),
        ("registered", "test", "submitted", 77),
    ]


async def test_a_batch_of_files_is_one_line_of_the_log(database: Database) -> None:
    async with database.begin(reason="test") as work:
        await work.log_files(
            entity="file", task_id=5, ids=[3, 4], from_status="ready", to_status="picked", reason="chunk 1"
        )
        await work.log_files(entity="file", task_id=5, ids=[], from_status="ready", to_status="picked", reason="none")
    log = await _rows(database, "SELECT entity_ids, reason FROM transition_log WHERE entity = 'file'")
    assert [tuple(row) for row in log] == [([3, 4], "chunk 1")]


async def test_a_simulated_clock_is_the_only_clock(database_url: str) -> None:
    then = datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC)
    database = await Database.connect(database_url, actor="simulation", now=lambda: then)
    async with database.begin(reason="test") as work:
        assert work.now == then
        work.emit(TaskDefined(task_id=1))
    assert (await _rows(database, "SELECT created_at FROM outbox"))[0]["created_at"] == then
    await database.close()


async def test_a_holder_that_lost_its_lease_cannot_commit(database: Database) -> None:
    first = await lease.take(database, "sweep", holder="a", duration_s=60)
    assert first is not None
    assert await lease.take(database, "sweep", holder="b", duration_s=60) is None
    await _leases_run_out(database)  # the holder was stopped for too long
    second = await lease.take(database, "sweep", holder="b", duration_s=60)
    assert second is not None and second.term == first.term + 1
    with pytest.raises(lease.LeaseLost, match="term 1 of a is over"):
        async with database.begin(reason="sweep") as work:
            work.emit(TaskDefined(task_id=1))
            await first.fence(work.connection)
    assert await _rows(database, "SELECT 1 FROM outbox") == []


async def test_nobody_takes_a_lease_over_while_its_holder_is_in_a_fenced_transaction(database: Database) -> None:
    held = await lease.take(database, "sweep", holder="a", duration_s=0.01)
    assert held is not None
    async with database.begin(reason="sweep") as work:
        await held.fence(work.connection)
        await asyncio.sleep(0.05)  # its time runs out in the middle of the work
        assert await lease.take(database, "sweep", holder="b", duration_s=60) is None
    assert await lease.take(database, "sweep", holder="b", duration_s=60) is not None


async def test_of_two_replicas_one_does_the_periodic_work(database: Database) -> None:
    done: list[str] = []
    periodic: dict[str, Periodic] = {}

    def work_of(name: str) -> Periodic:
        async def run(work: UnitOfWork) -> None:
            done.append(name)

        return Periodic("sweep", 60.0, run)

    runners = {}
    for name in ("a", "b"):
        periodic[name] = work_of(name)
        runners[name] = PeriodicRunner(
            database, RuntimeMetrics(CollectorRegistry()), service="watchdog", holder=name, jitter=random.Random(1)
        )
    for _ in range(3):
        for name, runner in runners.items():
            assert await runner.run_once(periodic[name], "watchdog.sweep") is RunOutcome.DONE
    assert done == ["a", "a", "a"]
    await runners["a"].stop()
    assert await runners["b"].run_once(periodic["b"], "watchdog.sweep") is RunOutcome.DONE
    assert done[-1] == "b"


async def test_each_partition_of_a_work_has_a_lease_of_its_own(database: Database) -> None:
    done: list[tuple[str, str]] = []

    def runner(holder: str) -> PeriodicRunner:
        metrics = RuntimeMetrics(CollectorRegistry())
        return PeriodicRunner(database, metrics, service="watchdog", holder=holder, jitter=random.Random(1))

    def part(holder: str, partition: str) -> Periodic:
        async def run(work: UnitOfWork) -> None:
            done.append((holder, partition))

        return Periodic("sweep", 60.0, run, partition=partition)

    first, second = runner("a"), runner("b")
    await first.run_once(part("a", "tasks"), "watchdog.sweep")
    for partition in ("tasks", "work"):
        await second.run_once(part("b", partition), "watchdog.sweep")
    await first.run_once(part("a", "work"), "watchdog.sweep")
    assert done == [("a", "tasks"), ("b", "work")]
    await first.stop()
    await second.run_once(part("b", "tasks"), "watchdog.sweep")
    assert done[2:] == [("b", "tasks")], "given back with its partition"


async def test_a_lease_outlives_its_holder_by_seconds_and_not_by_the_period_of_the_work(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work is done once an hour: the replica that lives must not wait for hours."""

    async def run(work: UnitOfWork) -> None:
        pass

    def runner_of(holder: str) -> PeriodicRunner:
        metrics = RuntimeMetrics(CollectorRegistry())
        return PeriodicRunner(database, metrics, service="watchdog", holder=holder, jitter=random.Random(1))

    monkeypatch.setattr("shared.runtime.periodic.RENEW_EVERY_S", 0.01)
    holder = runner_of("a")
    assert await holder.run_once(Periodic("sweep", 3600.0, run), "watchdog.sweep") is RunOutcome.DONE
    left = "SELECT extract(epoch FROM expires_at - orrery_now())::float AS left_s FROM leases"
    assert (await _rows(database, left))[0]["left_s"] <= LEASE_S
    await _leases_run_out(database)
    keeping = asyncio.create_task(holder.keep_leases())

    async def is_prolonged() -> bool:
        return bool((await _rows(database, left))[0]["left_s"] > LEASE_S / 2)

    await eventually(is_prolonged)
    holder.request_stop()
    await keeping
    assert await lease.take(database, "watchdog.sweep", holder="b", duration_s=60) is None
    await _leases_run_out(database)  # it was stopped
    assert await lease.take(database, "watchdog.sweep", holder="b", duration_s=60) is not None
    await lease.renew(database, ["watchdog.sweep"], holder="a", duration_s=60)
    assert (await _rows(database, "SELECT holder, term FROM leases"))[0]["holder"] == "b"


async def _leases_run_out(database: Database) -> None:
    async with database.begin(reason="test") as work:
        await work.connection.execute("UPDATE leases SET expires_at = orrery_now()")


async def test_a_failing_periodic_is_counted_and_changes_nothing(database: Database) -> None:
    registry = CollectorRegistry()
    runner = PeriodicRunner(database, RuntimeMetrics(registry), service="watchdog", holder="a", jitter=random.Random(1))

    async def run(work: UnitOfWork) -> None:
        work.emit(TaskDefined(task_id=1))
        raise ValueError("a bug")

    assert await runner.run_once(Periodic("sweep", 60.0, run), "watchdog.sweep") is RunOutcome.FAILED
    labels = {"service": "watchdog", "periodic": "sweep", "outcome": "failed"}
    assert registry.get_sample_value("orrery_periodic_runs_total", labels) == 1
    assert await _rows(database, "SELECT 1 FROM outbox") == []


async def test_partitions_are_made_ahead_and_moved_into(database: Database, database_url: str) -> None:
    children = "SELECT relname FROM pg_class WHERE relname LIKE 'inbox\\_2%' AND relkind = 'r'"
    today = (await _rows(database, "SELECT (orrery_now() AT TIME ZONE 'UTC')::date AS day"))[0]["day"]
    future = datetime.combine(today + timedelta(days=10), datetime.min.time(), UTC)
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO inbox (event_day, consumer, event_id) VALUES ($1, 'c', 1), ($1, 'c', 2)", future.date()
        )
    later = await Database.connect(database_url, actor="test", now=lambda: future)
    async with later.begin(reason="test") as work:
        made = await keep_partitions(work.connection)
    assert f"inbox_{future:%Y%m%d}" in made
    async with later.begin(reason="test") as work:
        assert await keep_partitions(work.connection) == []
    names = {row["relname"] for row in await _rows(database, children)}
    assert f"inbox_{future + timedelta(days=2):%Y%m%d}" in names
    moved = await _rows(database, f"SELECT count(*) AS n FROM inbox_{future:%Y%m%d}")
    assert moved[0]["n"] == 2
    with pytest.raises(asyncpg.UniqueViolationError):
        async with database.read() as connection:
            await connection.execute(
                "INSERT INTO inbox (event_day, consumer, event_id) VALUES ($1, 'c', 1)", future.date()
            )
    await later.close()
