"""Acquire over HTTP with a million queued jobs, beside a bare handler and the database's own limit of the same run.

Half of the jobs are at one hot queue; 50 shares, 48 shapes, 64 acquires in flight; claims are durable; the load
generator, the server and PostgreSQL share the machine. `python -m tests.performance.bench_acquire [JOBS] [SECONDS]`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import asyncpg

from services.job_dispatch.acquire.sessions import PLAN_SETTINGS, REASON, ClaimLine, run_claim
from shared.auth import Authority
from shared.db.codecs import prepare_connection
from tests import servers
from tests.performance import http_load, processor_time
from tests.performance.acquire_world import HOT_QUEUE, N_QUEUES, fill, job_rows
from tests.performance.arrivals import arriving
from tests.performance.figures import rate
from tests.performance.sizes import sized

ROOT = Path(__file__).resolve().parents[2]
N_JOBS, SECONDS, IN_FLIGHT = sized(1_000_000, 20_000), sized(10.0, 1.0), 64
ARRIVALS_PER_S = 2_000
WARM_UP_S = sized(1.0, 0.3)
N_CLAIMED_MEANWHILE = sized(200_000, 2_000)  # while an old snapshot is held
PATH = "/api/v1/pilot/acquire_jobs"


async def claim_limit(url: str, numbers: Iterator[int], seconds: float, most: int | None = None) -> float:
    """Claims per second of the statement alone: two sessions, 32 jobs each time, ids known beforehand."""
    settings = {**PLAN_SETTINGS, "orrery.actor": "bench", "orrery.reason": REASON}
    ends_at = time.perf_counter() + seconds
    numbers = numbers if most is None else islice(numbers, most)

    async def session(name: str) -> int:
        connection = await asyncpg.connect(url, server_settings=settings)
        await prepare_connection(connection)
        n_claimed = 0
        while most is not None or time.perf_counter() < ends_at:
            rows = [next(iter(job_rows(one, one + 1))) for one, _ in zip(islice(numbers, 32), range(32), strict=False)]
            if not rows:
                break
            wanted = [ClaimLine(f"{name}-{row[0]}", row[0], row[8], row[10], row[3], row[4], "bench") for row in rows]
            n_claimed += sum(one.job_id is not None for one in await run_claim(connection, "bench", wanted))
        await connection.close()
        return n_claimed

    started = time.perf_counter()
    total = sum(await asyncio.gather(session("a"), session("b")))
    return total / (time.perf_counter() - started)


@contextmanager
def server(kind: str, **environment: str) -> Iterator[tuple[int, int]]:
    """A server process for the length of a block; its id and port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.performance.acquire_server", kind],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.pid, int(process.stdout.readline())
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def request(token: str, queue: str, node: str) -> http_load.LoadRequest:
    """An acquire at a queue."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    body = json.dumps({"site_name": queue, "memory": 4000, "prod_source_label": "managed", "node": node})
    return http_load.post(PATH, headers, body, '"StatusCode":0')


def requests_of(token: str) -> list[http_load.LoadRequest]:
    """64 connections, half of them for the hot queue."""
    others = (f"Q{(number // 2 * 7) % (N_QUEUES - 1):03d}" for number in range(IN_FLIGHT))
    queues = (HOT_QUEUE if number % 2 else other for number, other in enumerate(others))
    return [request(token, queue, f"n{number}") for number, queue in enumerate(queues)]


def first_requests(token: str) -> list[http_load.LoadRequest]:
    """One acquire at every queue."""
    queues = [HOT_QUEUE, *(f"Q{number:03d}" for number in range(N_QUEUES - 1))]
    return [request(token, queue, f"first at {queue}") for queue in queues]


def first_touches(port: int, token: str) -> dict[str, Any]:
    """One acquire at every queue, all at once, of a dispatcher that has read none of them."""
    return http_load.run(port, 0, first_requests(token))


def touches_one_by_one(port: int, token: str) -> tuple[list[float], int]:
    """The same one after another: seconds of each, the longest last, and how many jobs were given."""
    found = [http_load.run(port, 0, [one]) for one in first_requests(token)]
    return sorted(one["p99_s"] for one in found), sum(one["wanted"] for one in found)


def costs(
    url: str, pid: int, port: int, seconds: float, requests: Sequence[http_load.LoadRequest], **others: int
) -> dict[str, Any]:
    """A measurement with what each process of the machine used meanwhile; `others` are processes by name."""
    pids = {"server": [pid], **{name: [one] for name, one in others.items()}}
    before = asyncio.run(processor_time.account(url, **pids))
    found = http_load.run(port, seconds, requests)
    after = asyncio.run(processor_time.account(url, **pids))
    found["spent_s"] = after.since(before) | {"load generator": found["cpu_s"]}
    found["spent_s"]["other processes"] -= found["cpu_s"]
    return found


async def beside_an_old_snapshot(url: str, numbers: Iterator[int], seconds: float) -> tuple[float, float]:
    """The rate of claims before and after many claims, while one transaction sees the state before all of them."""
    holder = await asyncpg.connect(url)
    await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queues")
    before = await claim_limit(url, numbers, seconds)
    await claim_limit(url, numbers, seconds, most=N_CLAIMED_MEANWHILE)
    after = await claim_limit(url, numbers, seconds)
    await holder.close()
    return before, after


async def counted(url: str) -> tuple[int, int, int]:
    """Jobs sent, claims, and different jobs among them."""
    connection = await asyncpg.connect(url)
    sent = await connection.fetchval("SELECT count(*) FROM jobs WHERE status = 'sent'")
    claims = await connection.fetchval("SELECT count(*) FROM job_claims")
    different = await connection.fetchval("SELECT count(DISTINCT job_id) FROM job_claims")
    await connection.close()
    return sent, claims, different


def report(name: str, found: dict[str, Any], limit: float | None = None) -> None:
    print(rate(name, found["per_s"], limit=limit, of="a bare handler"), flush=True)
    print(f"   {'':58} p50 {found['p50_s'] * 1e3:7.1f} ms   p99 {found['p99_s'] * 1e3:7.1f} ms", flush=True)
    print(f"   us of all cores for each: {processor_time.shares_of(found['spent_s'], found['requests'])}", flush=True)


def main(n_jobs: int = N_JOBS, seconds: float = SECONDS) -> int:
    """0 if nothing was given twice."""
    admin = servers.Servers.find().database_url
    template = asyncio.run(servers.ensure_template(admin))
    url = asyncio.run(servers.clone_template(admin, template))
    authority = Authority.generate()
    token = authority.issue("bench", ["pilot"])
    requests = requests_of(token)
    try:
        started = time.perf_counter()
        asyncio.run(fill(url, n_jobs))
        print(f"   {n_jobs:,} jobs in {time.perf_counter() - started:.0f} s", flush=True)
        with server("bare") as (pid, port):
            costs(url, pid, port, WARM_UP_S, requests)
            bare = costs(url, pid, port, seconds / 2, requests)
        report("bare Starlette handler", bare)
        environment = {"ORRERY_DATABASE_URL": url, "ORRERY_TOKEN_KEY": authority.private_pem().decode()}
        with server("dispatch", **environment) as (_, port):
            alone, n_alone = touches_one_by_one(port, token)
        with server("dispatch", **environment) as (pid, port):
            touched = first_touches(port, token)
            first = costs(url, pid, port, 2 * WARM_UP_S, requests)
            found = costs(url, pid, port, seconds, requests)
            with arriving(url, n_jobs + 1, ARRIVALS_PER_S) as arrivals:
                beside = costs(url, pid, port, seconds, requests, arrivals=arrivals.pid)
        report("acquire", found, bare["per_s"])
        report(f"acquire, {arrivals.n_jobs / beside['seconds']:,.0f} arrivals/s beside", beside, bare["per_s"])
        name = f"first touch of {N_QUEUES} queues at once"
        print(f"   {name:58} p99 {touched['p99_s'] * 1e3:7.1f} ms", flush=True)
        name = f"first touch of {N_QUEUES} queues one by one"
        p50, p99 = (alone[int(len(alone) * part)] * 1e3 for part in (0.5, 0.99))
        print(f"   {name:58} p50 {p50:7.1f} ms   p99 {p99:7.1f} ms", flush=True)
        n_granted = n_alone + touched["wanted"] + first["wanted"] + found["wanted"] + beside["wanted"]
        sent, claims, different = asyncio.run(counted(url))
        print(f"   {n_granted:,} jobs granted, {sent:,} sent, {claims:,} claims of {different:,} jobs", flush=True)
        numbers = iter(range(1, n_jobs + 1))  # every job is tried once
        limit, after = asyncio.run(beside_an_old_snapshot(url, numbers, seconds / 4))
        print(rate("claims alone, 2 sessions, 32 at a time", limit), flush=True)
        name = f"the same, an old snapshot held and {N_CLAIMED_MEANWHILE:,} claims"
        print(rate(name, after, limit=limit, of="before"), flush=True)
        return 0 if sent == claims == different and n_granted == sent else 1
    finally:
        asyncio.run(servers.drop_database(admin, url))


if __name__ == "__main__":
    sys.exit(main(*(kind(text) for kind, text in zip((int, float), sys.argv[1:], strict=False))))
