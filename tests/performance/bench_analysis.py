"""One analysis chunk on a busy grid: event in to event out, with many users, many tasks and four days of history."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from datetime import timedelta
from pathlib import Path

import asyncpg

from services.job_brokerage.app import build
from services.job_brokerage.store.usage import UsageSnapshot
from shared.db.database import Database
from shared.events import ChunkOffered
from shared.model.grid import read_grid_folder
from tests import rows, servers
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.performance.bench_brokerage import TARGET_S, a_context
from tests.performance.figures import percentile, times
from tests.performance.sizes import exit_code, sized

N_USERS, N_TASKS, QUEUES_OF_USER = sized(500, 50), sized(2000, 200), 15
N_LIVE_JOBS, N_DECISIONS = sized(300_000, 5_000), sized(60, 10)
FULL_GRID = Path(__file__).parents[2] / "deploy" / "examples" / "grid_full"
SHARE = "User Analysis"

_STATISTICS = """
INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores)
SELECT q.queue, 'SCORE', $1, 'user' || u, 'demo', s, 1 + (u * 7 + q.place) % 40, 1 + (u * 7 + q.place) % 40
FROM generate_series(1, $2::int) AS u
JOIN (SELECT queue, row_number() OVER (ORDER BY queue) AS place FROM queues) q
  ON (q.place + u * 13) % (SELECT count(*) FROM queues) < $3::int
CROSS JOIN unnest(ARRAY['running', 'activated', 'assigned']) AS s
"""
_OUTCOMES = """
INSERT INTO queue_outcomes (hour, queue, gshare, task_id, n_started, n_finished, n_failed)
SELECT date_trunc('hour', orrery_now()) - make_interval(hours => h), q.queue, $1, 1 + (q.place * 31 + t) % $2::int,
       5, 4, 1
FROM generate_series(0, 24) AS h
CROSS JOIN (SELECT queue, row_number() OVER (ORDER BY queue) AS place FROM queues) q
CROSS JOIN generate_series(1, 40) AS t
"""
_WAITS = """
INSERT INTO queue_waits (hour, queue, gshare, job_type, n_jobs, wait_s, wait_squared_s2)
SELECT date_trunc('hour', orrery_now()) - make_interval(hours => h), queue, $1, kind, 10, 10 * 1800.0,
       10 * 1800.0 ^ 2 * 1.3
FROM generate_series(0, 95) AS h CROSS JOIN queues CROSS JOIN unnest(ARRAY['normal', 'merge']) AS kind
"""
_JOBS = """
INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
                  resource_type, gshare, user_name, prod_source_label, job_type)
SELECT nextval('job_ids'), 1 + n % $2::int, 1, 1, 100, 1, 1, 'activated', q.queue, 'SCORE', $1, 'user' || n % $3::int,
       'user', CASE WHEN n % 500 = 0 THEN 'merge' ELSE 'normal' END
FROM generate_series(1, $4::int) AS n
JOIN (SELECT queue, row_number() OVER (ORDER BY queue) - 1 AS place FROM queues) q
  ON q.place = n % (SELECT count(*) FROM queues)
"""
_TASKS = """
INSERT INTO tasks (task_id, task_name, user_name, status, prod_source_label, current_priority, task_type, vo, gshare,
                   working_group)
SELECT n, 'busy.' || n, 'user' || n % $3::int, 'running', 'user', 100, 'anal', 'demo', $1,
       CASE WHEN n % 10 = 0 THEN 'GROUP' || n % 50 END
