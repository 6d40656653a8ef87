"""Ten lives a second: how long a task waits for its first job, a reported job until it is finished.

What collects under load must not make anybody wait who is nearly alone.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg
import httpx
import orjson

from deploy.local.system import LocalSystem
from tests.performance.bench_latency import task_without_input
from tests.performance.field_calls import Job, Kind
from tests.performance.figures import percentile
from tests.performance.sizes import sized
from tests.performance.whole_work import posted

N_LIVES, N_WARM_UP = sized(200, 10), sized(20, 5)
EVERY_S, POLL_S, AGAIN_S, TIMEOUT_S = 0.1, 0.002, 0.02, 20.0
HOST = "127.0.0.1"
_ACTIVATED = "SELECT queue FROM jobs WHERE task_id = $1 AND status = 'activated'"
_FINISHED = """
SELECT 1 FROM jobs WHERE job_id = $1 AND status = 'finished'
UNION ALL SELECT 1 FROM jobs_archive WHERE job_id = $1 AND status = 'finished'
"""


@dataclass
class QuietLives:
    """Runs them, and keeps the seconds of each."""

    system: LocalSystem
    http: httpx.AsyncClient
    database: asyncpg.Pool
    kind: Kind
    activated_s: list[float] = field(default_factory=list)
    finished_s: list[float] = field(default_factory=list)

    async def run(self) -> None:
        """Begin a life every 100 ms, until all have ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(N_LIVES + N_WARM_UP):
                group.create_task(self._life())
                await asyncio.sleep(EVERY_S)
        del self.activated_s[:N_WARM_UP], self.finished_s[:N_WARM_UP]

    async def _life(self) -> None:
        begun = time.perf_counter()
        url = self.system.urls["task-definition"][0] + "/api/v1/task/submit"
        task = task_without_input(f"user.benchmark.{uuid.uuid4().hex[:12]}")
        task_id = await posted(self.http, url, {"task_parameters": task})
        queue = (await self._seen(_ACTIVATED, task_id)).encode()
        self.activated_s.append(time.perf_counter() - begun)
        job = await self._job_at(queue)
        common = (job.job_id, queue, job.attempt)
        for report in (self.kind.starting, self.kind.running):
            await self._called(report.filled(*common))
        begun = time.perf_counter()
        await self._called(self.kind.final.filled(*common, self.kind.outputs(job)))
        await self._seen(_FINISHED, int(job.job_id))
        self.finished_s.append(time.perf_counter() - begun)

    async def _job_at(self, queue: bytes) -> Job:
        """The job that a pilot is given, once the dispatcher knows of it."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                answer = orjson.loads(await self._called(self.kind.get_job.filled(queue, queue, b"user", b"1")))
                if "PandaID" in answer:
                    return Job.of(answer)
                await asyncio.sleep(AGAIN_S)

    async def _seen(self, query: str, number: int) -> str:
        """The first value of a query, as soon as there is one."""
        async with asyncio.timeout(TIMEOUT_S), self.database.acquire() as connection:
            while (found := await connection.fetchval(query, number)) is None:  # noqa: ASYNC110 - not in this process
                await asyncio.sleep(POLL_S)
        return str(found)

    async def _called(self, request: bytes) -> bytes:
        """The body of the answer to a call with a connection of its own, as published pilots make it."""
        port = int(self.system.urls["job-dispatch"][0].rpartition(":")[2])
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
        body = await reader.readexactly(int(length))
        writer.close()
        if not head.startswith(b"HTTP/1.1 200") or not body.startswith((b'{"StatusCode":0', b'{"StatusCode":20')):
            raise RuntimeError(f"a pilot was refused: {head.decode()}{body.decode()[:500]}")
        return body


async def quiet_lives(system: LocalSystem, http: httpx.AsyncClient, token: str) -> tuple[list[float], list[float]]:
    """Seconds from the submission to the first activated job, and from the final report to the finished job."""
    async with asyncpg.create_pool(system.environment["ORRERY_DATABASE_URL"], min_size=4, max_size=40) as database:
        lives = QuietLives(system, http, database, Kind(0, HOST, token))
        await lives.run()
    return lives.activated_s, lives.finished_s


def keeps(seconds: Sequence[float], median_s: float, p99_s: float) -> bool:
    """Whether the median and the 99th percentile are below these."""
    return percentile(seconds, 0.5) < median_s and percentile(seconds, 0.99) < p99_s
