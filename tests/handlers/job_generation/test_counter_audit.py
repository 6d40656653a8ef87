"""Counters of datasets and job sets are those of their contents: what differs is found in slices and corrected."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from services.job_generation import auditing
from services.job_generation.auditing import CounterAudit, is_suspect
from services.job_generation.store import audits as store
from services.job_generation.store.audits import DATASETS, ENDED, JOB_SETS
from shared.db import Database
from tests import rows

LARGE = "large"
COUNTERS = "n_files_used, n_files_finished, n_files_failed, n_files_on_hold, n_events_used"


@pytest.fixture
def metrics() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def audit(metrics: CollectorRegistry) -> CounterAudit:
    return CounterAudit(metrics, most_contents=6, most_of_a_part=6)


async def run(database: Database, audit: CounterAudit, kind: str = DATASETS, n_slices: int = 10) -> list[bool]:
    """So many slices; of each, whether the next follows at once."""
    slices = {
        DATASETS: audit.audit_datasets, ENDED: audit.audit_ended_datasets, JOB_SETS: audit.audit_job_sets,
        LARGE: audit.audit_large_datasets,
    }  # fmt: skip
    followed = []
    for _ in range(n_slices):
        async with database.begin(reason="audit") as work:
            followed.append(await slices[kind](work))
    return followed


async def dataset(connection: asyncpg.Connection, task_id: int, statuses: str, **values: object) -> int:
    """A dataset with a file of 10 events in each of these states."""
    kind = str(values.get("type", "input"))
    names = statuses.split()
    values = {"n_files": len(names), "n_files_to_be_used": len(names), **values}
    number = await rows.dataset(connection, task_id, **values)
    for status in names:
        await rows.file(connection, task_id, number, type=kind, status=status, n_events=10)
    return number


async def counters(database: Database, dataset_id: int) -> tuple[int | None, ...]:
    async with database.read() as connection:
        row = await connection.fetchrow(f"SELECT {COUNTERS} FROM task_datasets WHERE dataset_id = $1", dataset_id)
    return tuple(row)


async def test_counters_that_are_not_those_of_the_files_are_corrected_counted_and_told(
    database: Database, audit: CounterAudit, metrics: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        wrong = await dataset(
            connection, task, "ready running finished failed", n_files_used=1, n_files_finished=5, n_events_used=7
        )
        right = await dataset(connection, task, "ready picked", n_files_used=1)
        output = await dataset(connection, task, "prepared ready finished", type="trn_output", n_files_used=9)
        ended = await rows.task(connection, status="done", state_change_time=await days_ago(connection, 2))
        past = await dataset(connection, ended, "finished")
    await run(database, audit)
    assert await counters(database, wrong) == (3, 1, 1, 0, 30)
    assert await counters(database, right) == (1, 0, 0, 0, None)
    assert await counters(database, output) == (2, 1, 0, 1, None)
    assert await counters(database, past) == (0, 0, 0, 0, None), "nothing changes in a task that ended long ago"
    assert metrics.get_sample_value("orrery_counters_corrected_total", {"kind": "datasets"}) == 2
    told = f"dataset {wrong} of task {task} counted [1, 5, 0, 0, 0, 7] and has [3, 1, 1, 0, 0, 30]"
    assert f"{told}: its counters were corrected" in caplog.messages
    async with database.read() as connection:
        assert await connection.fetchval("SELECT array_agg(DISTINCT task_id) FROM dirty_tasks") == [task], "it goes on"


async def days_ago(connection: asyncpg.Connection, days: int) -> object:
    return await connection.fetchval("SELECT orrery_now() - make_interval(days => $1)", days)


async def test_a_slice_ends_at_so_many_files_and_another_replica_goes_on_where_it_ended(
    database: Database, audit: CounterAudit
) -> None:
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        datasets = [await dataset(connection, task, "finished finished finished") for _ in range(5)]
    corrected = []
    for replica in (audit, CounterAudit(CollectorRegistry(), most_contents=6), audit, audit):
        await run(database, replica, n_slices=1)
        corrected.append(sum([await counters(database, one) == (3, 3, 0, 0, None) for one in datasets]))
    assert corrected == [2, 4, 5, 5]


async def test_a_large_dataset_is_counted_in_parts_beside_the_others_and_then_at_one_moment(
    database: Database, audit: CounterAudit
) -> None:
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        large = await dataset(connection, task, "finished " * 15 + "running " * 5, n_files_used=20)
        small = await dataset(connection, task, "finished finished")
    await run(database, audit, n_slices=1)
    assert await counters(database, small) == (2, 2, 0, 0, None), "it is not held up"
    # four parts, the last of which says that it is suspect; that it is counted as a whole is noted, and done
    assert await run(database, audit, LARGE, n_slices=5) == [False, False, True, True, False]
    assert await counters(database, large) == (20, 15, 0, 0, None)


async def test_a_large_dataset_that_moves_is_compared_with_what_it_said_before_and_after(
    database: Database, audit: CounterAudit, metrics: CollectorRegistry
) -> None:
    """A file is counted once, whatever becomes of it: 4 that finish meanwhile explain 4 more, and not 7."""
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        right = await dataset(connection, task, "running " * 10 + "finished " * 5, n_files_used=15, n_files_finished=5)
        wrong = await dataset(connection, task, "running " * 10 + "finished " * 5, n_files_used=15, n_files_finished=2)
    await run(database, audit, n_slices=1)
    for one in (right, wrong):
        await run(database, audit, LARGE, n_slices=1)
        async with database.read() as connection:
            await connection.execute(
                "UPDATE task_files SET status = 'finished' WHERE file_id IN (SELECT file_id FROM task_files"
                " WHERE dataset_id = $1 AND status = 'running' ORDER BY file_id LIMIT 4)", one,
            )  # fmt: skip
            await connection.execute(
                "UPDATE task_datasets SET n_files_finished = n_files_finished + 4 WHERE dataset_id = $1", one
            )
        await run(database, audit, LARGE, n_slices=5)
    assert metrics.get_sample_value("orrery_counters_audited_total", {"kind": "datasets"}) == 2
    assert await counters(database, right) == (15, 9, 0, 0, None)
    assert await counters(database, wrong) == (15, 9, 0, 0, None), "7 finished between 2 and 6: it was suspect"
    assert metrics.get_sample_value("orrery_counters_corrected_total", {"kind": "datasets"}) == 1


async def test_files_that_move_between_two_parts_correct_nothing(
    database: Database, audit: CounterAudit, metrics: CollectorRegistry
) -> None:
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        large = await dataset(connection, task, "picked " * 12, n_files_used=12)
        await run(database, audit, n_slices=1)
        await run(database, audit, LARGE, n_slices=1)
        await rows.change(connection, "UPDATE task_files SET status = 'running'")
    assert await run(database, audit, LARGE, n_slices=2) == [False, False], "each file was counted once: no suspicion"
    assert await counters(database, large) == (12, 0, 0, 0, None)
    assert metrics.get_sample_value("orrery_counters_corrected_total", {"kind": "datasets"}) is None


async def test_a_dataset_that_cannot_be_counted_at_once_is_told_and_given_up(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = CounterAudit(CollectorRegistry(), most_contents=6, most_of_a_part=50, whole_count_s=0.1)
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        large = await dataset(connection, task, "finished " * 9, n_files_used=9)
    await run(database, audit, n_slices=1)
    assert await run(database, audit, LARGE, n_slices=2) == [True, True]
    slow = store.SQL.text("counter_differences").replace("FROM task_files f", "FROM pg_sleep(1), task_files f")
    monkeypatch.setitem(store.SQL._sql, "counter_differences", slow)
    with pytest.raises(TimeoutError):
        await run(database, audit, LARGE, n_slices=1)
    await run(database, audit, LARGE, n_slices=1)
    said = f"dataset {large} of task {task} is too large to be counted at once: its counters said [9, 0, 0]"
    assert f"{said}, and its files are {{'finished': 9}}" in caplog.messages
    async with database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM counter_audit_parts") == 0, "others have their turn"


async def test_slices_without_much_to_count_follow_at_once_and_a_round_begins_every_two_minutes(
    database: Database, audit: CounterAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that ended long ago are not gone through."""
    monkeypatch.setattr(store, "MOST_ROWS", 2)
    monkeypatch.setattr(auditing, "MOST_ROWS", 2)
    async with database.read() as connection:
        ended_at = await days_ago(connection, 2)
        for _ in range(6):
            ended = await rows.task(connection, status="done", state_change_time=ended_at)
            await dataset(connection, ended, "finished")
        tasks = [await rows.task(connection, status="running") for _ in range(4)]
        wrong = await dataset(connection, tasks[2], "finished", n_files_used=1)
    assert await run(database, audit, n_slices=3) == [True, True, False]
    assert await counters(database, wrong) == (1, 1, 0, 0, None)
    async with database.read() as connection:
        await connection.execute("UPDATE task_datasets SET n_files_finished = 7 WHERE dataset_id = $1", wrong)
        assert await run(database, audit) == [False] * 10
        assert await counters(database, wrong) == (1, 7, 0, 0, None)
        await connection.execute("UPDATE counter_audits SET began_at = began_at - interval '2 minutes'")
    await run(database, audit)
    assert await counters(database, wrong) == (1, 1, 0, 0, None)


