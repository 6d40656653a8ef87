"""Due jobs of twelve kinds ended by the watchdog, among a million that may go on: seconds for all, and for a look.

Half of the others run for days, most wait for more than four hours, some have their output moved. A look at which
nothing is due is measured afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from datetime import timedelta

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

N_DUE, N_OTHERS = sized(10_000, 1_200), sized(1_000_000, 4_000)
#: seconds for all that is due, and for one look at which nothing is
TARGET_S, TARGET_OF_A_LOOK_S = 5.0, 0.05
DAY_H = 24.0
#: state, hours in it, hours since creation: each longer than one of its limits
KINDS = (
    ("running", 3.0, 5.0), ("sent", 1.0, 5.0), ("pending", 2.0, 2.0), ("waiting", 1.0, 1.0), ("defined", 5.0, 5.0),
    ("assigned", 13.0, 14.0), ("throttled", 8 * DAY_H, 9 * DAY_H), ("activated", 3 * DAY_H, 3 * DAY_H),
    ("starting", 3 * DAY_H, 3 * DAY_H), ("holding", 3 * DAY_H, 3 * DAY_H), ("transferring", 8 * DAY_H, 9 * DAY_H),
    ("merging", 2 * DAY_H, 22 * DAY_H),
)  # fmt: skip
#: state, part of those that may go on, hours in it
OTHERS = (("running", 0.5, 3 * DAY_H), ("activated", 0.4, 5.0), ("transferring", 0.05, DAY_H), ("starting", 0.05, 1.0))

_JOBS = """
INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
                  resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,
                  heartbeat_at, deadline_at)
SELECT nextval('job_ids'), $1, 1, 1, 100, 1, 1, $2, 'Q' || n % 200, 'SCORE', 'MC', 'user', 'managed', 'normal',
       orrery_now() - make_interval(secs => 3600 * $4::float8), orrery_now() - make_interval(secs => 3600 * $3::float8),
       $6, orrery_now() + $5::interval * (1 + n % 100)
  FROM generate_series(1, $7::int) AS n
"""


async def fill(connection: asyncpg.Connection) -> None:
    """Jobs in their states, with the deadlines that they would have; the way of these rows is not the subject."""
    task_id = await rows.task(connection)
    now = await connection.fetchval("SELECT orrery_now()")
    await connection.execute("SET session_replication_role = replica")
    for status, part, hours in OTHERS:
        heard, later = now - timedelta(minutes=10), timedelta(minutes=1)
        await connection.execute(_JOBS, task_id, status, hours, hours, later, heard, int(N_OTHERS * part))
    for status, hours, since_creation in KINDS:
        due = -timedelta(seconds=1)
        await connection.execute(_JOBS, task_id, status, hours, since_creation, due, None, N_DUE // len(KINDS))
    await connection.execute("RESET session_replication_role")
    await connection.execute("VACUUM ANALYZE jobs")


async def looks(database: Database, expiring: ExpiringJobs) -> list[float]:
    """One whole look: seconds of each of its slices."""
    async with database.read() as connection:
        await connection.execute("UPDATE watch_runs SET last_run_at = last_run_at - interval '61 s'")
    slices, more = list[float](), True
    while more:
        started = time.perf_counter()
        async with database.begin(reason="benchmark") as work:
            more = await expiring.watch_jobs(work)
        slices.append(time.perf_counter() - started)
    return slices


async def measure(url: str, database: Database) -> bool:
    """Whether all that was due ended in time, and a look without anything due cost little."""
    connection = await asyncpg.connect(url)
    async with database.read() as reading:
        await fill(reading)
    await rows.insert_watch_runs(database, await connection.fetchval("SELECT orrery_now() - interval '61 s'"))
    metrics = CollectorRegistry()
    expired = Counter("expired", "", ["rule"], registry=metrics)
    skipped = Counter("skipped", "", ["vo"], registry=metrics)
    parameters = Parameters()
    expiring = ExpiringJobs(parameters, KnownGrid(NullCache()), expired, skipped)
    slices = await looks(database, expiring)
    n_ended = await connection.fetchval("SELECT count(*) FROM jobs WHERE status IN ('failed', 'closed')")
    n_live = await connection.fetchval("SELECT count(*) FROM jobs WHERE deadline_at IS NOT NULL")
    print(rate(f"{n_ended:,} due jobs beside {n_live:,} ended in {sum(slices):.1f} s", n_ended / sum(slices)))
    print(times("one slice, its commit included", slices))
    nothing = [seconds for _ in range(20) for seconds in await looks(database, expiring)]
    print(times("a look with nothing due", nothing))
    await connection.close()
    n_due = N_DUE // len(KINDS) * len(KINDS)
    return n_ended == n_due and sum(slices) <= TARGET_S and sorted(nothing)[10] <= TARGET_OF_A_LOOK_S


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
