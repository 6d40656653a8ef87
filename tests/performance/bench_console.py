"""Pages of the console among a million tasks, with a million jobs, and hints to a thousand of them.

Server time of a page is that of the console and of the services that it asks, in one process, without sockets; the task
shown has all the jobs and two decisions about 5 000 queues, which are the grid. Who looks is an operator who has a
tenth of all tasks; these are months old, and some wait too long. Every page is asked for but that of the invariants,
which are looked for in everything while it is waited for. Hints go from a commit through the outbox and
RabbitMQ to open pages, which all ask again. `python -m tests.performance.bench_console`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import orjson
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.cli.one_process import OneFront
from services.console.app import service_of
from services.console.environment import ConsoleSettings
from services.job_brokerage.app import build as build_job_brokerage
from services.job_dispatch.app import build as build_job_dispatch
from services.share_correction.app import build as build_share_correction
from services.task_definition.app import build as build_task_definition
from services.watchdog.app import build as build_watchdog
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.events import TaskReady
from shared.messaging.listening import Listening
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.rabbitmq import RabbitMQTransport
from shared.messaging.topology import Topology
from shared.model.grid import read_grid_folder
from shared.runtime.collector import tune_collector
from shared.runtime.service import Context, Service
from tests import rows, servers
from tests.applications import application_of
from tests.handlers.console.streams import Stream, stream_of
from tests.handlers.console.stubbed_api import browser_at, sign_in
from tests.handlers.events import started
from tests.handlers.grids import a_disk, a_record, load_grid
from tests.performance import bench_task_lists
from tests.performance.figures import percentile, times
from tests.performance.sizes import exit_code, sized

N_TASKS, N_JOBS, N_QUEUES = sized(1_000_000, 2_000), sized(1_000_000, 2_000), sized(5_000, 500)
N_CALLS, N_WARM = sized(100, 5), 3
N_PARKED = sized(1_000, 10)
N_PAGES, N_HINTS = sized(1_000, 50), sized(50, 3)
PAGE_MS, HINT_S = 100.0, 1.0
SHOWN = 1
BUILDS = (build_task_definition, build_job_dispatch, build_job_brokerage, build_share_correction, build_watchdog)
_JOBS = (
    "INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status,"
    "                  queue, resource_type, gshare, user_name, prod_source_label, job_type, deadline_at, error_source,"
    "                  error_code, error_dialog, results_applied_at)"
    " SELECT n, $2, 1, 1, 100, 1, 1, (ARRAY['activated', 'running', 'holding', 'failed'])[1 + n % 4], 'Q' || n % 499,"
    "        'SCORE', 'MC', 'alice', 'managed', 'normal', 'infinity', f.source, 1000 + f.nth % 5,"
    "        format('%s of file %s, data.%s.root: %s', f.what, n, n * 7, repeat('it says more; ', f.nth::int)),"
    "        CASE WHEN n % 4 = 3 THEN orrery_now() END"
    "   FROM generate_series(1, $1::bigint) n"
    "   LEFT JOIN (VALUES (0, 'pilot', 'stage-in'), (1, 'pilot', 'stage-out'), (2, 'payload', 'the end'),"
    "              (3, 'payload', 'an error'), (4, 'brokerage', 'loss')) f (nth, source, what)"
    "     ON n % 4 = 3 AND f.nth = n / 4 % 5"
)
#: tasks of half a year, of which some wait, some have failed lately, and their datasets
_AGES = (
    "UPDATE tasks SET state_change_time = orrery_now() - task_id % 180 * interval '1 day',"
    "       modification_time = orrery_now() - task_id % 180 * interval '1 day', status = CASE task_id % 100"
    "       WHEN 3 THEN 'pending' WHEN 13 THEN 'exhausted' WHEN 23 THEN 'throttled' ELSE status END,"
    "       error_dialog = CASE WHEN task_id % 10 = 3 THEN repeat('no queue has room for it; ', 10) END"
    " WHERE task_id <> $1"
)
_DATASETS = (
    "INSERT INTO catalogue.datasets (scope, name, kind, state, n_files, n_bytes)"
    " SELECT 'bench', 'bench.' || n, 'dataset', 'frozen', 10, 1000 FROM generate_series(1, $1::bigint) n"
    " ON CONFLICT DO NOTHING"
)
_PARKED = (
    "INSERT INTO parked_messages (consumer, event_id, routing_key, reason, body)"
    " SELECT 'bench', n, 'task.ready', repeat('it failed ', 30), '{}' FROM generate_series(1, $1::int) n"
)
_CHECK = {"name": "memory_too_large", "tier": "configuration", "temporary": False, "found": "memory of a job",
          "wanted": "maxrss of the queue", "unit": "MB", "words": [], "parameters": [], "lifts": []}  # fmt: skip
_DECISION = (
    "INSERT INTO brokerage_decisions (kind, task_id, chunk_id, plugin, seed, world_version, outcome, summary, names,"
    "                                 codes, found, wanted, weights, terms, checks)"
    " SELECT 'job', $2, $5, 'production', 1, 1, 'none', $3::jsonb, array_agg('Q' || n || '/SCORE'),"
    "        array_agg(1::smallint), array_agg(6200.0 + n * $6), array_agg(4000.0), array_agg(0.0), '{}', $4::jsonb"
    "   FROM generate_series(1, $1::int) n"
)
_LOADS = (
    "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores)"
    " SELECT 'Q' || n, 'SCORE', 'MC', 'user ' || u, s, 10, 10 FROM generate_series(1, $1::int) n,"
    "        generate_series(1, 5) u, unnest(ARRAY['activated', 'running']) s"
)
EXAMPLE_GRID = Path(__file__).parents[2] / "deploy" / "examples" / "grid"
N_SITES = sized(500, 50)
PAGES = ("", "search?q=1", "search?q=Q77", "search?q=user.bench.77*", "search?q=ch.123456", "search?q=nothing",
        "search?q=user", "search?q=bench", "search?q=bench*user", "search?q=nch.ben", "tasks?q=name%3Dbench",
        "tasks?q=name%3Dbench*user",
        "suggestions?of=jobs&q=queue%3DQ7", "tasks", "tasks?q=status%3Drunning", "tasks?q=user%3D%22owner+of+many%22",
        "tasks?q=status%3Drunning+user%3D%22owner+of+few%22", "tasks?q=name%3Dnothing", "tasks?q=name%3Dbench.77*",
        f"tasks/commands?command=kill&shown=1,{','.join(map(str, range(2, 101)))}&all=yes",
        f"tasks/{SHOWN}", f"tasks/{SHOWN}/why", f"tasks/{SHOWN}/why?check=memory_too_large", f"tasks/{SHOWN}/decisions",
        f"tasks/{SHOWN}/decisions?first={{first}}&second={{second}}", f"tasks/{SHOWN}/timeline",
        f"tasks/{SHOWN}/what-if", f"tasks/{SHOWN}/what-if?ram_count=1000", f"tasks/{SHOWN}/commands/kill",
        f"jobs?q=task%3D{SHOWN}", "jobs?q=like%3D7", "jobs?q=like%3D7+queue%3DQ7", "jobs", "jobs/1", "jobs/7",
        "jobs/1/kill", "jobs/kills?job=1&job=2",
        "queues", "queues?order=running", "queues?q=77", "queues/Q77", "sites", "sites/S7", "shares", "shares/MC",
        "task-queues", "system", "system/parked", "system/parked/chosen?parked_id=1", "system/parameters",
        "system/limits", "system/audit")  # fmt: skip


async def fill(url: str) -> list[int]:
    """Make the tasks, jobs, queues and decisions; the ids of the decisions."""
    await bench_task_lists.fill(url, N_TASKS)
    database = await Database.connect(url, actor="bench")
    await load_grid(database, _grid())
    held = [{"dataset_id": SHOWN, "n_files": 2, "n_bytes": 2000, "n_events": 200}]
    async with database.read() as connection:
        chunk_id = await rows.chunk(connection, SHOWN, n_files=2, n_events=200, input_bytes=2000, inputs=held)
    await database.close()
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute("UPDATE tasks SET status = 'running', ram_count = 90000 WHERE task_id = $1", SHOWN)
        await connection.execute(_JOBS, N_JOBS, SHOWN, timeout=1200)
        await connection.execute(_LOADS, N_QUEUES)
        summary = orjson.dumps({"considered": N_QUEUES, "passed": 0, "tiers": {}, "nearest_miss": None}).decode()
        checks = orjson.dumps({"1": _CHECK}).decode()
        for factor in (1.0, 2.0):
            await connection.execute(_DECISION, N_QUEUES, SHOWN, summary, checks, chunk_id, factor)
        await connection.execute(_AGES, SHOWN, timeout=1200)
        await connection.execute(_DATASETS, N_TASKS, timeout=1200)
        await connection.execute(_PARKED, N_PARKED)
        await connection.execute("VACUUM ANALYZE")
        kept = await connection.fetch("SELECT decision_id FROM brokerage_decisions ORDER BY decision_id")
        return [row["decision_id"] for row in kept]
    finally:
        await connection.close()


def _grid() -> dict[str, Any]:
    """Files of a grid: all queues, ten at each site."""
    sites = [f"S{n}" for n in range(N_SITES)]
    queues = {f"Q{n}": a_record(f"Q{n}", sites[n % N_SITES]) for n in range(1, N_QUEUES + 1)}
    return {
        "queues": queues,
        "sites": {
            site: {"name": site, "state": "ACTIVE", "datapolicies": ["Nucleus"] if place < 5 else []}
            for place, site in enumerate(sites)
        },
        "storages": {f"{site}_DATADISK": a_disk(site) for site in sites},
        "network_metrics": {},
        "shares": read_grid_folder(EXAMPLE_GRID)["shares"],
    }


class Counted(httpx.AsyncBaseTransport):
    """Counts what the console asks."""

    def __init__(self, front: OneFront) -> None:
        self._front = httpx.ASGITransport(front)  # type: ignore[arg-type]
        self.n_asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.n_asked += 1
        return await self._front.handle_async_request(request)


@asynccontextmanager
async def console_at(url: str) -> AsyncIterator[tuple[FastAPI, Service, Counted, str, Database]]:
    """The console over the services in this process, and a token of an operator."""
    database, authority = await Database.connect(url, actor="bench"), Authority.generate()
    webs = []
    for build in BUILDS:
        settings = Settings(database_url=url)
        context = Context(database, NullCache(), authority, random.Random(1), settings, CollectorRegistry())
        webs.append(application_of(await started(build(context)), authority))
    counted = Counted(OneFront(webs))
    async with httpx.AsyncClient(transport=counted) as client:
        service = service_of(ConsoleSettings(api_url="http://api"), client)
        web = application_of(service, Authority.generate())
        yield web, service, counted, authority.issue(bench_task_lists.MANY, ["operator"]), database
    await database.close()


async def measure_pages(web: FastAPI, token: str, decisions: Sequence[int]) -> bool:
    """Time every page; whether each is in time."""
    late = []
    async with browser_at(web) as browser:
        assert (await sign_in(browser, token)).status_code == 303
        for page in PAGES:
            path = page.format(first=decisions[0], second=decisions[1])
            found = []
            for call in range(N_CALLS + N_WARM):
                begun = time.perf_counter()
                answer = await browser.get(f"/console/{path}")
                assert answer.status_code == 200 and "Not shown:" not in answer.text, answer.text
                if call >= N_WARM:
                    found.append(time.perf_counter() - begun)
            print(times(f"/console/{path[:48]}", found))
            if percentile(found, 0.99) * 1e3 >= PAGE_MS:
                late.append(path)
    print(f"   pages with a 99th percentile of {PAGE_MS:g} ms or more: {', '.join(late) or 'none'}")
    return not late


async def measure_hints(web: FastAPI, service: Service, counted: Counted, token: str, database: Database) -> bool:
    """From a commit to the first and to the last of many open pages; what they then ask the services."""
    url, namespace = servers.address("ORRERY_RABBITMQ_URL"), f"bench-{random.getrandbits(32):x}"
    metrics, topology, heard = MessagingMetrics(CollectorRegistry()), Topology(namespace), asyncio.Event()
    relay = RabbitMQTransport(url, database, metrics, topology=topology)
    await relay.start()
    listens = Listening(url, topology, metrics, "console", service.news, [*service.on_news_interrupted, heard.set])
    listening = asyncio.create_task(listens.run())
    await asyncio.wait_for(heard.wait(), 60)
    firsts, lasts = list[float](), list[float]()
    async with browser_at(web) as browser, AsyncExitStack() as stack:
        assert (await sign_in(browser, token)).status_code == 303
        address = stream_of(await browser.get(f"/console/tasks/{SHOWN}"))
        pages = [await stack.enter_async_context(Stream(web, browser, address)) for _ in range(N_PAGES)]
        for _ in range(N_HINTS):
            async with database.begin(reason="bench") as work:
                work.emit(TaskReady(task_id=SHOWN))
            begun = time.perf_counter()
            reached = await asyncio.gather(*(_reached(page, begun) for page in pages))
            firsts.append(min(reached))
            lasts.append(max(reached))
            await asyncio.gather(*(page.hint() for page in pages))  # the second one
            await asyncio.sleep(1.1)
        before, headers = counted.n_asked, {"HX-Request": "true"}
        begun = time.perf_counter()
        await asyncio.gather(*(browser.get(f"/console/tasks/{SHOWN}", headers=headers) for _ in range(N_PAGES)))
        took_s, n_asked = time.perf_counter() - begun, counted.n_asked - before
    listening.cancel()
    await relay.stop(1.0)
    print(times("from a commit to the first open page", firsts))
    print(times(f"from a commit to the last of {N_PAGES:,} open pages", lasts))
    print(f"   {N_PAGES:,} pages ask again within {took_s:.2f} s: {n_asked} calls of services, of 3 for one page")
    return percentile(lasts, 0.99) < HINT_S and n_asked <= 3 * (1 + int(took_s))


async def _reached(page: Stream, begun: float) -> float:
    await page.hint()
    return time.perf_counter() - begun


async def measure(url: str) -> bool:
    begun = time.perf_counter()
    decisions = await fill(url)
    print(f"   {N_TASKS:,} tasks, {N_JOBS:,} jobs, {N_QUEUES:,} queues: made in {time.perf_counter() - begun:.0f} s")
    async with console_at(url) as (web, service, counted, token, database):
        tune_collector()
        kept = await measure_pages(web, token, decisions)
        return await measure_hints(web, service, counted, token, database) and kept


async def main() -> int:
    server: Any = servers.address("ORRERY_DATABASE_URL")
    url = await servers.clone_template(server, await servers.ensure_template(server))
    try:
        return exit_code(await measure(url))
    finally:
        await servers.drop_database(server, url)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