async def test_datasets_of_tasks_that_ended_are_compared_once_in_the_order_of_their_ends(
    database: Database, audit: CounterAudit, metrics: CollectorRegistry
) -> None:
    async with database.read() as connection:
        hour_ago = await connection.fetchval("SELECT orrery_now() - interval '1 hour'")
        tasks = [await rows.task(connection, status="done", state_change_time=hour_ago) for _ in range(3)]
        datasets = [await dataset(connection, task, "finished " * 4) for task in tasks for _ in range(2)]
    assert await run(database, audit, ENDED, n_slices=7) == [False] * 7
    assert [await counters(database, one) for one in datasets] == [(4, 4, 0, 0, None)] * 6
    await run(database, audit, ENDED)
    assert metrics.get_sample_value("orrery_counters_audited_total", {"kind": "datasets"}) == 6


async def test_a_dataset_that_is_counted_meanwhile_is_waited_for(database: Database, audit: CounterAudit) -> None:
    """Who holds it has finished a file, and commits both; whoever judged by the file alone would count it twice."""
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        number = await dataset(connection, task, "running running", n_files_used=7)
    async with database.begin(reason="test") as other:
        await other.connection.execute("UPDATE task_files SET status = 'finished' WHERE dataset_id = $1", number)
        await other.connection.execute(
            "UPDATE task_datasets SET n_files_used = 2, n_files_finished = 2 WHERE dataset_id = $1", number
        )
        running = asyncio.create_task(run(database, audit, n_slices=1))
        waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        async with database.read() as connection, asyncio.timeout(10):
            while await connection.fetchval(waits) == 0:  # noqa: ASYNC110 -- PostgreSQL tells nobody who waits for a lock
                await asyncio.sleep(0.01)
    await running
    assert await counters(database, number) == (2, 2, 0, 0, None)


