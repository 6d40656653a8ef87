"""A million files from the submission of a task to all of them inserted; and read again, changed by nobody.

Beside it a bare COPY of the same rows into a table with the same indexes. While the service reads, others lock the rows
of the task and of its dataset, again and again: the longest wait is told, and the most memory that this process had.
`python -m tests.performance.bench_contents [FILES]`.
"""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.events import TaskRegistered
from shared.runtime.service import Context, Service
from tests import servers
from tests.applications import application_of
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.handlers.task_definition.world import an_input, production
from tests.performance.figures import rate
from tests.performance.sizes import exit_code, sized

N_FILES = sized(1_000_000, 30_000)
LEAST_OF_COPY, LONGEST_LOCK_S, REREAD_S, MOST_GROWTH_MB = 0.5, 1.0, 5.0, 100.0
LOCKS_PER_S = 50.0
_CATALOGUE = (
    "INSERT INTO catalogue.datasets (scope, name, kind, state, n_files, n_bytes, n_events)"
    " VALUES ('mc', 'bench.files', 'dataset', 'frozen', $1, $1 * 1000::bigint, $1 * 100::bigint)",
    "INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes, n_events, checksum, guid)"
    " SELECT d.dataset_id, 'mc', 'BENCH.0815._' || lpad(n::text, 9, '0') || '.pool.root', 1000, 100,"
    "        'ad:' || lpad(to_hex(n), 8, '0'), gen_random_uuid()::text"
    "   FROM catalogue.datasets d, generate_series(1, $1) n WHERE d.name = 'bench.files'",
    "INSERT INTO catalogue.dataset_replicas SELECT dataset_id, 'ALPHA_DATADISK', n_files, n_bytes, true"
    "  FROM catalogue.datasets WHERE name = 'bench.files' AND $1 > 0",
)
_COLUMNS = (
    "dataset_id", "task_id", "lfn", "guid", "type", "fsize", "checksum", "scope", "status", "max_attempt",
    "max_failure", "n_events", "first_event",
)  # fmt: skip
_WRITTEN = "SELECT sum(hashtextextended(concat(ctid, ' ', xmin), 0)::numeric)::text FROM task_files"
_LOCKS = (
    "SELECT 1 FROM tasks WHERE task_id = $1 FOR NO KEY UPDATE",
    "SELECT 1 FROM task_datasets WHERE task_id = $1 FOR NO KEY UPDATE",
)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Lockers:
    """Lock the rows of a task and of its datasets at a fixed pace, and tell the longest wait for each."""

    def __init__(self, url: str, task_id: int) -> None:
        self._url, self._task_id = url, task_id
        self.longest_s = [0.0, 0.0]

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        loops = [asyncio.create_task(self._lock(place)) for place in range(len(_LOCKS))]
        try:
            yield
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _lock(self, place: int) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            while True:
                begun = time.perf_counter()
                await connection.fetch(_LOCKS[place], self._task_id)
                self.longest_s[place] = max(self.longest_s[place], time.perf_counter() - begun)
                await asyncio.sleep(1 / LOCKS_PER_S)
        finally:
            await connection.close()


async def run_periodic(database: Database, service: Service, name: str) -> float:
    """Until nothing is left of it; the seconds of its longest transaction."""
    run = next(one.run for one in service.periodic if one.name == name)
    longest_s = 0.0
    while True:
        begun = time.perf_counter()
        async with database.begin(reason=f"periodic {name}") as work:
            left = await run(work)
        longest_s = max(longest_s, time.perf_counter() - begun)
        if not left:
            return longest_s


