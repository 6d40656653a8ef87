"""Full job lives per second: simulated pilots take jobs, report them running and finished, outputs are registered,
files and datasets counted. Beside it: what the same client gets from a handler that does nothing, over the same HTTP.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import httpx

from deploy.local.system import LocalSystem, running_system
from services.cli.addresses import RUN_FILE_VARIABLE
from services.cli.demo.stage import addresses_of
from services.cli.tokens import issue
from tests.performance.bench_latency import load_grid, task_without_input
from tests.performance.figures import rate

ROOT = Path(__file__).resolve().parents[2]
N_TASKS = 6
N_JOBS = 1000  # of each task
N_PILOTS = 200
FROM_FRACTION, TO_FRACTION = 0.15, 0.85
TIMEOUT_S = 300.0
BARE_S = 4.0
BARE_IN_FLIGHT = 64

_BARE = """
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

async def nothing(request: Request) -> JSONResponse:
    await request.json()
    return JSONResponse({"success": True, "message": "", "data": {"StatusCode": 0}})

uvicorn.run(Starlette(routes=[Route("/", nothing, methods=["POST"])]), port=PORT, log_level="error", access_log=False)
"""
_DONE = """
SELECT (SELECT count(*) FROM jobs WHERE task_id = ANY($1) AND status = 'finished' AND results_applied_at IS NOT NULL)
     + (SELECT count(*) FROM jobs_archive WHERE task_id = ANY($1) AND status = 'finished')
"""


@contextmanager
def program(arguments: list[str], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program for the length of a block."""
    process = subprocess.Popen(
        [sys.executable, *arguments], env=os.environ | variables, cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(20)


async def bare_requests_per_s() -> float:
    """Requests per second to a handler that parses and answers JSON, and nothing else."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with program(["-c", _BARE.replace("PORT", str(port))]):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=BARE_IN_FLIGHT)) as session:
            url = f"http://127.0.0.1:{port}/"
            await _until_it_answers(session, url)
            count, deadline = 0, time.perf_counter() + BARE_S

            async def ask() -> None:
                nonlocal count
                while time.perf_counter() < deadline:
                    async with session.post(url, json={"job_id": 1, "job_status": "running"}) as answer:
                        await answer.json()
                    count += 1

            await asyncio.gather(*(ask() for _ in range(BARE_IN_FLIGHT)))
            return count / BARE_S


async def _until_it_answers(session: aiohttp.ClientSession, url: str) -> None:
    for _ in range(200):
        try:
            async with session.post(url, json={}):
                return
        except aiohttp.ClientError:
            await asyncio.sleep(0.05)
    raise SystemExit("the bare handler does not answer")


async def submit(system: LocalSystem, http: httpx.AsyncClient) -> list[int]:
    """Tasks whose jobs need no input and no scouts."""
    url = system.urls["task-definition"][0] + "/api/v1/task/submit"
    found = []
    for _ in range(N_TASKS):
        task = task_without_input(f"user.benchmark.{uuid.uuid4().hex[:12]}", n_jobs=N_JOBS)
        answer = (await http.post(url, json={"task_parameters": task})).json()
        if not answer["success"]:
            raise SystemExit(f"a task was refused: {answer}")
        found.append(int(answer["data"]))
    return found


async def lives_per_s(database: asyncpg.Connection, task_ids: list[int]) -> float:
    """Finished and counted jobs per second between two fractions of the work."""
    total = N_TASKS * N_JOBS
    started: tuple[float, int] | None = None
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        now, done = time.perf_counter(), int(await database.fetchval(_DONE, task_ids))
        if started is None and done >= FROM_FRACTION * total:
            started = (now, done)
        if started is not None and done >= TO_FRACTION * total:
            return (done - started[1]) / (now - started[0])
        await asyncio.sleep(0.1)
    raise SystemExit(f"only {done} of {total} jobs are finished after {TIMEOUT_S:.0f} s")


async def measure(system: LocalSystem) -> None:
    """Print the figures."""
    bare = await bare_requests_per_s()
    token = issue(addresses_of(system), "benchmark", ["operator"])
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as http:
        await load_grid(system, http)
        task_ids = await submit(system, http)
    database = await asyncpg.connect(system.environment["ORRERY_DATABASE_URL"])
    arguments = ["-m", "services.cli", "pilots", "--count", str(N_PILOTS), "--speed-up", "1000000", "--json"]
    arguments += [part for kind in ("payload", "memory", "stage_out") for part in ("--failure", f"{kind}=0")]
    try:
        with program(arguments, **{RUN_FILE_VARIABLE: str(system.directory / "run.json")}) as pilots:
            per_s = await lives_per_s(database, task_ids)
            pilots.send_signal(signal.SIGTERM)
            tally: dict[str, Any] = json.loads(pilots.communicate(timeout=30)[0] or b"{}")
    finally:
        await database.close()
    calls = 3  # taking it, running, finished
    print(rate(f"full job lives, {N_PILOTS} simulated pilots", per_s))
    print(rate("bare handler, the same kind of client", bare))
    print(rate(f"requests of these lives ({calls} each)", calls * per_s, limit=bare, of="the bare handler"))
    print(f"   the pilots: {tally.get('jobs')} jobs by {tally.get('pilots')} pilots")


def main() -> None:
    with running_system(ROOT / ".local" / "bench" / "system") as system:
        asyncio.run(measure(system))


if __name__ == "__main__":
    main()