async def test_counters_of_a_job_set_are_those_of_its_ranges(
    database: Database, audit: CounterAudit, metrics: CollectorRegistry
) -> None:
    async with database.read() as connection:
        task = await rows.task(connection, status="running")
        values = {"task_id": task, "chunk_id": 1, "status": "open", "kind": "normal", "n_files": 1, "n_consumers": 1}
        values |= {"serials": {}, "queues": []}
        sets = [
            await rows.insert(
                connection, "job_sets", {**values, "n_ranges": n_ranges, "n_merged": n_ranges}, "job_set_id"
            )
            for n_ranges in (5, 0)
        ]
    await run(database, audit, JOB_SETS)
    async with database.read() as connection:
        merged = await connection.fetch("SELECT n_merged FROM job_sets ORDER BY job_set_id")
    assert [row["n_merged"] for row in merged] == [0, 0] and len(sets) == 2
    assert metrics.get_sample_value("orrery_counters_corrected_total", {"kind": "job_sets"}) == 1


def test_parts_are_suspect_when_they_are_not_what_the_counters_say() -> None:
    assert not is_suspect({"finished": 3, "failed": 2, "running": 4, "ready": 5}, [9, 3, 2], [9, 3, 2])
    assert not is_suspect({"finished": 3, "prepared": 1}, [4, 3, 0], [4, 3, 0]), "outputs that are prepared are used"
    assert is_suspect({"finished": 3, "running": 1}, [5, 3, 0], [5, 3, 0])
    assert is_suspect({"finished": 3, "running": 1}, [4, 2, 0], [4, 2, 0])
    assert not is_suspect({"finished": 7, "running": 1}, [9, 5, 0], [8, 8, 0]), "between what was said before and after"
    assert is_suspect({"finished": 9, "running": 1}, [10, 5, 0], [10, 8, 0])
