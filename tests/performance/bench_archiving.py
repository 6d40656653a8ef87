"""Acquire beside a million finished jobs that are archived, and beside their archive that is dropped, against neither.

Jobs are archived as job generation does it, at its own pace; then what is left of them without a pause, unmeasured;
then the watchdog's rules drop what is left of their jobs and the archive's day, on a clock that is 400 days later, and
calls are measured until that is done. A few calls are in flight: how long
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
from services.watchdog.retaining import Retaining, RetentionMetrics
from shared.auth import Authority
from shared.config.parameters import Parameters
from shared.db import Database
from tests import servers
from tests.performance import http_load
from tests.performance.acquire_world import HOT_QUEUE, fill
from tests.performance.bench_acquire import request, server
from tests.performance.figures import rate
from tests.performance.sizes import exit_code, sized

N_WAITING = sized(1_000_000, 30_000)
N_FINISHED, SECONDS, WARM_UP_S = sized(1_000_000, 10_000), sized(10.0, 1.0), sized(3.0, 0.3)
#: windows of so many seconds, whose median counts; at most so many while the archive is dropped
N_WINDOWS, MOST_WINDOWS = sized(3, 1), sized(40, 30)
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
        database = await Database.connect(self._url, actor="watchdog", now=self._later)
        retaining = Retaining(Parameters(), RetentionMetrics.of(CollectorRegistry()))
        try:
            while not self.is_dropped:
                async with database.begin(reason="periodic retention") as work:
                    await retaining.drop_old(work)
                self.n_slices += 1
                async with database.read() as connection:
                    self.is_dropped = not await connection.fetchval("SELECT EXISTS (SELECT FROM jobs_archive)")
        finally:
            await database.close()

    def _later(self) -> datetime:
        """400 days later; each slice a second after the one before, so that a round of the rules is soon due again."""
        return datetime.now(UTC) + LATER + timedelta(seconds=self.n_slices)


async def p99_s(
    port: int, requests: list[http_load.LoadRequest], seconds: float, beside: Action, n_windows: int = N_WINDOWS
) -> tuple[float, float]:
    """The median of the windows' 99th percentiles, and calls per second, while something goes on beside them.

    There are so many windows, or fewer where that ends before.
    """
    going_on, found = asyncio.create_task(beside()), []
    try:
        while len(found) < n_windows and not (found and going_on.done()):
            found.append(await asyncio.to_thread(http_load.run, port, seconds, requests))
    finally:
        going_on.cancel()
        await asyncio.wait([going_on])
    if not going_on.cancelled() and (error := going_on.exception()) is not None:
        raise error
    if any(one["wanted"] != one["requests"] for one in found):
        raise SystemExit(f"some calls got no job: {found}")
    by_p99 = sorted(found, key=lambda one: one["p99_s"])[len(found) // 2]
    return by_p99["p99_s"], by_p99["per_s"]


async def compare(url: str, port: int, requests: list[http_load.LoadRequest], seconds: float) -> bool:
    """Print the figures; whether no call got slower than allowed, and all jobs left."""
    leaving = Leaving(url)
    alone_s, alone_per_s = await p99_s(port, requests, seconds, nothing)
    print(rate(f"acquire, {IN_FLIGHT} calls in flight", alone_per_s), f"   p99 {alone_s * 1e3:.1f} ms", flush=True)
    slower = []
    for name, beside, n_windows in (("archived", leaving.archive, N_WINDOWS), ("dropped", leaving.drop, MOST_WINDOWS)):
        found_s, per_s = await p99_s(port, requests, seconds, beside, n_windows)
        told = f"   p99 {found_s * 1e3:.1f} ms, {found_s / alone_s:.2f} times (asked: at most {MOST_SLOWER:g})"
        print(rate(f"the same while finished jobs are {name}", per_s), told, flush=True)
        slower.append(found_s / alone_s)
        if name == "archived":
            print(f"   {leaving.n_archived:,} of {N_FINISHED:,} jobs were archived meanwhile", flush=True)
            begun, n_before = time.perf_counter(), leaving.n_archived
            await leaving.archive(every_s=0)
            n_jobs = leaving.n_archived - n_before
            print(rate("the others, without a pause", n_jobs / (time.perf_counter() - begun)), flush=True)
    said = "the archive was dropped" if leaving.is_dropped else "the archive is not dropped yet"
    print(f"   {said} in {leaving.n_slices} slices of retention", flush=True)
    return max(slower) <= MOST_SLOWER and leaving.is_dropped


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
