"""A user's list among a million tasks, as the client and the command line ask for it.

Each list is the newest 100 tasks with files of their inputs and jobs by state. Beside it the machine's own limit: the
same rows read by their keys and written as JSON, with nothing of ours.
`python -m tests.performance.bench_task_lists [TASKS]`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import httpx
import orjson
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.runtime.service import Context
from tests import servers
from tests.applications import application_of
from tests.handlers.events import started
from tests.performance.figures import percentile, times
from tests.performance.sizes import exit_code, sized

N_TASKS = sized(1_000_000, 5_000)
N_CALLS = sized(200, 20)
TARGET_MS = 20.0
#: one user owns a tenth of all tasks, the others a thousand each; tasks lie in no order of their owners
MANY, FEW = "owner of many", "owner of few"
_WORLD = (
    "SET session_replication_role = replica",
    "INSERT INTO tasks (task_id, status, task_name, user_name, prod_source_label, vo, task_type, processing_type,"
    "                   task_priority, current_priority, gshare, resource_type, split_rule, max_attempt)"
    " SELECT n, (ARRAY['done', 'finished', 'failed', 'running', 'aborted'])[1 + n % 5], 'user.bench.' || n,"
    "        CASE WHEN hashint8(n) % 10 = 0 THEN $2 WHEN hashint8(n + 17) % greatest(1, $1 / 1000) = 0 THEN $3"
    "             ELSE 'user ' || abs(hashint8(n)) % greatest(1, $1 / 1000) END,"
    "        'user', 'atlas', 'anal', 'run', 1000, 1000, 'User Analysis', 'SCORE', '{}', 3"
    "   FROM generate_series(1, $1::bigint) n",
    "INSERT INTO task_datasets (dataset_id, dataset_name, task_id, status, type, n_files, n_files_to_be_used,"
    "                           n_files_used, n_files_finished)"
    " SELECT n, 'bench.' || n, n, 'ready', 'input', 10, 10, 10, 8 FROM generate_series(1, $1::bigint) n",
)
_NEWEST = (
    "SELECT t.*, d.n_files, d.n_files_finished FROM tasks t JOIN task_datasets d USING (task_id)"
    " WHERE t.task_id = ANY($1::bigint[]) ORDER BY t.task_id DESC"
)


async def fill(url: str, n_tasks: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in _WORLD:
            wanted = [n_tasks, MANY, FEW][: statement.count("$1") and (3 if "$3" in statement else 1)]
            await connection.execute(statement, *wanted, timeout=1200)
        await connection.execute("ANALYZE tasks, task_datasets")
    finally:
        await connection.close()


async def timed(call: Callable[[], Awaitable[Any]]) -> list[float]:
    """Seconds of each call, one after the other; the first ones do not count."""
    found = []
    for _ in range(N_CALLS + 10):
        begun = time.perf_counter()
        await call()
        found.append(time.perf_counter() - begun)
    return found[10:]


async def bare(url: str, task_ids: Sequence[int]) -> list[float]:
    connection = await asyncpg.connect(url)
    try:

        async def read() -> bytes:
            rows = await connection.fetch(_NEWEST, task_ids)
            return orjson.dumps([dict(row) for row in rows], default=str)

        return await timed(read)
    finally:
        await connection.close()


async def measure(url: str, n_tasks: int) -> bool:
    await fill(url, n_tasks)
    database, authority = await Database.connect(url, actor="bench"), Authority.generate()
    context = Context(
        database, NullCache(), authority, random.Random(1), Settings(database_url=url), CollectorRegistry()
    )
    application = application_of(await started(build(context)), authority)
    worst_ms, ids = 0.0, list[int]()
    for owner in (MANY, FEW):
        headers = {"Authorization": f"Bearer {authority.issue(owner, ('user',))}"}
        lists: Sequence[tuple[str, str, dict[str, Any]]] = (
            ("newest", "list", {"user_name": owner}),
            ("running", "list", {"user_name": owner, "status": "running"}),
            ("as pbook asks", "get_tasks_detailed_info_since", {"n_tasks": 100, "filters": "{}"}),
        )
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=application), base_url="http://task-definition", headers=headers
        ) as client:
            for what, path, params in lists:
                reply = (await client.get(f"/api/v1/task/{path}", params=params)).json()
                assert reply["success"] and reply["data"], reply
                ids = ids or [one["task_id"] for one in reply["data"]]

                async def ask(client: httpx.AsyncClient = client, path: str = path, params: Any = params) -> None:
                    assert (await client.get(f"/api/v1/task/{path}", params=params)).status_code == 200

                found = await timed(ask)
                print(times(f"{owner}, {what}: {len(reply['data'])} of {n_tasks:,} tasks", found))
                worst_ms = max(worst_ms, percentile(found, 0.99) * 1e3)
    print(times(f"bare: {len(ids)} rows by their keys, as JSON", await bare(url, ids)))
    print(f"   slowest 99th percentile {worst_ms:.1f} ms (asked: under {TARGET_MS:g} ms)")
    await database.close()
    return worst_ms < TARGET_MS


async def main(n_tasks: int) -> int:
    server = servers.address("ORRERY_DATABASE_URL")
    template = await servers.ensure_template(server)
    url = await servers.clone_template(server, template)
    try:
        return exit_code(await measure(url, n_tasks))
    finally:
        await servers.drop_database(server, url)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else N_TASKS)))
