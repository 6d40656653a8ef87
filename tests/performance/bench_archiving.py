"""Acquire beside a million finished jobs that are archived, and beside their archive that is dropped, against neither.

Jobs are archived as job generation does it, at its own pace; then what is left of them without a pause, unmeasured;
then the watchdog's rules drop what is left of their jobs, at its pace and then without a pause, and the archive's day,
on a clock that is 400 days later. A few calls are in flight: how long
one takes is asked here, not how many there may be. `python -m tests.performance.bench_archiving [SECONDS]`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from prometheus_client import CollectorRegistry

from services.job_generation.app import ARCHIVE_EVERY_S
from services.job_generation.parameters import kept_for
from services.job_generation.store import jobs as store_jobs
from services.watchdog.policy.retention import RULES, Order
from services.watchdog.retaining import REST_OF_RETENTION, Retaining, RetentionMetrics
from shared.auth import Authority
from shared.config.parameters import Parameters
from shared.db import Database
from tests import servers
from tests.performance import http_load
from tests.performance.acquire_world import HOT_QUEUE, fill
from tests.performance.bench_acquire import request, server
from tests.performance.figures import rate
from tests.performance.sizes import exit_code, sized

N_WAITING = sized(1_000_000, 60_000)
N_FINISHED, SECONDS, WARM_UP_S = sized(1_000_000, 10_000), sized(6.0, 0.5), sized(3.0, 0.3)
#: windows of so many seconds, whose median counts
N_WINDOWS = 3
IN_FLIGHT = 4
MOST_SLOWER = 1.2
LATER = timedelta(days=400)
_FINISHED = """
INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
                  resource_type, gshare, user_name, prod_source_label, job_type, end_time, results_applied_at)
SELECT $1::int + n, n / 1000, 1, 1, 100, 1, 1, 'finished', 'Q001', 'SCORE', 'share01', 'user', 'managed', 'normal',
       now() - interval '1 hour', now() - interval '1 hour'
  FROM generate_series(1, $2::int) AS n
"""
Action = Callable[[], Coroutine[Any, Any, None]]


async def finish(url: str) -> None:
    """Jobs that ended and were counted an hour ago; the way of these rows is not the subject."""
    connection = await asyncpg.connect(url)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(_FINISHED, N_WAITING, N_FINISHED, timeout=600)
    await connection.execute("VACUUM ANALYZE jobs", timeout=600)
    await connection.close()


async def nothing() -> None:
    """What goes on beside the calls that the others are compared with."""
    await asyncio.Event().wait()


class Leaving:
    """How finished jobs leave: to the archive, and out of it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.n_archived = self.n_slices = 0
        self.is_dropped = False

    async def archive(self, every_s: float = ARCHIVE_EVERY_S) -> None:
        """As job generation does it, until none is left."""
        database = await Database.connect(self._url, actor="job-generation")
        limits = kept_for(Parameters())
        try:
            more = True
            while more:
                async with database.begin(reason="periodic archive-jobs") as work:
                    before = work.now - timedelta(seconds=limits.archive_after_s)
                    await store_jobs.archive(work, before, limits.archive_batch)
                async with database.read() as connection:
                    n_left = await connection.fetchval("SELECT count(*) FROM jobs WHERE results_applied_at IS NOT NULL")
                self.n_archived, more = N_FINISHED - n_left, n_left > 0
                await asyncio.sleep(every_s)
        finally:
            await database.close()

    async def drop(self) -> None:
        """As the watchdog does it 400 days later, until the archive is empty."""
        await self._retain(REST_OF_RETENTION, "SELECT NOT EXISTS (SELECT FROM jobs_archive)")
        self.is_dropped = True

    async def judge(self) -> None:
        """What the rules do before the day may go, without a pause: what is left of jobs goes first."""
        rules = [rule.name for rule in RULES if rule.order is Order.JOBS]
        passed = f"SELECT count(*) = {len(rules)} FROM retention_positions WHERE at > now() AND rule = ANY($1)"
        await self._retain(0, passed, rules)

    async def _retain(self, rest: float, is_over: str, *arguments: object) -> None:
        database = await Database.connect(self._url, actor="watchdog", now=self._later)
        retaining = Retaining(Parameters(), RetentionMetrics.of(CollectorRegistry()))
        try:
            while True:
                begun = time.perf_counter()
                async with database.begin(reason="periodic retention") as work:
                    await retaining.drop_old(work)
                self.n_slices += 1
                await asyncio.sleep(rest * (time.perf_counter() - begun))
                async with database.read() as connection:
                    if await connection.fetchval(is_over, *arguments):
                        return
        finally:
            await database.close()

    def _later(self) -> datetime:
        """400 days later; each slice some seconds after the one before, so that a round is soon due again."""
        return datetime.now(UTC) + LATER + timedelta(seconds=3 * self.n_slices)


