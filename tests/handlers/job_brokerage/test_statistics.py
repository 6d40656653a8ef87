from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from services.job_brokerage.auditing import Auditing
from services.job_brokerage.store.statistics import PUBLISHED_TIMES, QueueStatistics
from shared.cache import NullCache, RedisCache
from shared.db import Database
from shared.events import JobMove, JobsDispatched, JobsFailed, JobsGenerated, JobsStarted, StatisticsChanged
from shared.snapshot import Snapshot, statistics_key
from shared.snapshot.reader import STATISTICS_LIFETIME_S, GridReader
from tests import rows
from tests.handlers.grids import load_grid


def move(from_status: str | None, to_status: str, n_jobs: int, queue: str = "Q_ALPHA") -> JobMove:
    return JobMove(
        task_id=7,
        queue=queue,
        resource_type="SCORE",
        gshare="MC",
        user_name="alice",
        from_status=from_status,
        to_status=to_status,
        n_jobs=n_jobs,
        n_cores=n_jobs,
    )


@pytest.fixture
def statistics() -> QueueStatistics:
    return QueueStatistics(NullCache())


@pytest.fixture
def auditing(statistics: QueueStatistics) -> Auditing:
    return Auditing(statistics, CollectorRegistry())


async def fold(database: Database, statistics: QueueStatistics, event) -> None:
    async with database.begin(reason="test") as work:
        await statistics.on_jobs_moved(event, work)


async def counts(database: Database) -> dict[tuple[str, str], int]:
    async with database.read() as connection:
        found = await connection.fetch(
            "SELECT queue, status, sum(n_jobs) AS n FROM queue_statistics GROUP BY queue, status"
        )
    return {(row["queue"], row["status"]): int(row["n"]) for row in found if row["n"]}


async def test_events_are_folded_in_any_order(database, statistics) -> None:
    await fold(database, statistics, JobsStarted(moves=(move("sent", "running", 2),)))
    await fold(database, statistics, JobsDispatched(moves=(move("activated", "sent", 3),)))
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "activated", 10),)))
    assert await counts(database) == {("Q_ALPHA", "activated"): 7, ("Q_ALPHA", "sent"): 1, ("Q_ALPHA", "running"): 2}


async def test_chunks_whose_jobs_are_counted_are_noted_with_their_jobs(database, statistics) -> None:
    for _ in range(2):
        await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=11, moves=(move(None, "activated", 10),)))
    async with database.read() as connection:
        assert [row[0] for row in await connection.fetch("SELECT chunk_id FROM counted_chunks")] == [11]


async def test_a_chunk_whose_jobs_the_sweep_names_again_is_not_noted_before_they_are_counted(
    database, statistics
) -> None:
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=11, job_ids=(1,)))
    async with database.read() as connection:
        assert await connection.fetch("SELECT chunk_id FROM counted_chunks") == []


async def test_signs_of_life_outcomes_and_waits_are_collected(database, statistics) -> None:
    async with database.read() as connection:
        now = await connection.fetchval("SELECT orrery_now()")
        started = await rows.job(
            connection, 7, queue="Q_ALPHA", status="running", creation_time=now - timedelta(seconds=90), start_time=now
        )
    await fold(database, statistics, JobsDispatched(occurred_at=now, moves=(move("activated", "sent", 3),)))
    await fold(
        database, statistics, JobsStarted(occurred_at=now, job_ids=(started,), moves=(move("sent", "running", 2),))
    )
    await fold(database, statistics, JobsFailed(occurred_at=now, moves=(move("running", "failed", 1),)))
    async with database.read() as connection:
        life = await connection.fetchrow(
            "SELECT last_pilot_at, last_job_start_at FROM queue_activity WHERE queue = 'Q_ALPHA'"
        )
        outcome = await connection.fetchrow("SELECT n_started, n_failed, n_finished, task_id FROM queue_outcomes")
        wait = await connection.fetchrow("SELECT n_jobs, wait_s, wait_squared_s2 FROM queue_waits")
    assert tuple(life) == (now, now)
    assert tuple(outcome) == (2, 1, 0, 7)
    assert tuple(wait) == pytest.approx((1, 90, 8100), abs=1)


