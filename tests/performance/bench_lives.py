"""Full job lives per second: simulated pilots take jobs, report them running and finished, outputs are registered,
files and datasets counted; one job with each call. Beside it: what the same client gets from a handler that does
nothing, over the same HTTP. `bench_whole` has jobs with input, published pilots, and a hundred jobs with each call.
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
from tests.performance.sizes import sized

ROOT = Path(__file__).resolve().parents[2]
N_TASKS = sized(6, 2)
N_JOBS = sized(1000, 50)  # of each task
N_PILOTS = sized(200, 20)
FROM_FRACTION, TO_FRACTION = 0.15, 0.85
TIMEOUT_S = sized(300.0, 30.0)
STILL_S = 60.0  # work that does not move for so long does not move
QUERY_S = 30.0
BARE_S = sized(4.0, 0.5)
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
_STANDING = """
SELECT 'tasks ' || status AS what, count(*) AS n, min(error_dialog) AS why FROM tasks WHERE task_id = ANY($1)
GROUP BY status
UNION ALL
SELECT 'jobs ' || status, count(*), NULL FROM jobs WHERE task_id = ANY($1) GROUP BY status
ORDER BY what
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
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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


async def lives_per_s(database: asyncpg.Connection, task_ids: list[int]) -> tuple[float, bool]:
    """Finished and counted jobs per second between two fractions of the work, and whether the second was reached.

    Work that stops before is measured up to its last job.
    """
    total = N_TASKS * N_JOBS
    begin = time.perf_counter()
    first = last = (begin, 0)  # the time, and jobs done by then
    while (now := time.perf_counter()) < begin + TIMEOUT_S and now < last[0] + STILL_S:
        done = int(await database.fetchval(_DONE, task_ids, timeout=QUERY_S))
        if done > last[1]:
            last = (now, done)
        if first[1] < FROM_FRACTION * total <= done:
            first = (now, done)
        if done >= TO_FRACTION * total:
            break
        await asyncio.sleep(0.1)
    per_s = (last[1] - first[1]) / max(last[0] - first[0], 1e-3)
    return per_s, last[1] >= TO_FRACTION * total


async def standing(database: asyncpg.Connection, task_ids: list[int]) -> list[str]:
    """Lines that say where the work stands."""
    rows = await database.fetch(_STANDING, task_ids, timeout=QUERY_S)
    return [f"   {row['what']}: {row['n']}{': ' + row['why'] if row['why'] else ''}" for row in rows]


async def measure(system: LocalSystem) -> bool:
    """Print the figure; whether the work came to its end."""
    bare = await bare_requests_per_s()
    token = issue(addresses_of(system), "benchmark", ["operator"])
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as http:
        await load_grid(system, http)
        has_ended, per_s = await lives_one_by_one(system, await submit(system, http))
    calls = 3  # taking it, running, finished
    print(rate("bare handler, the same kind of client", bare))
    print(
        rate(f"full job lives, {N_PILOTS} simulated pilots", per_s, limit=bare / calls, of=f"{calls} bare calls each")
    )
    return has_ended


async def lives_one_by_one(system: LocalSystem, task_ids: list[int]) -> tuple[bool, float]:
    """Whether all lives of jobs with a pilot each ended, and how many did in a second."""
    database = await asyncpg.connect(system.environment["ORRERY_DATABASE_URL"])
    arguments = ["-m", "services.cli", "pilots", "--count", str(N_PILOTS), "--speed-up", "1000000", "--json"]
    arguments += [part for kind in ("payload", "memory", "stage_out") for part in ("--failure", f"{kind}=0")]
    try:
        with program(arguments, **{RUN_FILE_VARIABLE: str(system.directory / "run.json")}) as pilots:
            per_s, ended = await lives_per_s(database, task_ids)
            pilots.send_signal(signal.SIGTERM)
            tally: dict[str, Any] = json.loads(pilots.communicate(timeout=30)[0] or b"{}")
        lines = [] if ended else await standing(database, task_ids)
    finally:
        await database.close()
    print(f"   the pilots: {tally.get('jobs')} jobs by {tally.get('pilots')} pilots")
    if not ended:
        print("   the work stopped before its end:", *lines, sep="\n")
    return ended, per_s


def main() -> int:
    """0 if the work came to its end."""
    with running_system(ROOT / ".local" / "bench" / "system") as system:
        return 0 if asyncio.run(measure(system)) else 1


if __name__ == "__main__":
    sys.exit(main())
