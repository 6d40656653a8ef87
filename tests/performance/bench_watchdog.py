"""Due jobs ended by the watchdog: seconds for all of them, and the longest transaction that holds their rows.

They lie among many more that may go on; half of those are at a paused queue, older than any that is due.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import asyncpg
from prometheus_client import CollectorRegistry, Counter

from services.watchdog.expiring import ExpiringJobs
from shared.cache import NullCache
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.snapshot import KnownGrid
from tests import rows, servers
from tests.performance.figures import rate, times
from tests.performance.sizes import exit_code, sized

N_DUE, N_OTHERS = sized(10_000, 1_500), sized(200_000, 2_000)
TARGET_S = 5.0

_JOBS = """
INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
                  resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time)
SELECT nextval('job_ids'), $1, 1, 1, 100, 1, 1, 'sent', $2, 'SCORE', 'MC', 'user', 'managed', 'normal', changed, changed
  FROM (SELECT orrery_now() - make_interval(mins => $3::int) - make_interval(secs => n % 60) AS changed
          FROM generate_series(1, $4::int) AS n) times
"""


async def fill(connection: asyncpg.Connection) -> None:
    """Jobs that a pilot asked for; the way of these rows is not the subject."""
    record = {"atlas_site": "S", "status": "paused", "type": "unified"}
    queue = {"queue": "PAUSED", "site": "S", "status": "paused", "type": "unified", "data": record}
    await rows.insert(connection, "queues", queue)
    task_id = await rows.task(connection)
    await connection.execute("SET session_replication_role = replica")
    for name, minutes, n_jobs in (("PAUSED", 600, N_OTHERS // 2), ("Q1", 5, N_OTHERS // 2), ("Q1", 45, N_DUE)):
        await connection.execute(_JOBS, task_id, name, minutes, n_jobs)
    await connection.execute("RESET session_replication_role")
    await connection.execute("ANALYZE")


async def measure(url: str, database: Database) -> bool:
    """Whether all that was due ended in time."""
    connection = await asyncpg.connect(url)
    async with database.read() as reading:
        await fill(reading)
    await rows.insert_watch_runs(database, await connection.fetchval("SELECT orrery_now() - interval '61 s'"))
    metrics = CollectorRegistry()
    expired = Counter("expired", "", ["rule"], registry=metrics)
    skipped = Counter("skipped", "", ["vo"], registry=metrics)
    expiring = ExpiringJobs(Parameters(), KnownGrid(NullCache()), expired, skipped)
    begin, slices, more = time.perf_counter(), list[float](), True
    while more:
        started = time.perf_counter()
        async with database.begin(reason="benchmark") as work:
            more = await expiring.watch_jobs_with_pilots(work)
        slices.append(time.perf_counter() - started)
    seconds = time.perf_counter() - begin
    n_ended = await connection.fetchval("SELECT count(*) FROM jobs WHERE status = 'failed'")
    await connection.close()
    print(rate(f"{n_ended:,} due jobs of {N_DUE + N_OTHERS:,} ended in {seconds:.1f} s", n_ended / seconds))
    print(times("one slice, its commit included", slices))
    return n_ended == N_DUE and seconds <= TARGET_S


async def with_a_database() -> bool:
    server = servers.Servers.find().database_url
    url = await servers.clone_template(server, await servers.ensure_template(server))
    database = await Database.connect(url, actor="watchdog")
    try:
        return await measure(url, database)
    finally:
        await database.close()
        await servers.drop_database(server, url)


def main() -> int:
    """0 if the due jobs ended in time."""
    logging.basicConfig(level=logging.WARNING)
    return exit_code(asyncio.run(with_a_database()))


if __name__ == "__main__":
    sys.exit(main())
