"""Reads of ended jobs open the partitions of the days that have them, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import date, timedelta
from typing import Any

import asyncpg
import pytest

from services.job_dispatch.store import job_reads
from services.task_definition.tasks.store import explanations, reads
from shared.auth.reach import EVERYTHING
from shared.db.codecs import prepare_connection
from shared.messaging.ledger import _CONCERNED

TODAY = date(2031, 5, 20)
N_DAYS = 30
#: jobs 1000 to 1009 of task 100 are archived on the first day, 1010 to 1019 of task 101 on the next, and so on
PER_DAY = 10

Read = Callable[[asyncpg.Connection], Coroutine[Any, Any, Any]]


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url, server_settings={"lock_timeout": "2s", "timezone": "UTC"})
    await prepare_connection(connection)
    await connection.execute("SELECT ensure_day_partitions('jobs_archive', $1, $2)", TODAY, N_DAYS)
    await connection.execute(
        "INSERT INTO jobs_archive (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number,"
        " status, queue, resource_type, gshare, user_name, prod_source_label, job_type, creation_time,"
        " state_change_time, results_applied_at, archived_at)"
        " SELECT 1000 + n, 100 + n / $2, 1, 1, 0, 1, 1, CASE n % 2 WHEN 0 THEN 'finished' ELSE 'failed' END, 'Q',"
        " 'SCORE', 's', 'u', 'managed', 'normal', now(), now(), now(),"
        " $1::date + (n / $2) * interval '1 day' + interval '23 hours'"
        " FROM generate_series(0, $3 - 1) AS n",
        TODAY, PER_DAY, N_DAYS * PER_DAY,
    )  # fmt: skip
    yield connection
    await connection.close()


@pytest.fixture
async def others_are_locked(connection: asyncpg.Connection, database_url: str) -> AsyncIterator[None]:
    """Nobody may even look at any day but the sixth, which has the jobs 1050 to 1059 of task 105."""
    holder = await asyncpg.connect(database_url)
    days = [TODAY + timedelta(days=number) for number in range(N_DAYS) if number != 5]
    names = ", ".join(f"jobs_archive_{day:%Y%m%d}" for day in days)
    await holder.execute(f"BEGIN; LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
    yield
    await holder.close()


async def states(connection: asyncpg.Connection) -> Any:
    rows = await job_reads.SQL.rows(connection, "job_states", job_ids=[1051, 1056, 7])
    assert [row["status"] for row in rows] == ["failed", "finished", None]


async def listed(connection: asyncpg.Connection, **wanted: Any) -> list[int]:
    names = ("task_id", "status", "queue", "no_queue", "resource_type", "user_name", "job_ids", "before_id",
             "error_source", "error_code", "error_kind", "looked_at")  # fmt: skip
    fields = dict.fromkeys(names) | {"size": 3, "told_only": False, "owner": None, **EVERYTHING._asdict()}
    return [row["job_id"] for row in await job_reads.SQL.rows(connection, "list_jobs", **(fields | wanted))]


async def listed_by_id(connection: asyncpg.Connection) -> Any:
    assert await listed(connection, job_ids=[1051, 1056, 7]) == [1056, 1051]
    assert await listed(connection, job_ids=[1051, 1056], status="failed") == [1051]


async def listed_by_task(connection: asyncpg.Connection) -> Any:
    assert await listed(connection, task_id=105) == [1059, 1058, 1057]
    assert await listed(connection, task_id=105, before_id=1055, status="failed", queue="Q") == [1053, 1051]
    assert await listed(connection, task_id=105, user_name="another") == []


async def counted_by_task(connection: asyncpg.Connection) -> Any:
    rows = await reads.SQL.rows(connection, "jobs_by_task", task_ids=[105])
    assert [tuple(row) for row in rows] == [(105, "failed", 5), (105, "finished", 5)]
    some = await reads.SQL.rows(connection, "some_jobs_by_task", task_ids=[105], statuses=["failed"], at_most=2)
    assert [tuple(row) for row in some] == [(105, "failed", 2), (105, "finished", 2)]


async def ids_of_task(connection: asyncpg.Connection) -> Any:
    rows = await reads.SQL.rows(connection, "job_ids_of_task", task_id=105)
    assert [row["job_id"] for row in rows] == list(range(1050, 1060))


async def jobs_of_task(connection: asyncpg.Connection) -> Any:
    rows = await reads.SQL.rows(connection, "jobs_of_task", task_id=105, statuses=["failed"], at_most=2)
    assert [row["job_id"] for row in rows] == [1059, 1057]


async def explained(connection: asyncpg.Connection) -> Any:
    row = await explanations.SQL.row(connection, "job_facts", job_id=1053)
    assert row is not None and (row["task_id"], row["archived"]) == (105, True)


async def failures(connection: asyncpg.Connection) -> Any:
    (row,) = await explanations.SQL.rows(connection, "failures_of_task", task_id=105, count_to=None)
    assert row["n_jobs"] == 5


async def of_a_message(connection: asyncpg.Connection) -> Any:
    found = await connection.fetchval(_CONCERNED, "c", 1, [], [1053], [])
    assert found == [105]


async def steps_of_jobs(connection: asyncpg.Connection) -> Any:
    assert await connection.fetch("SELECT * FROM transitions_of_jobs(ARRAY[105]::bigint[])") == []


@pytest.mark.parametrize(
    "read",
    [
        states, listed_by_id, listed_by_task, counted_by_task, ids_of_task, jobs_of_task, explained, failures,
        of_a_message, steps_of_jobs,
    ],
    ids=lambda read: read.__name__,
)  # fmt: skip
async def test_ended_jobs_are_read_without_a_look_at_the_partition_of_any_other_day(
    connection: asyncpg.Connection, others_are_locked: None, read: Read
) -> None:
    await read(connection)
    held = await connection.fetchval(
        "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
        " WHERE c.relname LIKE 'jobs_archive_2%' AND c.relkind = 'r' AND l.mode = 'AccessExclusiveLock' AND l.granted"
    )
    assert held == N_DAYS - 1, "nobody could look at another day meanwhile"


async def test_a_read_of_the_whole_archive_would_wait(connection: asyncpg.Connection, others_are_locked: None) -> None:
    with pytest.raises(asyncpg.LockNotAvailableError):
        await connection.fetch("SELECT FROM jobs_archive WHERE job_id = 1051")


async def test_the_plan_of_one_day_has_no_partition_of_another(connection: asyncpg.Connection) -> None:
    condition = await connection.fetchval("SELECT archived_on($1)", TODAY + timedelta(days=5))
    rows = await connection.fetch(f"EXPLAIN SELECT * FROM jobs_archive WHERE job_id = ANY('{{1051}}') AND {condition}")
    plan = "\n".join(row[0] for row in rows)
    assert "jobs_archive_20310525" in plan and plan.count(" on jobs_archive_2031") == 1, plan


async def test_a_day_knows_the_range_of_its_ids_and_widens_it(connection: asyncpg.Connection) -> None:
    row = await connection.fetchrow("SELECT * FROM archive_days WHERE day = $1", TODAY)
    assert row is not None and tuple(row) == (TODAY, 1000, 1009)
    await connection.execute(
        "INSERT INTO jobs_archive SELECT (jsonb_populate_record(a, jsonb_build_object('job_id', 7, 'task_id', 9))).*"
        " FROM jobs_archive a WHERE job_id = 1003"
    )
    row = await connection.fetchrow("SELECT * FROM archive_days WHERE day = $1", TODAY)
    assert row is not None and tuple(row) == (TODAY, 7, 1009)
    assert await connection.fetchval("SELECT task_id FROM archived_jobs(ARRAY[7])") == 9
    assert await connection.fetchval("SELECT job_id FROM archived_jobs_of_tasks(ARRAY[9])") == 7