async def test_changed_queues_are_published_as_absolute_values_and_announced(database, cache: RedisCache) -> None:
    await load_grid(database)
    statistics, snapshot = QueueStatistics(cache), Snapshot(database, cache)
    await snapshot.check()
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "activated", 10),)))
    for _ in range(PUBLISHED_TIMES):
        async with database.begin(reason="test") as work:
            await statistics.publish(work)
            news = [event for event in work.emitted if isinstance(event, StatisticsChanged)]
        assert [(event.queues, event.chunk_ids) for event in news] == [(("Q_ALPHA",), (1,))]
    async with database.begin(reason="test") as work:
        await statistics.publish(work)
        assert not work.emitted, "what did not change is not published again"
    stamped = await cache.get(statistics_key("Q_ALPHA"))
    assert stamped is not None and stamped.value["jobs"] == [["SCORE", "activated", 10, ""]]
    await snapshot.on_statistics_changed(news[0])
    row = snapshot.world.columns.labels.index("Q_ALPHA/SCORE")
    assert snapshot.world.load["activated"][row] == 10


async def test_without_redis_the_snapshot_reads_the_statistics_from_postgresql(database, statistics) -> None:
    await load_grid(database)
    snapshot = Snapshot(database, NullCache())
    await snapshot.check()
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "activated", 10),)))
    await snapshot.on_statistics_changed(StatisticsChanged(queues=("Q_ALPHA", "Q_UNKNOWN")))
    assert snapshot.world.load["activated"].sum() == 10


async def test_what_redis_has_had_for_too_long_is_read_from_postgresql(database, cache: RedisCache) -> None:
    await load_grid(database)
    statistics, reader = QueueStatistics(cache), GridReader(cache)
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "activated", 10),)))
    async with database.begin(reason="test") as work:
        await statistics.publish(work)
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=2, moves=(move(None, "activated", 5),)))
    key = cache._prefix + statistics_key("Q_ALPHA")
    async with database.read() as connection:
        fresh, _ = await reader.statistics(connection, ["Q_ALPHA"])
        written_us = int(await cache._redis.hget(key, "t"))
        await cache._redis.hset(key, "t", written_us - int(STATISTICS_LIFETIME_S * 1e6))
        stale, _ = await reader.statistics(connection, ["Q_ALPHA"])
    assert [one.n_jobs for one in fresh] == [10] and [one.n_jobs for one in stale] == [15]


async def test_a_lost_announcement_is_made_good_by_the_version(database, statistics) -> None:
    await load_grid(database)
    snapshot = Snapshot(database, NullCache())
    await snapshot.check()
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "activated", 4),)))
    async with database.begin(reason="test") as work:
        await statistics.publish(work)
    await snapshot.check()
    assert snapshot.world.load["activated"].sum() == 4


async def test_an_audit_corrects_what_two_audits_in_a_row_find_different(database, statistics, auditing) -> None:
    async with database.read() as connection:
        for _ in range(3):
            await rows.job(connection, 7, queue="Q_ALPHA", status="activated")
        await rows.job(connection, 7, queue="Q_ALPHA", status="finished")
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "running", 2),)))
    for expected in ({("Q_ALPHA", "running"): 2}, {("Q_ALPHA", "activated"): 3}):
        await audit(database, auditing)
        assert await counts(database) == expected


async def test_an_event_on_its_way_during_an_audit_is_not_counted_twice(database, statistics, auditing) -> None:
    async with database.read() as connection:
        await rows.job(connection, 7, queue="Q_ALPHA", status="activated")
    await audit(database, auditing)
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "activated", 1),)))
    await audit(database, auditing)
    assert await counts(database) == {("Q_ALPHA", "activated"): 1}


async def audit(database: Database, auditing: Auditing, minutes_later: float = 0) -> int:
    """One round; in how many slices."""
    n_slices, more = 0, True
    while more:
        async with database.begin(reason="test") as work:
            later = await work.connection.fetchval(
                "SELECT set_config('orrery.now', (now() + $1)::text, true)::timestamptz",
                timedelta(minutes=minutes_later),
            )
            work.now = later
            more = await auditing.audit(work)
            n_slices += 1
    return n_slices


async def an_event_is_on_its_way(database: Database) -> None:
    """A job became activated, and the statistics were not told yet."""
    async with database.read() as connection:
        await rows.job(connection, 7, queue="Q_ALPHA", status="activated")


async def its_event_comes(database: Database, statistics: QueueStatistics) -> None:
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "activated", 1),)))


