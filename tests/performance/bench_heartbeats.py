"""Heartbeats over HTTP, each of another running job, beside a bare handler and the limit of the database.

All are measured in the same run.

`python -m tests.performance.bench_heartbeats [JOBS] [SECONDS]`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import asyncpg

from services.job_dispatch.store.jobs import SQL
from shared.auth import Authority
from tests import servers
from tests.performance import http_load
from tests.performance.acquire_world import fill
from tests.performance.bench_acquire import costs, report, server
from tests.performance.figures import rate
from tests.performance.sizes import exit_code, sized

N_JOBS, SECONDS, WARM_UP_S = sized(500_000, 5_000), sized(10.0, 1.0), sized(1.0, 0.3)
#: connections, each with a running job of its own: a connection sends one request again and again
IN_FLIGHT = sized(512, 64)
TARGET_PER_S = 5_000
TOGETHER = 200  # what the dispatcher writes in one statement
PATH = "/api/v1/pilot/update_job"
ACQUIRE_PATH = "/api/v1/pilot/acquire_jobs"  # of the bare handler, which answers everything alike


async def start_all(url: str) -> None:
    """Every job runs, and was claimed by the pilot of this benchmark."""
    connection = await asyncpg.connect(url)
    await connection.execute("SET session_replication_role = replica")  # the way of these rows is not the subject
    await connection.execute("UPDATE jobs SET status = 'running', heartbeat_at = now(), start_time = now()")
    await connection.execute(
        "INSERT INTO job_claims (request_key, job_id, subject) SELECT 'claim ' || job_id, job_id, 'bench' FROM jobs"
    )
    await connection.execute("VACUUM ANALYZE jobs")
    await connection.close()


def requests_of(token: str, n_jobs: int, path: str = PATH) -> list[http_load.LoadRequest]:
    """A heartbeat of each of many jobs, far from each other."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    ids = (1 + number * (n_jobs // IN_FLIGHT) for number in range(IN_FLIGHT))
    bodies = ({"job_id": one, "job_status": "running", "attempt_number": 1} for one in ids)
    return [http_load.post(path, headers, json.dumps(body), '"StatusCode":0') for body in bodies]


async def statement_limit(url: str, n_jobs: int, seconds: float) -> float:
    """Heartbeats per second of the statement alone: two sessions, as many at a time as the dispatcher writes."""
    ends_at = time.perf_counter() + seconds

    async def session(number: int) -> int:
        connection = await asyncpg.connect(url)
        n_beats = 0
        while time.perf_counter() < ends_at:
            ids = sorted({1 + (n_beats + one) * 7_919 * 2 % n_jobs // 2 * 2 + number for one in range(TOGETHER)})
            n_beats += await SQL.run(connection, "heartbeats", job_ids=ids, allowed=["running"])
        await connection.close()
        return n_beats

    started = time.perf_counter()
    return sum(await asyncio.gather(session(0), session(1))) / (time.perf_counter() - started)


async def n_alive(url: str, since: Any) -> int:
    """Jobs with a heartbeat since then."""
    connection = await asyncpg.connect(url)
    found = await connection.fetchval("SELECT count(*) FROM jobs WHERE heartbeat_at > $1", since)
    await connection.close()
    return int(found)


async def now(url: str) -> Any:
    """The time of the database."""
    connection = await asyncpg.connect(url)
    found = await connection.fetchval("SELECT clock_timestamp()")
    await connection.close()
    return found


def main(n_jobs: int = N_JOBS, seconds: float = SECONDS) -> int:
    """0 if every heartbeat was believed and stored, and there were enough of them."""
    admin = servers.Servers.find().database_url
    url = asyncio.run(servers.clone_template(admin, asyncio.run(servers.ensure_template(admin))))
    authority = Authority.generate()
    token = authority.issue("bench", ["pilot"])
    try:
        asyncio.run(fill(url, n_jobs))
        asyncio.run(start_all(url))
        with server("bare") as (pid, port):
            bare = costs(url, pid, port, seconds / 2, requests_of(token, n_jobs, ACQUIRE_PATH))
        report("bare Starlette handler", bare)
        environment = {"ORRERY_DATABASE_URL": url, "ORRERY_TOKEN_KEY": authority.private_pem().decode()}
        with server("dispatch", **environment) as (pid, port):
            requests = requests_of(token, n_jobs)
            costs(url, pid, port, WARM_UP_S, requests)
            since = asyncio.run(now(url))
            found = costs(url, pid, port, seconds, requests)
            alive = asyncio.run(n_alive(url, since))
        report(f"heartbeats of {len(requests)} of {n_jobs:,} running jobs", found, bare["per_s"])
        limit = asyncio.run(statement_limit(url, n_jobs, seconds / 4))
        print(rate(f"heartbeats, of the statement alone, {TOGETHER} at a time", found["per_s"], limit=limit, of="it"))
        print(f"   {found['wanted']:,} of {found['requests']:,} were believed; {alive:,} jobs are alive", flush=True)
        believed = found["wanted"] == found["requests"] and alive == len(requests)
        return 0 if believed and exit_code(found["per_s"] >= TARGET_PER_S) == 0 else 1
    finally:
        asyncio.run(servers.drop_database(admin, url))


if __name__ == "__main__":
    sys.exit(main(*(kind(text) for kind, text in zip((int, float), sys.argv[1:], strict=False))))
