"""A hundred submissions at once: each is answered, each task is there once, and how long the slowest takes.

Beside it the machine's own limit: as many transactions at once that insert such a task and its parameters and emit its
event, with nothing checked. `python -m tests.performance.bench_submissions [TIMES]`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from typing import Any

import httpx
import orjson
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.store import tasks as store
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.events import TaskRegistered
from shared.runtime.service import Context
from tests import servers
from tests.applications import application_of
from tests.handlers.events import started
from tests.handlers.grids import load_grid
from tests.handlers.task_definition.world import import_world, production
from tests.performance.figures import percentile, rate, times
from tests.performance.sizes import exit_code, sized

AT_ONCE = 100
N_TIMES = sized(20, 2)
#: a person waits for the answer
TARGET_S = 2.0


async def submitted(client: httpx.AsyncClient, name: str) -> float:
    """Seconds until a task of this name is accepted."""
    begun = time.perf_counter()
    body = {"task_parameters": production(name, uniqueTaskName=True)}
    reply = (await client.post("/api/v1/task/submit", json=body)).json()
    assert reply["success"], reply
    return time.perf_counter() - begun


async def inserted(database: Database, columns: dict[str, Any], task_id: int) -> float:
    """Seconds until a row of a task is committed with its event."""
    begun = time.perf_counter()
    name = f"bare.{task_id}"
    async with database.begin(reason="bare") as work:
        await store.insert(work, {**columns, "task_name": name}, {"taskName": name}, task_id=task_id)
        work.emit(TaskRegistered(task_id=task_id))
    return time.perf_counter() - begun


async def measure(url: str, n_times: int) -> bool:
    database, authority = await Database.connect(url, actor="bench"), Authority.generate()
    context = Context(
        database, NullCache(), authority, random.Random(1), Settings(database_url=url), CollectorRegistry()
    )
    await load_grid(database)
    await import_world(database)
    application = application_of(await started(build(context)), authority)
    spec = parse_task(production("bare"))
    columns = {**spec.columns(), "user_name": "prodteam", "split_rule": spec.split_rule()}
    columns = orjson.loads(orjson.dumps({**columns, "gshare": "Undefined", "resource_type": "MCORE"}))
    answers, bare, took_s, bare_s = list[float](), list[float](), 0.0, 0.0
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application), base_url="http://task-definition", timeout=60,
        headers={"Authorization": f"Bearer {authority.issue('prodteam', ('production',))}"},
    ) as client:  # fmt: skip
        for turn in range(n_times):
            begun = time.perf_counter()
            answers += await asyncio.gather(*(submitted(client, f"bench.{turn}.{n}") for n in range(AT_ONCE)))
            took_s += time.perf_counter() - begun
            begun = time.perf_counter()
            first = 10**9 + turn * AT_ONCE
            bare += await asyncio.gather(*(inserted(database, columns, first + n) for n in range(AT_ONCE)))
            bare_s += time.perf_counter() - begun
    async with database.read() as connection:
        statement = "SELECT count(*), count(DISTINCT task_name) FROM tasks WHERE task_name LIKE 'bench.%'"
        assert tuple(await connection.fetchrow(statement)) == (n_times * AT_ONCE,) * 2
        emitted = await connection.fetchval("SELECT count(*) FROM outbox WHERE routing_key LIKE 'task.registered%'")
        assert emitted == 2 * n_times * AT_ONCE, emitted
    await database.close()
    limit = len(bare) / bare_s
    print(times(f"{AT_ONCE} submissions at once, answered after", answers))
    print(times(f"{AT_ONCE} bare inserts at once, committed after", bare))
    print(rate("submissions", len(answers) / took_s, limit=limit, of="bare inserts"))
    slowest_s = percentile(answers, 1.0)
    print(
        f"   the slowest after {slowest_s:.2f} s (asked: under {TARGET_S:g} s); each task is there once, each told once"
    )
    return slowest_s < TARGET_S


async def main(n_times: int) -> int:
    server = servers.address("ORRERY_DATABASE_URL")
    template = await servers.ensure_template(server)
    url = await servers.clone_template(server, template)
    try:
        return exit_code(await measure(url, n_times))
    finally:
        await servers.drop_database(server, url)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else N_TIMES)))