async def test_what_a_replica_found_before_another_audited_confirms_nothing(database, statistics, auditing) -> None:
    other = Auditing(QueueStatistics(NullCache()), CollectorRegistry())
    await an_event_is_on_its_way(database)
    await audit(database, auditing)
    await its_event_comes(database, statistics)
    await audit(database, other, minutes_later=3)  # the lease has moved
    await an_event_is_on_its_way(database)
    await audit(database, auditing, minutes_later=6)  # and is back
    assert await counts(database) == {("Q_ALPHA", "activated"): 1}
    await its_event_comes(database, statistics)
    await audit(database, auditing, minutes_later=9)
    assert await counts(database) == {("Q_ALPHA", "activated"): 2}


async def test_what_was_found_more_than_a_period_ago_confirms_nothing(database, statistics, auditing) -> None:
    await an_event_is_on_its_way(database)
    await audit(database, auditing)
    await its_event_comes(database, statistics)
    await an_event_is_on_its_way(database)
    await audit(database, auditing, minutes_later=7)
    assert await counts(database) == {("Q_ALPHA", "activated"): 1}
    await audit(database, auditing, minutes_later=10)
    assert await counts(database) == {("Q_ALPHA", "activated"): 2}, "it is not an event on its way after all"


async def test_two_events_on_their_way_in_two_audits_of_a_busy_row_are_not_counted_twice(
    database, statistics, auditing
) -> None:
    await an_event_is_on_its_way(database)
    await audit(database, auditing)
    await its_event_comes(database, statistics)
    await an_event_is_on_its_way(database)
    await audit(database, auditing, minutes_later=3)
    await its_event_comes(database, statistics)
    assert await counts(database) == {("Q_ALPHA", "activated"): 2}


async def test_an_audit_goes_queue_by_queue_and_corrects_what_two_rounds_find_different(database, statistics) -> None:
    queues = [f"Q{number}" for number in range(7)]
    async with database.read() as connection:
        for queue in queues[:6]:
            await rows.job(connection, 7, queue=queue, status="running")
        await rows.job(connection, 7, queue=None, status="waiting", job_type="jumbo")
    for queue in (*queues[4:], "ZZ"):  # Q4 and Q5 are right, Q6 and ZZ have no jobs
        await fold(database, statistics, JobsStarted(moves=(move("sent", "running", 1, queue),)))
    metrics = CollectorRegistry()
    auditing = Auditing(statistics, metrics, most_jobs=1)
    assert [await audit(database, auditing) for _ in range(3)] == [4, 4, 6], "Q0 to Q3 have no statistics at first"
    running = {queue: n for (queue, status), n in (await counts(database)).items() if status == "running"}
    assert running == dict.fromkeys(queues[:6], 1)
    assert metrics.get_sample_value("orrery_queue_statistics_drift_jobs") == 0


async def test_what_an_audit_found_in_a_transaction_that_was_rolled_back_confirms_nothing(
    database, statistics, auditing
) -> None:
    await an_event_is_on_its_way(database)
    with pytest.raises(ZeroDivisionError):
        async with database.begin(reason="test") as work:
            await auditing.audit(work)
            raise ZeroDivisionError
    await audit(database, auditing)
    assert await counts(database) == {}
    await audit(database, auditing)
    assert await counts(database) == {("Q_ALPHA", "activated"): 1}


async def test_workers_are_counted_and_forgotten(database, statistics) -> None:
    async with database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO workers (harvester_id, worker_id, queue, status) VALUES "
            "('h', 1, 'Q_ALPHA', 'running'), ('h', 2, 'Q_ALPHA', 'submitted'), ('h', 3, 'Q_ALPHA', 'submitted')"
        )
        await statistics.count_workers(work)
        row = await work.connection.fetchrow(
            "SELECT running_workers, submitted_workers, last_pilot_at FROM queue_activity"
        )
        assert tuple(row)[:2] == (1, 2) and row["last_pilot_at"] is not None
        await work.connection.execute("UPDATE workers SET status = 'finished'")
        await statistics.count_workers(work)
        assert await work.connection.fetchval("SELECT running_workers + submitted_workers FROM queue_activity") == 0


