"""Kill of a task of a million jobs while pilots of other tasks report and acquire, beside the same calls before it.

Calls come at a fixed pace, as pilots make them, so that a slow answer does not thin out the calls that follow it.
Durations are measured from the moment a call was due. `python -m tests.performance.bench_commands [JOBS]`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import asyncpg

from shared.auth import Authority
from shared.db.codecs import prepare_connection
from tests import servers
from tests.performance.acquire_world import JOB_COLUMNS
from tests.performance.bench_acquire import server
from tests.performance.figures import percentile, rate, times
from tests.performance.sizes import exit_code, sized

N_JOBS = sized(1_000_000, 5_000)
N_RUNNING = sized(2_000, 200)  # jobs of other tasks that are reported
N_QUEUED = sized(20_000, 500)  # jobs of other tasks that are acquired
REPORTS_PER_S, ACQUIRES_PER_S = 40.0, 20.0
WARM_UP_S, BEFORE_S = sized(5.0, 0.5), sized(20.0, 1.0)
TIMEOUT_S = sized(1500.0, 60.0)
REPORT_P99_S, ACQUIRE_P99_S = 0.2, 0.05
SLICE = 50_000
KILLED, OTHER = 1, 2
_KILL = """
WITH task AS (UPDATE tasks SET status = 'aborting' WHERE task_id = $1)
INSERT INTO command_progress (task_id, command, soft) VALUES ($1, 'kill', false)
"""


@dataclass
class Calls:
    """Seconds from the moment each call was due to its answer, and calls that were refused."""

    reports: list[float] = field(default_factory=list)
    acquires: list[float] = field(default_factory=list)
    n_failed: int = 0


def job_rows(first: int, last: int, task_id: int, status: str, queue: str) -> Iterator[tuple[Any, ...]]:
    for job_id in range(first, last):
        yield (
            job_id, task_id, 1, 1, 100, 1, 1, status, queue, "SCORE", "share", f"user{task_id}", "managed", "normal",
        )  # fmt: skip


async def fill(url: str, n_jobs: int) -> None:
    """The task that will be killed, another one with jobs that run and jobs that wait at another queue."""
    connection = await asyncpg.connect(url)
    await prepare_connection(connection)
    await connection.execute("SET session_replication_role = replica")  # the way of these rows is not the subject
    await connection.execute("INSERT INTO sites (site, state, role) VALUES ('S', 'ACTIVE', 'satellite')")
    await connection.execute(
        "INSERT INTO queues SELECT name, 'S', 'online', 'unified',"
        """ '{"status": "online", "type": "unified", "atlas_site": "S"}' FROM unnest(ARRAY['BIG', 'HOT']) AS name"""
    )
    await connection.execute(
        "INSERT INTO requirement_shapes (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s)"
        " VALUES ('managed', 'SCORE', 1, 1000, 10000, 3600)"
    )
    await connection.execute(
        "INSERT INTO tasks (task_id, task_name, user_name, status, split_rule)"
        " SELECT n, 'task.' || n, 'user' || n, 'running', '{}' FROM generate_series(1, 2) AS n"
    )
    for first in range(1, n_jobs + 1, SLICE):
        rows = job_rows(first, min(first + SLICE, n_jobs + 1), KILLED, "activated", "BIG")
        await connection.copy_records_to_table("jobs", records=rows, columns=JOB_COLUMNS)
    for status, first, last in (
        ("running", n_jobs + 1, n_jobs + N_RUNNING + 1),
        ("activated", n_jobs + N_RUNNING + 1, n_jobs + N_RUNNING + N_QUEUED + 1),
    ):
        rows = job_rows(first, last, OTHER, status, "HOT")
        await connection.copy_records_to_table("jobs", records=rows, columns=JOB_COLUMNS)
        await connection.copy_records_to_table(
            "job_specs",
            columns=("job_id", "task_id", "spec"),
            records=((job_id, OTHER, {"PandaID": job_id, "attemptNr": 1}) for job_id in range(first, last)),
        )
    await connection.execute("ANALYZE jobs, job_specs, tasks")
    await connection.close()


class Pilots:
    """Calls of many pilots at a fixed pace, each on time whatever became of the ones before."""

    def __init__(self, session: aiohttp.ClientSession, url: str, first_running: int) -> None:
        self._session, self._url, self._first_running = session, url, first_running
        self._running: set[asyncio.Task[None]] = set()

    async def call_until(self, over: Callable[[], Awaitable[bool]]) -> Calls:
        """Reports and acquires until `over` says so."""
        calls, ended = Calls(), asyncio.Event()
        loops = [
            asyncio.create_task(self._pace(REPORTS_PER_S, self._report, calls.reports, calls, ended)),
            asyncio.create_task(self._pace(ACQUIRES_PER_S, self._acquire, calls.acquires, calls, ended)),
        ]
        deadline = time.perf_counter() + TIMEOUT_S
        while True:
            if await over() or time.perf_counter() > deadline:
                break
            await asyncio.sleep(0.2)
        ended.set()
        await asyncio.gather(*loops)
        await asyncio.gather(*self._running)
        return calls

    async def _pace(
        self,
        per_s: float,
        call: Callable[[int], Awaitable[bool]],
        into: list[float],
        calls: Calls,
        ended: asyncio.Event,
    ) -> None:
        began, number = time.perf_counter(), 0
        while not ended.is_set():
            due = began + number / per_s
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

            async def one(number: int = number, due: float = due) -> None:
                calls.n_failed += not await call(number)
                into.append(time.perf_counter() - due)

            task = asyncio.create_task(one())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            number += 1

    async def _report(self, number: int) -> bool:
        job_id = self._first_running + number % N_RUNNING
        return await self._post("update_job", {"job_id": job_id, "job_status": "running", "attempt_number": 1})

    async def _acquire(self, number: int) -> bool:
        body = {"site_name": "HOT", "memory": 4000, "prod_source_label": "managed", "node": f"n{number}"}
        return await self._post("acquire_jobs", body)

    async def _post(self, path: str, body: dict[str, Any]) -> bool:
        async with self._session.post(f"{self._url}/api/v1/pilot/{path}", json=body) as answer:
            found = await answer.json(content_type=None)
            return answer.status == 200 and bool(found["success"])


async def measure(url: str, port: int, token: str, n_jobs: int) -> bool:
    """Print the figures; whether the targets were kept."""
    connection = await asyncpg.connect(url)
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=200)
    try:
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            pilots = Pilots(session, f"http://127.0.0.1:{port}", n_jobs + 1)

            def after(seconds: float) -> Callable[[], Awaitable[bool]]:
                ends_at = time.perf_counter() + seconds

                async def over() -> bool:
                    return time.perf_counter() > ends_at

                return over

            async def killed() -> bool:
                return not await connection.fetchval("SELECT count(*) FROM command_progress")

            await pilots.call_until(after(WARM_UP_S))
            before = await pilots.call_until(after(BEFORE_S))
            await connection.execute("SET session_replication_role = replica")
            await connection.execute(_KILL, KILLED)
            began = time.perf_counter()
            during = await pilots.call_until(killed)
            took_s = time.perf_counter() - began
        left = await connection.fetchval(
            "SELECT count(*) FROM jobs WHERE task_id = $1 AND status <> 'cancelled'", KILLED
        )
    finally:
        await connection.close()
    print(times("reports of other tasks, no command", before.reports))
    print(times("reports of other tasks, during the kill", during.reports))
    print(times("acquire, no command", before.acquires))
    print(times("acquire, during the kill", during.acquires))
    print(rate(f"kill of {n_jobs:,} jobs, {took_s:.0f} s", (n_jobs - left) / took_s))
    print(f"   {left} jobs of the killed task are left, {before.n_failed + during.n_failed} calls were refused")
    in_time = percentile(during.reports, 0.99) < REPORT_P99_S and percentile(during.acquires, 0.99) < ACQUIRE_P99_S
    if left or before.n_failed or during.n_failed:
        raise SystemExit("   the kill did not end, or calls were refused")
    return in_time


def main(n_jobs: int = N_JOBS) -> int:
    """0 if both targets were kept."""
    admin = servers.Servers.find().database_url
    template = asyncio.run(servers.ensure_template(admin))
    url = asyncio.run(servers.clone_template(admin, template))
    authority = Authority.generate()
    token = authority.issue("bench", ["pilot", "production", "operator"])
    environment = {"ORRERY_DATABASE_URL": url, "ORRERY_TOKEN_KEY": authority.private_pem().decode()}
    try:
        asyncio.run(fill(url, n_jobs))
        with server("dispatch", **environment) as (_, port):
            return exit_code(asyncio.run(measure(url, port, token, n_jobs)))
    finally:
        asyncio.run(servers.drop_database(admin, url))


if __name__ == "__main__":
    sys.exit(main(*(int(text) for text in sys.argv[1:2])))
