"""Jobs that are activated while others are taken: `python -m tests.performance.arrivals URL FIRST_ID PER_S`.

Inserts jobs in batches like those of bench_acquire and tells the dispatcher of them, as the bus would: by a NOTIFY with
the range of their ids. Ends when its standard input does, and prints how many it inserted.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import uvloop

from shared.db.codecs import prepare_connection
from shared.events import LaneJob
from tests.performance import acquire_world

ROOT = Path(__file__).resolve().parents[2]
CHANNEL = "arrivals"
EVERY_S = 0.1


@dataclass
class Arrivals:
    """The process that inserts, and what it has inserted when it ended."""

    pid: int
    n_jobs: int = 0


@contextmanager
def arriving(url: str, first_id: int, per_s: int) -> Iterator[Arrivals]:
    """Jobs arrive for the length of a block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.performance.arrivals", url, str(first_id), str(per_s)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    found = Arrivals(process.pid)
    try:
        yield found
    finally:
        found.n_jobs = int(process.communicate(timeout=30)[0] or 0)


@asynccontextmanager
async def heard(url: str, arrive: Callable[[list[LaneJob]], None]) -> AsyncIterator[None]:
    """Pass on the news of arrivals."""

    def notified(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        first, last = (int(one) for one in str(payload).split())
        arrive([acquire_world.lane_job(job_id) for job_id in range(first, last)])

    connection = await asyncpg.connect(url, server_settings={"application_name": "news"})
    await connection.add_listener(CHANNEL, notified)
    try:
        yield
    finally:
        await connection.close()


async def insert(url: str, first_id: int, per_s: int) -> int:
    """Insert until standard input ends; how many. What the machine does not get done in time is done later."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "arrivals"})
    await prepare_connection(connection)
    await connection.execute("SET session_replication_role = replica")  # as in the first load
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    loop, at = asyncio.get_running_loop(), first_id
    began = loop.time()
    while not ended.done():
        due = first_id + int((loop.time() - began) * per_s)
        if due > at:
            async with connection.transaction():
                await acquire_world.copy_jobs(connection, at, due)
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, f"{at} {due}")
            at = due
        await asyncio.wait([ended], timeout=EVERY_S)
    await connection.close()
    return at - first_id


if __name__ == "__main__":
    print(uvloop.run(insert(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