FROM generate_series(1, $2::int) AS n
"""


async def fill(connection: asyncpg.Connection) -> None:
    """A busy day of analysis; the way of these rows is not the subject."""
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(_STATISTICS, SHARE, N_USERS, QUEUES_OF_USER)
    await connection.execute(_OUTCOMES, SHARE, N_TASKS)
    await connection.execute(_WAITS, SHARE)
    await connection.execute(_TASKS, SHARE, N_TASKS, N_USERS)
    await connection.execute(_JOBS, SHARE, N_TASKS, N_USERS, N_LIVE_JOBS)
    await connection.execute("SELECT setval('task_ids', $1)", N_TASKS)
    await connection.execute("RESET session_replication_role")
    await connection.execute("ANALYZE")


async def an_offer(connection: asyncpg.Connection, number: int) -> ChunkOffered:
    """A chunk of one of the users, who may run it anywhere."""
    task_id = await rows.task(
        connection,
        user_name=f"user{number % N_USERS}",
        task_type="anal",
        prod_source_label="user",
        gshare=SHARE,
        core_count=1,
        ram_count=1500,
        ram_unit="MB",
        resource_type="SCORE",
        io_intensity=10,
        working_group=f"GROUP{number % 50}" if number % 10 == 0 else None,
    )
    dataset_id = await rows.dataset(connection, task_id)
    held = json.dumps([{"dataset_id": dataset_id, "n_files": 20, "n_bytes": 10**9, "n_events": 20}])
    chunk_id = await rows.chunk(connection, task_id, n_files=20, n_events=20, input_bytes=10**9, inputs=held)
    for _ in range(20):
        await rows.file(connection, task_id, dataset_id, fsize=5 * 10**7, status="picked", chunk_id=chunk_id)
    return ChunkOffered(chunk_id=chunk_id, task_id=task_id)


async def decisions(url: str, database: Database) -> bool:
    """Whether the median stayed within the target; the transaction's commit is part of it."""
    await load_grid(database, read_grid_folder(FULL_GRID))
    connection = await asyncpg.connect(url)
    await fill(connection)
    n_counts, n_outcomes = await connection.fetchrow(
        "SELECT (SELECT count(*) FROM queue_statistics), (SELECT count(*) FROM queue_outcomes)"
    )
    print(f"   {n_counts} counts of {N_USERS} users, {n_outcomes} outcomes of a day, {N_LIVE_JOBS} live jobs")
    offers = [await an_offer(connection, number) for number in range(N_DECISIONS)]
    await connection.close()
    service = await started(build(a_context(database, url)))
    found, outcomes = list[float](), set[str]()
    for offer in offers:
        started_s = time.perf_counter()
        (event,) = await deliver(database, service, offer)
        found.append(time.perf_counter() - started_s)
        outcomes.add(type(event).__name__)
    print(times("one analysis chunk, event in to event out", found) + f"   {', '.join(sorted(outcomes))}")
    print(f"   the first, which reads what all share: {timedelta(seconds=found[0]).total_seconds() * 1000:.0f} ms")
    await usage_read_again(database)
    return percentile(found, 0.5) <= TARGET_S


async def usage_read_again(database: Database) -> None:
    """What all decisions share, after news of one queue and of every queue."""
    usage, one, every = UsageSnapshot(), list[float](), list[float]()
    async with database.read() as connection:
        queues = sorted((await usage.current(connection)).queues)
        for found, changed in ((one, queues[:1]), (every, queues)):
            for _ in range(20):
                usage.mark(changed)
                started_s = time.perf_counter()
                await usage.current(connection)
                found.append(time.perf_counter() - started_s)
    print(times("usage read again after news of one queue", one))
    print(times(f"usage read again after news of all {len(queues)} queues", every))


async def with_a_database() -> bool:
    server = servers.Servers.find().database_url
    url = await servers.clone_template(server, await servers.ensure_template(server))
    database = await Database.connect(url, actor="benchmark")
    try:
        return await decisions(url, database)
    finally:
        await database.close()
        await servers.drop_database(server, url)


def main() -> int:
    """0 if the figure kept its limit."""
    logging.basicConfig(level=logging.WARNING)
    return exit_code(asyncio.run(with_a_database()))


if __name__ == "__main__":
    raise SystemExit(main())
