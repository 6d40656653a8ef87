"""Due jobs of twelve kinds ended by the watchdog among a million that may go on, and every action with nothing due.

Half of the others run for days, most wait for more than four hours, some have their output moved. The time of the
database is what it says that it spent on statements, of all actions together; the audits and measurements of other
services are told beside it, a slice of each.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from prometheus_client import CollectorRegistry, Counter

from services.job_brokerage.auditing import Auditing
from services.job_brokerage.store.statistics import QueueStatistics
from services.job_dispatch.lifecycle.balancing import Balancing
from services.job_dispatch.lifecycle.reordering import Reordering
from services.job_dispatch.lifecycle.user_caps import UserCaps
from services.job_generation.auditing import CounterAudit
from services.share_correction.collecting import UsageCollection
from services.watchdog.acting import Action
from services.watchdog.app import actions_of
from services.watchdog.expiring import ExpiringJobs
from services.watchdog.filling import Filling
from services.watchdog.handlers import Watchdog
from services.watchdog.hurrying import Hurrying
from services.watchdog.retaining import Retaining, RetentionMetrics
from services.watchdog.withholding import Withholding
from shared.cache import NullCache
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.snapshot import KnownGrid
from tests import servers
from tests.performance import live_jobs
from tests.performance.figures import rate, times
from tests.performance.sizes import exit_code, sized

#: seconds for all that is due, and of the database for one turn of every action with nothing due
TARGET_S, TARGET_OF_A_TURN_S = 5.0, 0.05
N_TURNS = 10
#: until a session that is idle has told what it spent
TOLD_S = sized(10.5, 1.5)

Work = Callable[[UnitOfWork], Awaitable[Any]]


def actions() -> list[Action]:
    """Those of the service, without a process around them."""
    metrics, parameters, grid = CollectorRegistry(), Parameters(), KnownGrid(NullCache())
    expired, skipped = (
        Counter(name, "", [label], registry=metrics) for name, label in (("expired", "rule"), ("skipped", "vo"))
    )
    return actions_of(
        ExpiringJobs(parameters, grid, expired, skipped),
        Watchdog(parameters, grid, Counter("swept", "", ["kind"], registry=metrics)),
        Withholding(parameters, grid),
        Filling(parameters, grid),
        Hurrying(parameters),
        Retaining(parameters, RetentionMetrics.of(metrics)),
    )


def of_other_services() -> dict[str, Work]:
    """What other services count of live jobs, a slice of each."""
    parameters, statistics = Parameters(), QueueStatistics(NullCache())
    return {
        "audit of statistics": Auditing(statistics, CollectorRegistry()).audit,
        "mean disk IO": statistics.measure_disk_io,
        "balance of priorities": Balancing(Reordering()).look,
        "caps of users and groups": UserCaps(parameters).look,
        "comparison of usage": UsageCollection(KnownGrid(NullCache()), lambda: 86_400.0).compare,
        "audit of counters": CounterAudit(CollectorRegistry()).audit_datasets,
    }


async def slices(database: Database, run: Work) -> list[float]:
    """A whole turn: seconds of each of its slices."""
    found, more = list[float](), True
    while more:
        started = time.perf_counter()
        async with database.begin(reason="benchmark") as work:
            more = bool(await run(work))
        found.append(time.perf_counter() - started)
    return found


async def make_due(connection: asyncpg.Connection) -> None:
    """Every action may have its turn."""
    await connection.execute("UPDATE watch_runs SET last_run_at = last_run_at - interval '61 s' WHERE watch = 'jobs'")
    await connection.execute("DELETE FROM watch_runs WHERE watch <> 'jobs' AND watch NOT LIKE 'sweep %'")


async def spent_ms(connection: asyncpg.Connection) -> float:
    """What the sessions of the database spent on statements until now."""
    await asyncio.sleep(TOLD_S)
    value: float = await connection.fetchval(
        "SELECT active_time FROM pg_stat_database WHERE datname = current_database()"
    )
    return value


async def measure(database: Database, connection: asyncpg.Connection) -> bool:
    """Whether all that was due ended in time, and a turn without anything due cost little."""
    await live_jobs.fill(connection)
    await connection.execute(
        "INSERT INTO watch_runs (watch, last_run_at) VALUES ('jobs', orrery_now() - interval '1 s')"
    )
    declared = actions()
    parts = [part for action in declared for part in action.parts()]
    for part in parts:  # parameters, grid and plans are known afterwards, as they are in a process that runs
        await make_due(connection)
        await slices(database, part.run)
    turns: dict[str, list[float]] = {part.watch: [] for part in parts}
    before = await spent_ms(connection)
    for _ in range(N_TURNS):
        await make_due(connection)
        for part in parts:
            turns[part.watch].append(sum(await slices(database, part.run)))
    per_turn_s = (await spent_ms(connection) - before) / N_TURNS / 1e3
    for name, seconds in turns.items():
        print(times(f"{name} with nothing due, to the commit", seconds))
    print(f"   a turn of all {len(declared)} actions with nothing due: {per_turn_s * 1e3:.1f} ms of the database")
    for name, run in of_other_services().items():
        print(times(f"{name}: a slice", (await slices(database, run))[:50]))
    n_due = await live_jobs.add_due(connection)
    await make_due(connection)
    seconds = await slices(database, parts[0].run)
    n_ended = await connection.fetchval("SELECT count(*) FROM jobs WHERE status IN ('failed', 'closed')")
    n_live = await connection.fetchval("SELECT count(*) FROM jobs WHERE deadline_at IS NOT NULL")
    print(rate(f"{n_ended:,} due jobs beside {n_live:,} ended in {sum(seconds):.1f} s", n_ended / sum(seconds)))
    print(times("one slice of due jobs, to the commit", seconds))
    return n_ended == n_due and sum(seconds) <= TARGET_S and per_turn_s <= TARGET_OF_A_TURN_S


async def with_a_database() -> bool:
    server = servers.Servers.find().database_url
    url = await servers.clone_template(server, await servers.ensure_template(server))
    database = await Database.connect(url, actor="watchdog")
    connection = await asyncpg.connect(url)
    try:
        return await measure(database, connection)
    finally:
        await connection.close()
        await database.close()
        await servers.drop_database(server, url)


def main() -> int:
    """0 if the due jobs ended in time, and nothing due cost little."""
    logging.basicConfig(level=logging.WARNING)
    return exit_code(asyncio.run(with_a_database()))


if __name__ == "__main__":
    sys.exit(main())