async def test_a_worker_that_its_pilot_started_is_counted_until_it_is_finished(database, statistics) -> None:
    async with database.begin(reason="test") as work:
        await work.connection.execute(
            "INSERT INTO workers (harvester_id, worker_id, queue, status) VALUES ('h', 1, 'Q_ALPHA', 'started'),"
            " ('h', 2, 'Q_ALPHA', 'started'), ('h', 3, 'Q_ALPHA', 'finished')"
        )
        await statistics.count_workers(work)
        row = await work.connection.fetchrow("SELECT running_workers, submitted_workers FROM queue_activity")
        assert tuple(row) == (2, 0)
        await work.connection.execute("UPDATE workers SET status = 'finished'")
        await statistics.count_workers(work)
        assert await work.connection.fetchval("SELECT running_workers FROM queue_activity") == 0


async def test_history_is_forgotten_after_four_days(database, statistics) -> None:
    async with database.read() as connection:
        now = await connection.fetchval("SELECT orrery_now()")
    for age in (timedelta(days=5), timedelta(hours=1)):
        await fold(database, statistics, JobsFailed(occurred_at=now - age, moves=(move("running", "failed", 1),)))
    async with database.begin(reason="test") as work:
        await statistics.forget_old(work)
        assert await work.connection.fetchval("SELECT count(*) FROM queue_outcomes") == 1


async def test_replicas_that_fold_the_same_rows_at_once_neither_deadlock_nor_lose_anything(database) -> None:
    replicas = [QueueStatistics(NullCache()) for _ in range(4)]
    names = ["Q_ALPHA", "Q_BETA", "Q_GAMMA"]

    async def fold_many(replica: QueueStatistics, number: int) -> None:
        for turn in range(10):
            order = names[(number + turn) % 3 :] + names[: (number + turn) % 3]
            moves = tuple(move("activated", "running", 1, queue) for queue in order)
            await fold(database, replica, JobsStarted(moves=moves))

    await asyncio.gather(*(fold_many(replica, number) for number, replica in enumerate(replicas)))
    found = await counts(database)
    assert all(found[name, "running"] == 40 and found[name, "activated"] == -40 for name in names)


async def test_the_mean_disk_io_of_running_jobs_is_measured_for_each_core(database, statistics) -> None:
    async with database.read() as connection:
        heavy = await rows.task(connection, disk_io=4000, disk_io_unit="kBPerS")
        light = await rows.task(connection, disk_io=800, disk_io_unit="kBPerS")
        for task_id, status in ((heavy, "running"), (light, "running"), (heavy, "activated")):
            await rows.job(connection, task_id, queue="Q_ALPHA", status=status, core_count=8)
        await connection.execute("INSERT INTO queue_activity (queue) VALUES ('Q_ALPHA'), ('Q_BETA')")

    async def means() -> dict[str, float | None]:
        async with database.read() as connection:
            found = await connection.fetch("SELECT queue, mean_disk_io_kb_s_per_core AS mean FROM queue_activity")
        return {row["queue"]: row["mean"] for row in found}

    async with database.begin(reason="test") as work:
        await statistics.measure_disk_io(work)
    assert await means() == {"Q_ALPHA": (4000 + 800) / 16, "Q_BETA": None}
    async with database.begin(reason="test") as work:
        await work.connection.execute("UPDATE jobs SET status = 'holding' WHERE status = 'running'")
        await statistics.measure_disk_io(work)
    assert await means() == {"Q_ALPHA": None, "Q_BETA": None}


async def test_after_lost_news_only_what_was_published_is_read(database, statistics, context, monkeypatch) -> None:
    await load_grid(database)
    snapshot = Snapshot(database, context.cache)
    await snapshot.check()
    await fold(database, statistics, JobsGenerated(task_id=7, chunk_id=1, moves=(move(None, "activated", 10),)))
    async with database.begin(reason="test") as work:
        await statistics.publish(work)
    asked: list[list[str] | None] = []
    read = snapshot._reader.statistics

    async def noted(connection, queues=None):
        asked.append(queues)
        return await read(connection, queues)

    monkeypatch.setattr(snapshot._reader, "statistics", noted)
    await snapshot.check()
    assert asked == [["Q_ALPHA"]]
    rows_of = snapshot.world.columns.rows_of_queue["Q_ALPHA"]
    assert snapshot.world.load["activated"][rows_of].sum() == 10
    await snapshot.check()
    assert asked == [["Q_ALPHA"]], "nothing was published since"