async def measured(
    port: int, requests: list[http_load.LoadRequest], seconds: float, beside: Action
) -> dict[str, float]:
    """The window with the median 99th percentile, and the longest call of all, while something goes on beside them."""
    going_on = asyncio.create_task(beside())
    try:
        found = [await asyncio.to_thread(http_load.run, port, seconds, requests) for _ in range(N_WINDOWS)]
    finally:
        going_on.cancel()
        await asyncio.wait([going_on])
    if not going_on.cancelled() and (error := going_on.exception()) is not None:
        raise error
    if any(one["wanted"] != one["requests"] for one in found):
        raise SystemExit(f"some calls got no job: {found}")
    median = sorted(found, key=lambda one: one["p99_s"])[len(found) // 2]
    return {**median, "longest_s": max(one["longest_s"] for one in found)}


async def compare(url: str, port: int, requests: list[http_load.LoadRequest], seconds: float) -> bool:
    """Print the figures; whether no call got slower than allowed, and all jobs left."""
    leaving = Leaving(url)
    alone = await measured(port, requests, seconds, nothing)
    print(rate(f"acquire, {IN_FLIGHT} calls in flight", alone["per_s"]), told(alone, alone), flush=True)
    others = []
    for name, beside in (("archived", leaving.archive), ("judged by rules", leaving.drop), ("dropped", leaving.drop)):
        if name == "dropped":
            await leaving.judge()
        others.append(await measured(port, requests, seconds, beside))
        print(rate(f"the same while jobs are {name}", others[-1]["per_s"]), told(others[-1], alone), flush=True)
        if name == "archived":
            print(f"   {leaving.n_archived:,} of {N_FINISHED:,} jobs were archived meanwhile", flush=True)
            begun, n_before = time.perf_counter(), leaving.n_archived
            await leaving.archive(every_s=0)
            n_jobs = leaving.n_archived - n_before
            print(rate("the others, without a pause", n_jobs / (time.perf_counter() - begun)), flush=True)
    said = "was dropped" if leaving.is_dropped else "is not dropped yet"
    print(f"   the archive {said} in {leaving.n_slices:,} slices of retention", flush=True)
    return leaving.is_dropped and all(one["p99_s"] <= MOST_SLOWER * alone["p99_s"] for one in others)


def told(found: dict[str, float], alone: dict[str, float]) -> str:
    """A line of figures beside those of acquire alone."""
    times = found["p99_s"] / alone["p99_s"]
    return (
        f"   p99 {found['p99_s'] * 1e3:.1f} ms, {times:.2f} times (asked: at most {MOST_SLOWER:g}); "
        f"longest {found['longest_s'] * 1e3:.0f} ms"
    )


def main(seconds: float = SECONDS) -> int:
    """0 if pilots do not notice that jobs leave."""
    admin = servers.Servers.find().database_url
    url = asyncio.run(servers.clone_template(admin, asyncio.run(servers.ensure_template(admin))))
    authority = Authority.generate()
    token = authority.issue("bench", ["pilot"])
    requests = [request(token, HOT_QUEUE, f"n{number}") for number in range(IN_FLIGHT)]
    try:
        asyncio.run(fill(url, N_WAITING))
        asyncio.run(finish(url))
        environment = {"ORRERY_DATABASE_URL": url, "ORRERY_TOKEN_KEY": authority.private_pem().decode()}
        with server("dispatch", **environment) as (_, port):
            http_load.run(port, WARM_UP_S, requests)
            return exit_code(asyncio.run(compare(url, port, requests, seconds)))
    finally:
        asyncio.run(servers.drop_database(admin, url))


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:2])))
