"""From room at a queue to the jobs of a task that waited for it, with 10 000 waiting, and how many decisions follow.

Three services (job_brokerage, watchdog, job_generation) on PostgreSQL; a loop in this process hands events on as the
bus would, and runs their periodic work at its own pace. Room appears when jobs leave a queue. Beside it: the same
number of transactions that each write one event and one row, and nothing else.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

import asyncpg
from prometheus_client import CollectorRegistry

from services.job_brokerage.app import build as build_brokerage
from services.job_generation.app import build as build_generation
from services.watchdog.app import build as build_watchdog
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.events import BY_ROUTING_KEY, ChunkOffered, Event, JobMove, JobsFailed, JobsGenerated, TaskReady
from shared.runtime.service import Context, Service
from tests import servers
from tests.handlers.events import started
from tests.handlers.grids import load_grid
from tests.performance.bench_generation import define_task
from tests.performance.figures import percentile, times
from tests.performance.sizes import exit_code, sized

N_WAITING = sized(10_000, 300)
N_ROUNDS = sized(40, 4)
JOBS_OF_TASK = 10
FULL = 41  # one more than 20 jobs of room and the cap of 20
QUEUES = ("Q_ALPHA", "Q_BETA", "Q_GAMMA")
PERIODIC = ("publish-statistics", "wake", "refresh")
POLL_S, ROUND_LIMIT_S, QUIET_S = 0.002, 20.0, 1.5
MEDIAN_S, P99_S, HANDFUL = 1.0, 3.0, 6
N_HOPS, N_CHAINS = 5, 60  # room told, woken, released, offered, brokered

_FULL = """
INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores)
SELECT queue, 'SCORE', 'MC', 'filler', 'demo', 'activated', $2, $2 FROM unnest($1::text[]) AS queue
"""
# Copies of a task that waits, each with datasets, files and texts of its own. $2: how many, far above other ids.
_COPIES = (
    "INSERT INTO tasks SELECT (r).* FROM (SELECT jsonb_populate_record(t, jsonb_build_object('task_id', 1000000 + n,"
    " 'task_name', 'copy.' || n)) AS r FROM tasks t, generate_series(1, $2::int) n WHERE task_id = $1) c",
    "INSERT INTO task_datasets OVERRIDING SYSTEM VALUE SELECT (r).* FROM (SELECT"
    " jsonb_populate_record(d, jsonb_build_object('task_id',"
    " 1000000 + n, 'dataset_id', 1000000 + 10 * n + row_number() OVER (PARTITION BY n ORDER BY dataset_id))) AS r"
    " FROM task_datasets d, generate_series(1, $2::int) n WHERE task_id = $1) c",
    "INSERT INTO task_files OVERRIDING SYSTEM VALUE SELECT (r).* FROM (SELECT"
    " jsonb_populate_record(f, jsonb_build_object('task_id',"
    " 1000000 + n, 'dataset_id', 1000001 + 10 * n, 'file_id', 100000000 + 100 * n + row_number() OVER (PARTITION BY n"
    " ORDER BY file_id))) AS r FROM task_files f, generate_series(1, $2::int) n WHERE task_id = $1) c",
    "INSERT INTO output_templates OVERRIDING SYSTEM VALUE SELECT (r).* FROM (SELECT"
    " jsonb_populate_record(o, jsonb_build_object('task_id',"
    " 1000000 + n, 'out_temp_id', 1000000 + 10 * n + row_number() OVER (PARTITION BY n ORDER BY o.dataset_id),"
    " 'dataset_id', 1000000 + 10 * n + (SELECT count(*) FROM task_datasets d WHERE d.task_id = o.task_id"
    " AND d.dataset_id <= o.dataset_id))) AS r FROM output_templates o, generate_series(1, $2::int) n"
    " WHERE task_id = $1) c",
    "INSERT INTO task_parameters SELECT (r).* FROM (SELECT jsonb_populate_record(p, jsonb_build_object('task_id',"
    " 1000000 + n)) AS r FROM task_parameters p, generate_series(1, $2::int) n WHERE task_id = $1) c",
    "INSERT INTO job_parameters_templates SELECT (r).* FROM (SELECT jsonb_populate_record(p,"
    " jsonb_build_object('task_id', 1000000 + n)) AS r FROM job_parameters_templates p, generate_series(1, $2::int) n"
    " WHERE task_id = $1) c",
    "INSERT INTO waits SELECT (r).* FROM (SELECT jsonb_populate_record(w, jsonb_build_object('task_id', 1000000 + n,"
    " 'changed_by', pg_current_xact_id()::text::bigint)) AS r FROM waits w, generate_series(1, $2::int) n"
    " WHERE task_id = $1) c",
)


class Bus:
    """Hands on what the outbox has, in order; `seen`: events by class with when they were handed on."""

    def __init__(self, database: Database, services: Sequence[Service]) -> None:
        self._database, self._services = database, services
        self._last = 0
        self._next_run_s: dict[tuple[str, str], float] = {}
        self.seen: list[tuple[float, Event]] = []

    async def run_until(self, until_s: float, quiet_s: float) -> None:
        """Until nothing was said for `quiet_s`, or the time is over."""
        said_at_s = time.perf_counter()
        while time.perf_counter() < min(until_s, said_at_s + quiet_s):
            if await self.step():
                said_at_s = time.perf_counter()
            else:
                await asyncio.sleep(POLL_S)

    async def step(self) -> bool:
        await self._run_periodic()
        async with self._database.read() as connection:
            rows = await connection.fetch(
                "SELECT event_id, routing_key, body FROM outbox WHERE event_id > $1 ORDER BY event_id LIMIT 50",
                self._last,
            )
        for row in rows:
            self._last = max(self._last, row["event_id"])
            await self._hand_on(BY_ROUTING_KEY[row["routing_key"]].event.model_validate_json(row["body"]))
        # Statistics are told again a second later; that is no sign of life.
        return any(not row["routing_key"].startswith("statistics.") for row in rows)

    async def _hand_on(self, event: Event) -> None:
        self.seen.append((time.perf_counter(), event))
        for service in self._services:
            work, news = dict(service.work).get(type(event)), dict(service.news).get(type(event))
            if work is not None:
                async with self._database.acting_as(service.name).begin(reason="benchmark") as transaction:
                    await work(event, transaction)
            if news is not None:
                await news(event)

    async def _run_periodic(self) -> None:
        for service in self._services:
            for one in service.periodic:
                key = service.name, one.name
                if one.name in PERIODIC and self._next_run_s.get(key, 0.0) <= time.perf_counter():
                    self._next_run_s[key] = time.perf_counter() + one.every_s
                    async with self._database.acting_as(service.name).begin(reason=one.name) as transaction:
                        await one.run(transaction)


async def open_services(database: Database, url: str) -> list[Service]:
    """The three, each with its own actor."""
    found = []
    for build in (build_brokerage, build_generation, build_watchdog):
        context = Context(
            database,
            NullCache(),
            Authority.generate(),
            random.Random(1),
            Settings(database_url=url),
            CollectorRegistry(),
        )
        found.append(await started(build(context)))
    return found


async def let_wait(database: Database, bus: Bus) -> None:
    """One task that finds every queue full, and its copies."""
    async with database.read() as connection:
        task_id = await define_task(connection, JOBS_OF_TASK)
    async with database.begin(reason="benchmark") as work:
        work.emit(TaskReady(task_id=task_id))
    await bus.run_until(time.perf_counter() + ROUND_LIMIT_S, 1.0)
    async with database.begin(reason="benchmark") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        for statement in _COPIES:
            await work.connection.execute(statement, task_id, N_WAITING - 1)
    async with database.read() as connection:
        await connection.execute("ANALYZE")
    await bus.run_until(time.perf_counter() + ROUND_LIMIT_S, 2.0)


async def make_room(database: Database, queue: str) -> float:
    """All jobs of a queue leave it; when."""
    async with database.begin(reason="benchmark") as work:
        counted = await work.connection.fetch(
            "SELECT status, user_name, n_jobs FROM queue_statistics WHERE queue = $1 AND n_jobs > 0", queue
        )
        moves = tuple(
            JobMove(
                task_id=1,
                queue=queue,
                resource_type="SCORE",
                gshare="MC",
                user_name=row["user_name"],
                from_status=row["status"],
                to_status="closed",
                n_jobs=row["n_jobs"],
                n_cores=row["n_jobs"],
            )
            for row in counted
        )
        work.emit(JobsFailed(moves=moves))
    return time.perf_counter()


async def measure(url: str) -> tuple[list[float], list[int]]:
    """Seconds from room to jobs of each placed task; decisions after each event."""
    database = await Database.connect(url, actor="benchmark", max_size=4)
    try:
        await load_grid(database)
        async with database.read() as connection:
            await connection.execute(_FULL, list(QUEUES), FULL)
        bus = Bus(database, await open_services(database, url))
        await let_wait(database, bus)
        seconds, decisions = list[float](), list[int]()
        for number in range(N_ROUNDS):
            bus.seen.clear()
            room_s = await make_room(database, QUEUES[number % len(QUEUES)])
            await bus.run_until(room_s + ROUND_LIMIT_S, QUIET_S)
            kinds = Counter(type(event) for _, event in bus.seen)
            decisions.append(kinds[ChunkOffered])
            seconds += [at_s - room_s for at_s, event in bus.seen if isinstance(event, JobsGenerated)]
        return seconds, decisions
    finally:
        await database.close()


async def bare_chains(url: str) -> list[float]:
    """Seconds for as many transactions in a row as lie between room and jobs, each with an event and a row."""
    connection = await asyncpg.connect(url)
    found = []
    try:
        await connection.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, body text)")
        for _ in range(N_CHAINS):
            begin = time.perf_counter()
            for _ in range(N_HOPS):
                async with connection.transaction():
                    await connection.execute("INSERT INTO bare (body) VALUES ('event')")
                    await connection.execute("INSERT INTO bare (body) VALUES ('row')")
            found.append(time.perf_counter() - begin)
        return found
    finally:
        await connection.close()


def main() -> int:
    server_url = servers.Servers.find().database_url
    template = asyncio.run(servers.ensure_template(server_url))
    url = asyncio.run(servers.clone_template(server_url, template))
    try:
        seconds, decisions = asyncio.run(measure(url))
        bare = asyncio.run(bare_chains(url))
    finally:
        asyncio.run(servers.drop_database(server_url, url))
    if not seconds:
        print("   nothing was placed")
        return 1
    print(times(f"room to jobs, {N_WAITING:,} tasks waiting", seconds))
    print(times(f"{N_HOPS} bare transactions: an event and a row", bare))
    print(f"   decisions after an event: {sum(decisions) / len(decisions):.1f} on average, {max(decisions)} at most")
    kept = percentile(seconds, 0.5) < MEDIAN_S and percentile(seconds, 0.99) < P99_S and max(decisions) <= HANDFUL
    print(f"   aims: median {MEDIAN_S:g} s, p99 {P99_S:g} s, {HANDFUL} decisions: {'kept' if kept else 'MISSED'}")
    return exit_code(kept)


if __name__ == "__main__":
    sys.exit(main())
