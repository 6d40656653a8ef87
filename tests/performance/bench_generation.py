"""Jobs generated per second: from brokered chunks to committed jobs with texts, outputs, counters, logs and events,
beside COPY's own rate for the same rows without indexes, triggers and the thinking.

Each replica of the service is a process of its own, as in production; each works on tasks of its own.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import asyncpg
from prometheus_client import CollectorRegistry

from services.job_generation.app import build
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.events import ChunkBrokered, ChunkOffered, JobsFinished, QueueChoice, TaskReady
from shared.runtime.collector import tune_collector
from shared.runtime.service import Context
from tests import rows, servers
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.performance.figures import rate
from tests.performance.sizes import sized

N_REPLICAS = 2
JOBS_OF_TASK = sized(10_000, 1_000)
JOBS_OF_EVENT = 500
N_COPY_ROWS = sized(100_000, 9_000)
TARGET_PER_S = 20_000
#: ten million files are inserted by one statement
PREPARING_TIMEOUT_S = 1800
COMMAND_LINE = "--in=${IN} --maxEvents=${MAXEVENTS} --skipEvents=${SKIPEVENTS} --seed=${RNDMSEED} --out=${OUTPUT0}"


async def define_task(connection: asyncpg.Connection, n_files: int, files_per_job: int = 1) -> int:
    """A task with so many files for each job, a random seed, an output and a log."""
    task_id: int = await rows.task(
        connection,
        status="ready",
        split_rule={"nFilesPerJob": files_per_job, "skipScout": True},
        trans_path="Sim_tf.py",
        resource_type="SCORE",
        core_count=1,
        ram_count=1000,
        ram_unit="MBPerCore",
        cpu_time=100,
        cpu_time_unit="HS06sPerEvent",
        out_disk_count=500,
        out_disk_unit="kBPerEvent",
    )
    await rows.insert(connection, "task_parameters", {"task_id": task_id, "task_parameters": {}})
    template = {"task_id": task_id, "job_parameters_template": {"normal": COMMAND_LINE}}
    await rows.insert(connection, "job_parameters_templates", template)
    master = await rows.dataset(
        connection, task_id, stream_name="IN", n_files=n_files, n_files_to_be_used=n_files, n_events_used=0
    )
    await connection.execute(
        "INSERT INTO task_files (dataset_id, task_id, lfn, type, status, max_attempt, n_events, fsize)"
        " SELECT $1, $2, 'mc23_demo.700123.EVNT.e8500._' || lpad(n::text, 8, '0') || '.pool.root.1', 'input',"
        " 'ready', 3, 1000, 100000000 FROM generate_series(1, $3::int) n",
        master,
        task_id,
        n_files,
        timeout=PREPARING_TIMEOUT_S,
    )
    await rows.dataset(connection, task_id, type="random_seed", stream_name="RNDMSEED", attributes={"offset": 500})
    for stream, kind in (("OUTPUT0", "output"), ("LOG0", "log")):
        dataset_id = await rows.dataset(connection, task_id, type=kind, stream_name=stream)
        values = {
            "task_id": task_id,
            "dataset_id": dataset_id,
            "stream_name": stream,
            "out_type": kind,
            "file_name_template": f"{kind}.{task_id}._${{SN/P}}.pool.root.1",
        }
        await rows.insert(connection, "output_templates", values)
    return task_id


async def count_all(url: str, task_id: int) -> float:
    """Ended jobs counted per second: every job of the task finished, told by events of 500."""
    database = await Database.connect(url, actor="job_generation", max_size=2)
    context = Context(
        database, NullCache(), Authority.generate(), random.Random(1), Settings(database_url=url), CollectorRegistry()
    )
    service = await started(build(context))
    async with database.read() as connection:
        await rows.change(connection, "UPDATE jobs SET status = 'finished' WHERE task_id = $1", task_id)
        await connection.execute("ANALYZE")
        found = await connection.fetch("SELECT job_id FROM jobs WHERE task_id = $1 ORDER BY job_id", task_id)
    job_ids = [row["job_id"] for row in found]
    tune_collector()
    begin = time.monotonic()
    for start in range(0, len(job_ids), JOBS_OF_EVENT):
        await deliver(database, service, JobsFinished(job_ids=tuple(job_ids[start : start + JOBS_OF_EVENT])))
    seconds = time.monotonic() - begin
    await database.close()
    return len(job_ids) / seconds


async def generate_all(url: str, task_id: int, ready: Any, go: Any) -> tuple[int, float, float]:
    """One replica: its task from ready to the last job; jobs, and the times of start and end."""
    database = await Database.connect(url, actor="job_generation", max_size=2)
    context = Context(
        database,
        NullCache(),
        Authority.generate(),
        random.Random(task_id),
        Settings(database_url=url),
        CollectorRegistry(),
    )
    service = await started(build(context))
    tune_collector()  # as every service does
    ready.release()
    await asyncio.to_thread(go.wait)
    begin = time.monotonic()
    said = list(await deliver(database, service, TaskReady(task_id=task_id)))
    n_jobs = 0
    candidates = tuple(QueueChoice(queue=name, resource_type="SCORE", weight=1.0) for name in ("Q_ALPHA", "Q_BETA"))
    while said:
        event = said.pop(0)
        if isinstance(event, ChunkOffered):
            brokered = ChunkBrokered(chunk_id=event.chunk_id, task_id=task_id, decision_id=1, candidates=candidates)
            said += await deliver(database, service, brokered)
        n_jobs += len(getattr(event, "job_ids", ()))
    end = time.monotonic()
    await database.close()
    return n_jobs, begin, end


def replica(url: str, task_id: int, ready: Any, go: Any, results: Any) -> None:
    """The process of one replica."""
    results.put(asyncio.run(generate_all(url, task_id, ready, go)))


async def copy_limit(url: str) -> float:
    """Rows of jobs, their texts, files and links per second that COPY alone takes, as jobs per second.

    One job is one row of jobs, one text of 1.5 kB, three files and four links; no index, no trigger.
    """
    connection = await asyncpg.connect(url)
    n_jobs = N_COPY_ROWS // 9
    shapes = {
        "copy_jobs (a bigint, b bigint, c bigint, d int, e int, f text, g text, h text, i timestamptz)": 1,
        "copy_texts (a bigint, b bigint, c text)": 1,
        "copy_files (a bigint, b bigint, c bigint, d text, e text, f text, g bigint)": 3,
        "copy_links (a bigint, b bigint, c bigint, d bigint, e text, f boolean, g int)": 4,
    }
    now = await connection.fetchval("SELECT orrery_now()")
    records = {
        "copy_jobs": (1, 2, 3, 4, 5, "defined", "Q_ALPHA", "SCORE", now),
        "copy_texts": (1, 2, "x" * 1500),
        "copy_files": (1, 2, 3, "output.1._000001.pool.root.1", "output", "running", 1000),
        "copy_links": (1, 2, 3, 4, "output", False, 0),
    }
    for shape in shapes:
        await connection.execute(f"CREATE TABLE {shape}")
    begin = time.monotonic()
    for shape, per_job in shapes.items():
        name = shape.partition(" ")[0]
        await connection.copy_records_to_table(name, records=[records[name]] * (n_jobs * per_job))
    seconds = time.monotonic() - begin
    await connection.close()
    return n_jobs / seconds


async def prepare(
    url: str, sizes: Sequence[int] = (JOBS_OF_TASK,) * (N_REPLICAS + 1), files_per_job: int = 1
) -> list[int]:
    """A grid, and a task of each number of files."""
    database = await Database.connect(url, actor="benchmark")
    await load_grid(database)
    async with database.read() as connection:
        await connection.execute(  # nothing runs here, and the throttle would soon have enough
            "INSERT INTO parameters (app, component, key, value, type)"
            " VALUES ('jedi', 'base_job_throttler', 'NQUEUELIMIT', '100000000', 'int')"
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")
        tasks = [await define_task(connection, n_files, files_per_job) for n_files in sizes]
        await connection.execute("ANALYZE", timeout=PREPARING_TIMEOUT_S)
    await database.close()
    return tasks


def measure(url: str, task_ids: list[int]) -> float:
    """Jobs per second of all replicas together."""
    spawn = multiprocessing.get_context("spawn")
    ready, go, results = spawn.Semaphore(0), spawn.Event(), spawn.Queue()
    processes = [spawn.Process(target=replica, args=(url, task_id, ready, go, results)) for task_id in task_ids]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    go.set()
    done = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    n_jobs = sum(one[0] for one in done)
    assert n_jobs == JOBS_OF_TASK * len(task_ids), f"{n_jobs} jobs were announced"
    return n_jobs / (max(one[2] for one in done) - min(one[1] for one in done))


def main() -> int:
    found = servers.Servers.find()
    template = asyncio.run(servers.ensure_template(found.database_url))
    url = asyncio.run(servers.clone_template(found.database_url, template))
    try:
        limit = asyncio.run(copy_limit(url))
        task_ids = asyncio.run(prepare(url))
        single = measure(url, task_ids[:1])
        both = measure(url, task_ids[1:])
        counted = asyncio.run(count_all(url, task_ids[0]))
    finally:
        asyncio.run(servers.drop_database(found.database_url, url))
    print(rate("COPY of the same rows alone (the machine's limit)", limit))
    print(rate("jobs generated, one replica, one task", single, limit=limit, of="COPY"))
    print(rate(f"jobs generated, {N_REPLICAS} replicas", both, limit=limit, of="COPY"))
    print(rate(f"ended jobs counted, one replica, {JOBS_OF_EVENT} to an event", counted))
    print(f"   the aim is {TARGET_PER_S:,}/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
