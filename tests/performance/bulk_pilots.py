"""Pilots that take, start and end a hundred jobs with each call, as factories do."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import aiohttp
import asyncpg

from services.cli.simulated_pilots import report
from services.cli.simulated_pilots.payload import draw
from services.cli.simulated_pilots.profile import Fault, Profile

TOGETHER = 100  # jobs of one call
N_FACTORIES = 4
_WAITING = "SELECT DISTINCT queue FROM jobs WHERE status = 'activated' ORDER BY queue"
_WELL = Profile(rates=dict.fromkeys(Fault, 0.0))


class BulkPilots:
    """Runs all jobs that wait, until it is cancelled."""

    def __init__(self, url: str, token: str, database_url: str) -> None:
        self._url = f"{url}/api/v1/pilot/"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._database_url = database_url
        self.n_jobs = 0

    async def run(self) -> None:
        """Some factories at the same time."""
        database = await asyncpg.connect(self._database_url)
        try:
            async with aiohttp.ClientSession(headers=self._headers) as session, asyncio.TaskGroup() as group:
                queues: asyncio.Queue[str] = asyncio.Queue(N_FACTORIES)
                for number in range(N_FACTORIES):
                    group.create_task(self._factory(session, f"factory-{number}", queues))
                while True:
                    for row in await database.fetch(_WAITING):
                        await queues.put(row["queue"])
                    await asyncio.sleep(0.02)
        finally:
            await database.close()

    async def _factory(self, session: aiohttp.ClientSession, node: str, queues: asyncio.Queue[str]) -> None:
        for number in itertools.count():
            queue = await queues.get()
            wanted = {"site_name": queue, "node": f"{node}-{number}", "n_jobs": TOGETHER}
            found = await self._call(session, "acquire_jobs", wanted)
            payloads = [draw(job, _WELL) for job in found["data"].get("jobs") or ()]
            if payloads:
                await self._all(session, [report.progress(one, "running", node, queue) for one in payloads])
                await self._all(session, [report.final(one, node, queue) for one in payloads])
                self.n_jobs += len(payloads)

    async def _all(self, session: aiohttp.ClientSession, reports: list[dict[str, Any]]) -> None:
        answer = await self._call(session, "update_jobs_bulk", {"job_list": reports})
        if not answer["success"]:
            raise RuntimeError(f"reports were refused: {answer}")

    async def _call(self, session: aiohttp.ClientSession, method: str, fields: dict[str, Any]) -> dict[str, Any]:
        async with session.post(self._url + method, json=fields) as answer:
            found: dict[str, Any] = await answer.json()
            return found