async def bare_copy(url: str) -> float:
    """Seconds of a COPY of the rows that the service wrote, into an empty table with the same indexes."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE bare (LIKE task_files INCLUDING ALL)")
        with tempfile.TemporaryFile() as rows:
            text = f"SELECT {', '.join(_COLUMNS)} FROM task_files ORDER BY file_id"
            await connection.copy_from_query(text, output=rows, format="binary")
            rows.seek(0)
            begun = time.perf_counter()
            await connection.copy_to_table("bare", source=rows, columns=_COLUMNS, format="binary")
            return time.perf_counter() - begun
    finally:
        await connection.close()


async def measure(url: str, n_files: int) -> bool:
    database = await Database.connect(url, actor="bench")
    authority = Authority.generate()
    context = Context(
        database, NullCache(), authority, random.Random(1), Settings(database_url=url), CollectorRegistry()
    )
    await load_grid(database)
    async with database.begin(reason="the catalogue of the benchmark") as work:
        for statement in _CATALOGUE:
            await work.connection.execute(statement, n_files, timeout=600)
    async with database.read() as connection:
        await connection.execute("ANALYZE catalogue.files, catalogue.datasets")
    service = await started(build(context))
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(service, authority)), base_url="http://task-definition",
        headers={"Authorization": f"Bearer {authority.issue('prodteam', ('production',))}"},
    )  # fmt: skip
    before_mb = peak_mb()
    begun = time.perf_counter()
    task = production("bench", [an_input("bench.files")], nucleus="ALPHA")
    reply = (await client.post("/api/v1/task/submit", json={"task_parameters": task})).json()
    task_id = reply["data"]
    lockers = Lockers(url, task_id)
    async with lockers.at_work():
        await deliver(database, service, TaskRegistered(task_id=task_id))
        longest_s = await run_periodic(database, service, "contents")
    inserting_s = time.perf_counter() - begun
    grown_mb = peak_mb() - before_mb
    async with database.read() as connection:
        row = await connection.fetchrow(
            "SELECT t.status, (SELECT count(*) FROM task_files) AS n FROM tasks t WHERE task_id = $1", task_id
        )
        assert row is not None and (row["status"], row["n"]) == ("ready", n_files), dict(row or {})
    copying_s = await bare_copy(url)
    limit = n_files / copying_s
    print(
        rate(f"{n_files:,} files submitted, inserted, task ready", n_files / inserting_s, limit=limit, of="bare COPY")
    )
    print(f"   longest slice {longest_s:.2f} s; longest wait for the task's row {lockers.longest_s[0]:.3f} s,"
          f" for the dataset's {lockers.longest_s[1]:.2f} s (asked: under {LONGEST_LOCK_S:g} s)")  # fmt: skip
    print(f"   memory of the service: {before_mb:.0f} MB before, at most {before_mb + grown_mb:.0f} MB")
    reread_s = await reread(database, service)
    await client.aclose()
    await database.close()
    kept = inserting_s <= copying_s / LEAST_OF_COPY and max(*lockers.longest_s, longest_s) < LONGEST_LOCK_S
    return kept and reread_s < REREAD_S and grown_mb < MOST_GROWTH_MB


async def reread(database: Database, service: Service) -> float:
    """Unchanged contents: with the version that was read nothing is compared, without it all is; nothing is written."""
    longest_s = 0.0
    for what, bump in (("known to be unchanged", 0), ("compared file by file", 1)):
        async with database.begin(reason="time passes") as work:
            await work.connection.execute(
                "UPDATE catalogue.datasets SET contents_version = contents_version + $1 WHERE name = 'bench.files'",
                bump,
            )
            await work.connection.execute("UPDATE task_datasets SET state_check_time = orrery_now() - interval '1 day'")
        async with database.read() as connection:
            before = await connection.fetchval(_WRITTEN)
        begun = time.perf_counter()
        await run_periodic(database, service, "input-checks")
        slice_s = await run_periodic(database, service, "contents")
        took_s = time.perf_counter() - begun
        async with database.read() as connection:
            written = before != await connection.fetchval(_WRITTEN)
            assert not await connection.fetchval("SELECT count(*) FROM input_readings")
        assert not written
        print(f"   read again, {what:24} {took_s:8.3f} s (asked: under {REREAD_S:g} s), longest slice {slice_s:.2f} s;"
              " no row written")  # fmt: skip
        longest_s = max(longest_s, took_s)
    return longest_s


async def main(n_files: int) -> int:
    server = servers.address("ORRERY_DATABASE_URL")
    template = await servers.ensure_template(server)
    url = await servers.clone_template(server, template)
    try:
        return exit_code(await measure(url, n_files))
    finally:
        await servers.drop_database(server, url)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else N_FILES)))
