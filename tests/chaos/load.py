"""Steady work for a running system: tasks whose jobs need no input, pilots that take them, and how fast files end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from deploy.local.system import LocalSystem
from services.cli.addresses import RUN_FILE_VARIABLE
from services.cli.demo.stage import addresses_of
from services.cli.tokens import issue
from tests.performance.bench_latency import load_grid, task_without_input

ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.5
TASK_JOBS = 60
# jobs whose results were counted: what comes after the last service has done its part
_COUNTED = """
SELECT (SELECT count(*) FROM jobs WHERE task_id = ANY($1) AND status = 'finished' AND results_applied_at IS NOT NULL)
     + (SELECT count(*) FROM jobs_archive WHERE task_id = ANY($1) AND status = 'finished')
"""


class Load:
    """Tasks that are submitted as fast as their jobs end, and a look at what became of them. `copy`: the replica of
    task_definition that is asked."""

    def __init__(
        self, system: LocalSystem, database: asyncpg.Connection, http: httpx.AsyncClient, *, copy: int
    ) -> None:
        self._database, self._http = database, http
        self._url = system.urls["task-definition"][copy] + "/api/v1/task/submit"
        self.task_ids: list[int] = []
        self.n_jobs = 0
        self._samples: list[tuple[float, int]] = []

    async def keep(self, n_ahead: int) -> None:
        """Submit so much that `n_ahead` jobs are not counted yet."""
        while self.n_jobs - await self.look() < n_ahead:
            task = task_without_input(f"user.benchmark.{uuid.uuid4().hex[:12]}", n_jobs=TASK_JOBS)
            answer = (await self._http.post(self._url, json={"task_parameters": task})).json()
            assert answer["success"], answer
            self.task_ids.append(int(answer["data"]))
            self.n_jobs += TASK_JOBS

    async def look(self) -> int:
        """Note how many jobs are counted by now."""
        counted = int(await self._database.fetchval(_COUNTED, self.task_ids))
        self._samples.append((time.monotonic(), counted))
        return counted

    def rate(self, over_s: float) -> float:
        """Counted jobs per second in the last `over_s` seconds."""
        last_at, last = self._samples[-1]
        before = [(at, counted) for at, counted in self._samples if at <= last_at - over_s]
        first_at, first = before[-1] if before else self._samples[0]
        return (last - first) / max(last_at - first_at, POLL_S)

    async def standing(self) -> dict[str, int]:
        """The tasks by their status."""
        rows: Sequence[Any] = await self._database.fetch(
            "SELECT status, count(*) AS n FROM tasks WHERE task_id = ANY($1) GROUP BY status", self.task_ids
        )
        return {row["status"]: row["n"] for row in rows}


@asynccontextmanager
async def load_on(system: LocalSystem, *, copy: int) -> AsyncIterator[Load]:
    """The example grid, and a load for the length of a block."""
    token = issue(addresses_of(system), "benchmark", ["operator"])
    database = await asyncpg.connect(system.environment["ORRERY_DATABASE_URL"])
    try:
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60) as http:
            await load_grid(system, http)
            yield Load(system, database, http, copy=copy)
    finally:
        await database.close()


@contextmanager
def pilots(system: LocalSystem, *, count: int, payload_s: float) -> Iterator[None]:
    """Simulated pilots for the length of a block, with payloads of about so many seconds that never fail."""
    command = [sys.executable, "-m", "services.cli", "pilots", "--count", str(count), "--json"]
    command += ["--speed-up", "1000", "--event-s", str(1000.0 * payload_s), "--walltime-s", str(1000.0 * payload_s)]
    command += [part for kind in ("payload", "memory", "stage_out") for part in ("--failure", f"{kind}=0")]
    variables = {RUN_FILE_VARIABLE: str(system.directory / "run.json")}
    with subprocess.Popen(command, env=os.environ | variables, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
