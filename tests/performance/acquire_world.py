"""The jobs, queues, shares and shapes of the benchmarks of the dispatcher, made anew from a job's id each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import asyncpg

from shared.db.codecs import prepare_connection
from shared.events import LaneJob

N_QUEUES, N_SHARES, N_SHAPES = 200, 50, 48
HOT_QUEUE = "HOT"
SLICE = 50_000
JOB_COLUMNS = (
    "job_id", "task_id", "chunk_id", "shape_id", "current_priority", "core_count", "attempt_number", "status", "queue",
    "resource_type", "gshare", "user_name", "prod_source_label", "job_type",
)  # fmt: skip
PARAMETERS = "--inputEVNTFile=EVNT.{id}.pool.root --maxEvents=1000 --outputHITSFile=HITS.{id}.pool.root " * 3


def queue_of(job_id: int) -> str:
    return HOT_QUEUE if job_id % 2 else f"Q{job_id // 2 % (N_QUEUES - 1):03d}"


def job_rows(first: int, last: int) -> Iterator[tuple[Any, ...]]:
    """Jobs spread over lanes and 20 priorities, as many tasks would."""
    for job_id in range(first, last):
        mixed = job_id * 2_654_435_761 % 2**32
        yield (
            job_id, job_id // 1000, 1, 1 + mixed % N_SHAPES, mixed // 64 % 20 * 50, 1, 1, "activated",
            queue_of(job_id), "SCORE", f"share{mixed // 4096 % N_SHARES:02d}", "user", "managed", "normal",
        )  # fmt: skip


def spec_rows(first: int, last: int) -> Iterator[tuple[Any, ...]]:
    for job_id in range(first, last):
        spec = {"PandaID": job_id, "taskID": job_id // 1000, "attemptNr": 1, "jobPars": PARAMETERS.format(id=job_id)}
        yield job_id, job_id // 1000, {**spec, "outFiles": f"HITS.{job_id}.root,log.{job_id}.tgz", "coreCount": 1}


async def fill(url: str, n_jobs: int) -> None:
    """Queues, shapes, and all jobs by COPY."""
    connection = await asyncpg.connect(url)
    await prepare_connection(connection)
    await connection.execute("SET session_replication_role = replica")  # the way of these rows is not the subject
    await connection.execute("INSERT INTO sites (site, state, role) VALUES ('S', 'ACTIVE', 'satellite')")
    await connection.execute(
        "INSERT INTO queues SELECT name, 'S', 'online', 'unified',"
        """ '{"status": "online", "type": "unified", "atlas_site": "S"}' FROM unnest($1::text[]) AS name""",
        [HOT_QUEUE, *(f"Q{number:03d}" for number in range(N_QUEUES - 1))],
    )
    await connection.execute(
        "INSERT INTO requirement_shapes (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s)"
        " SELECT 'managed', 'SCORE', 1, 1000 + n, 10000, 3600 FROM generate_series(1, $1::int) AS n",
        N_SHAPES,
    )
    for first in range(1, n_jobs + 1, SLICE):
        await copy_jobs(connection, first, min(first + SLICE, n_jobs + 1))
    await connection.execute("ANALYZE jobs, job_specs")
    await connection.close()


async def copy_jobs(connection: asyncpg.Connection, first: int, last: int) -> None:
    """Activated jobs with their specifications, by COPY."""
    await connection.copy_records_to_table("jobs", records=job_rows(first, last), columns=JOB_COLUMNS)
    await connection.copy_records_to_table(
        "job_specs", records=spec_rows(first, last), columns=("job_id", "task_id", "spec")
    )


def lane_job(job_id: int) -> LaneJob:
    """What the dispatcher is told of a job that arrives."""
    row = next(iter(job_rows(job_id, job_id + 1)))
    return LaneJob(job_id=job_id, queue=row[8], gshare=row[10], shape_id=row[3], priority=row[4])
