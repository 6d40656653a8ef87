"""Rows for tests, in any state: inserted behind the triggers, so that a test can begin in the middle of a story.

Every function takes a connection and column values, fills in what the test does not care about and returns the id.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from shared.db import Database

_TASK = {"task_name": None, "user_name": "alice", "status": "running", "prod_source_label": "managed",
         "current_priority": 100, "task_type": "prod", "vo": "demo", "gshare": "MC"}  # fmt: skip
_DATASET = {"dataset_name": None, "type": "input", "status": "ready"}
_FILE = {"lfn": None, "type": "input", "status": "ready", "max_attempt": 3}
_CHUNK = {"kind": "normal", "status": "offered", "n_files": 1}
_JOB = {"chunk_id": 1, "shape_id": 1, "current_priority": 100, "core_count": 1, "attempt_number": 1,
        "status": "activated", "queue": "Q1", "resource_type": "SCORE", "gshare": "MC", "user_name": "alice",
        "prod_source_label": "managed", "job_type": "normal",
        # time-out rules are asked about it at the next look, whatever its state is
        "deadline_at": datetime(1970, 1, 1, tzinfo=UTC)}  # fmt: skip

#: copies live jobs into the archive as they are; a condition follows
ARCHIVE = (
    "INSERT INTO jobs_archive SELECT (jsonb_populate_record(NULL::jobs_archive,"
    " to_jsonb(j) || jsonb_build_object('archived_at', orrery_now()))).* FROM jobs j"
)


async def insert(connection: asyncpg.Connection, table: str, values: dict[str, Any], returning: str = "") -> Any:
    """One row, without triggers and foreign keys (the test's connection is a superuser's)."""
    columns = ", ".join(values)
    places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    tail = f" RETURNING {returning}" if returning else ""
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        return await connection.fetchval(f"INSERT INTO {table} ({columns}) VALUES ({places}){tail}", *values.values())


async def change(connection: asyncpg.Connection, statement: str, *arguments: Any) -> None:
    """Any statement without triggers: how a violation is planted."""
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(statement, *arguments)


async def task(connection: asyncpg.Connection, **values: Any) -> int:
    number = values.pop("task_id", None) or await connection.fetchval("SELECT nextval('task_ids')")
    row = {**_TASK, "task_id": number, **values}
    row["task_name"] = row["task_name"] or f"task.{number}"
    return await insert(connection, "tasks", row, "task_id")


async def dataset(connection: asyncpg.Connection, task_id: int, **values: Any) -> int:
    number = await connection.fetchval("SELECT nextval('dataset_ids')")
    row = {**_DATASET, "dataset_id": number, "task_id": task_id, **values}
    row["dataset_name"] = row["dataset_name"] or f"dataset.{number}"
    return await insert(connection, "task_datasets", row, "dataset_id")


async def file(connection: asyncpg.Connection, task_id: int, dataset_id: int, **values: Any) -> int:
    number = await connection.fetchval("SELECT nextval('file_ids')")
    row = {**_FILE, "file_id": number, "task_id": task_id, "dataset_id": dataset_id, **values}
    row["lfn"] = row["lfn"] or f"file.{number}"
    return await insert(connection, "task_files", row, "file_id")


async def chunk(connection: asyncpg.Connection, task_id: int, **values: Any) -> int:
    number = await connection.fetchval("SELECT nextval('chunk_ids')")
    return await insert(connection, "chunks", {**_CHUNK, "chunk_id": number, "task_id": task_id, **values}, "chunk_id")


async def job(connection: asyncpg.Connection, task_id: int, **values: Any) -> int:
    number = await connection.fetchval("SELECT nextval('job_ids')")
    return await insert(connection, "jobs", {**_JOB, "job_id": number, "task_id": task_id, **values}, "job_id")


async def ask_again(connection: asyncpg.Connection) -> None:
    """The deadline of every job has come."""
    await change(connection, "UPDATE jobs SET deadline_at = 'epoch' WHERE deadline_at IS NOT NULL")


async def archived_job(connection: asyncpg.Connection, task_id: int, **values: Any) -> int:
    number = values.pop("job_id", None) or await connection.fetchval("SELECT nextval('job_ids')")
    now = await connection.fetchval("SELECT orrery_now()")
    row = {**_JOB, "job_id": number, "task_id": task_id, "status": "finished", "creation_time": now,
           "state_change_time": now, "results_applied_at": now, **values}  # fmt: skip
    row.pop("deadline_at")
    return await insert(connection, "jobs_archive", row, "job_id")


async def job_file(connection: asyncpg.Connection, job_id: int, file_id: int, **values: Any) -> None:
    row = await connection.fetchrow("SELECT dataset_id, task_id, type FROM task_files WHERE file_id = $1", file_id)
    assert row is not None
    await insert(connection, "job_files", {"job_id": job_id, "file_id": file_id, **dict(row), **values})


async def register(connection: asyncpg.Connection, file_id: int, **values: Any) -> None:
    """What task_definition does with an output: it is in the catalogue, and its row says how large it is."""
    await change(
        connection,
        "UPDATE task_files SET fsize = coalesce($2, fsize, 1000), checksum = coalesce($3, checksum),"
        " guid = coalesce($4, guid) WHERE file_id = $1",
        file_id,
        values.get("size_bytes"),
        values.get("checksum"),
        values.get("guid"),
    )
    await connection.execute(
        "INSERT INTO catalogue.datasets (scope, name, kind)"
        " SELECT 'mc', d.dataset_name, 'dataset' FROM task_files f JOIN task_datasets d USING (dataset_id)"
        " WHERE f.file_id = $1 ON CONFLICT (name) DO NOTHING",
        file_id,
    )
    await connection.execute(
        "INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes, checksum)"
        " SELECT c.dataset_id, 'mc', f.lfn, f.fsize, f.checksum"
        " FROM task_files f JOIN task_datasets d USING (dataset_id) JOIN catalogue.datasets c"
        " ON c.name = d.dataset_name WHERE f.file_id = $1 ON CONFLICT DO NOTHING",
        file_id,
    )


async def log(
    connection: asyncpg.Connection, task_id: int | None, entity: str, *, to_status: str, **values: Any
) -> None:
    now = await connection.fetchval("SELECT orrery_now()")
    row = {"at": now, "entity": entity, "task_id": task_id, "to_status": to_status, "actor": "test",
           "reason": "planted", **values}  # fmt: skip
    await insert(connection, "transition_log", row)


async def insert_watch_runs(database: Database, at: datetime) -> None:
    """All watches last ran at `at` (the slow ones one period before `at`), without a grace."""
    async with database.read() as connection:
        for watch, earlier_s in (
            ("jobs", 0),
            ("tasks", 0),
            ("attempts", 240),
            ("sweep/tasks", 0),
            ("sweep/work", 0),
        ):
            last = at - timedelta(seconds=earlier_s)
            await insert(connection, "watch_runs", {"watch": watch, "last_run_at": last})
