"""Rows for the tests of the dispatcher: a small grid, tasks, jobs in any state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from shared.db import Database
from tests import rows

SHAPES = {
    "small": ("managed", "SCORE", 1, 2000, 10_000, 3600),
    "large": ("managed", "MCORE", 8, 16_000, 40_000, 36_000),
    "user": ("user", "SCORE", 1, 2000, 10_000, 3600),
}


def cric(queue: str, site: str, **more: Any) -> dict[str, Any]:
    """A CRIC record of a queue with a disk of its site."""
    storages = {"read_lan": [f"{site}_DATADISK"], "write_lan": [f"{site}_DATADISK"]}
    return {
        "siteid": queue, "status": "online", "type": "unified", "atlas_site": site, "capability": "ucore",
        "corecount": 8, "corepower": 10.0, "maxrss": 16000, "astorages": storages, **more,
    }  # fmt: skip


class Rows:
    """Inserts through one database; jobs get ids from 1 on unless told otherwise."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.shapes: dict[str, int] = {}
        self.next_id = 1

    async def grid(self, queues: dict[str, str], nuclei: Sequence[str] = ()) -> None:
        """Queues by name with their sites; every site has a disk called <site>_DATADISK."""
        async with self.database.pool.acquire() as connection:
            for site in sorted({*queues.values(), *nuclei}):
                role = "nucleus" if site in nuclei else "satellite"
                await connection.execute(
                    "INSERT INTO sites (site, state, role, data) VALUES ($1, 'ACTIVE', $2, $3)",
                    site,
                    role,
                    {"name": site, "state": "ACTIVE", "default_ddm_endpoint": f"{site}_DATADISK"},
                )
                await connection.execute(
                    "INSERT INTO storages (storage, site, type, data) VALUES ($1, $2, 'DATADISK', $3)",
                    f"{site}_DATADISK",
                    site,
                    {"site_name": site, "type": "DATADISK"},
                )
            for queue, site in queues.items():
                await connection.execute(
                    "INSERT INTO queues (queue, site, status, type, data) VALUES ($1, $2, 'online', 'unified', $3)",
                    queue,
                    site,
                    cric(queue, site),
                )
            await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'grid'")
            for name, shape in SHAPES.items():
                self.shapes[name] = await connection.fetchval(
                    "INSERT INTO requirement_shapes (prod_source_label, resource_type, core_count, ram_mb, disk_mb,"
                    " walltime_s) VALUES ($1, $2, $3, $4, $5, $6) RETURNING shape_id",
                    *shape,
                )

    async def shape_of_vo(self, vo: str, shape: str = "small") -> str:
        """The name of a shape that is another one's for jobs of a VO."""
        async with self.database.pool.acquire() as connection:
            self.shapes[f"{shape} of {vo}"] = await connection.fetchval(
                "INSERT INTO requirement_shapes (prod_source_label, resource_type, core_count, ram_mb, disk_mb,"
                " walltime_s, vo) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING shape_id",
                *SHAPES[shape],
                vo,
            )
        return f"{shape} of {vo}"

    async def task(self, task_id: int = 1, *, status: str = "running", nucleus: str | None = None, **rules: Any) -> int:
        """A task in the state given (its way there is not the subject)."""
        async with self.database.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute(
                "INSERT INTO tasks (task_id, task_name, user_name, status, nucleus, split_rule)"
                " VALUES ($1, $2, 'alice', $3, $4, $5)",
                task_id,
                f"task.{task_id}",
                status,
                nucleus,
                rules,
            )
        return task_id

    async def task_is(self, status: str, task_id: int = 1) -> None:
        """Put a task into another state."""
        async with self.database.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute("UPDATE tasks SET status = $2 WHERE task_id = $1", task_id, status)

    async def jobs(
        self,
        count: int = 1,
        *,
        queue: str = "Q1",
        status: str = "activated",
        shape: str = "small",
        gshare: str = "MC",
        priority: int = 100,
        task_id: int = 1,
        job_type: str = "normal",
        user_name: str = "alice",
        attempt_number: int = 1,
        specs: bool = True,
    ) -> list[int]:
        """Jobs in the state given; their ids."""
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        label, resource_type, cores, *_ = SHAPES[shape.partition(" of ")[0]]
        async with self.database.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.executemany(
                "INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number,"
                " status, queue, resource_type, gshare, user_name, prod_source_label, job_type)"
                " VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
                [
                    (one, task_id, self.shapes[shape], priority, cores, attempt_number, status, queue, resource_type,
                     gshare, user_name, label, job_type)
                    for one in ids
                ],
            )  # fmt: skip
            if specs:
                await connection.executemany(
                    "INSERT INTO job_specs (job_id, task_id, spec) VALUES ($1, $2, $3)",
                    [(one, task_id, {"PandaID": one, "taskID": task_id, "attemptNr": attempt_number}) for one in ids],
                )
        return ids

    async def input_file(self, job_id: int, *, lfn: str, dataset: str, size_bytes: int = 1000, task_id: int = 1) -> int:
        """An input file of a job, in a dataset of the task."""
        async with self.database.pool.acquire() as connection:
            dataset_id = await connection.fetchval(
                "SELECT dataset_id FROM task_datasets WHERE dataset_name = $1 AND task_id = $2", dataset, task_id
            ) or await connection.fetchval(
                "INSERT INTO task_datasets (dataset_name, task_id, status, type) VALUES ($1, $2, 'ready', 'input')"
                " RETURNING dataset_id",
                dataset,
                task_id,
            )
            file_id = await connection.fetchval(
                "INSERT INTO task_files (dataset_id, task_id, lfn, type, fsize, status) VALUES"
                " ($1, $2, $3, 'input', $4, 'running') RETURNING file_id",
                dataset_id,
                task_id,
                lfn,
                size_bytes,
            )
            await connection.execute(
                "INSERT INTO job_files (job_id, file_id, dataset_id, task_id, type) VALUES ($1, $2, $3, $4, 'input')",
                job_id,
                file_id,
                dataset_id,
                task_id,
            )
        return int(file_id)

    async def replica(self, dataset: str, storage: str, *, complete: bool = True, lfns: Sequence[str] = ()) -> None:
        """A copy of a catalogue dataset; with `lfns` the files that an incomplete copy holds."""
        async with self.database.pool.acquire() as connection:
            dataset_id = await connection.fetchval(
                "INSERT INTO catalogue.datasets (scope, name, kind, state) VALUES ('mc', $1, 'dataset', 'frozen')"
                " ON CONFLICT (name) DO UPDATE SET scope = 'mc' RETURNING dataset_id",
                dataset,
            )
            await connection.execute(
                "INSERT INTO catalogue.dataset_replicas VALUES ($1, $2, $3, 0, $4)",
                dataset_id,
                storage,
                len(lfns),
                complete,
            )
            for lfn in lfns:
                file_id = await connection.fetchval(
                    "INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes) VALUES ($1, 'mc', $2, 1000)"
                    " ON CONFLICT (dataset_id, lfn) DO UPDATE SET scope = 'mc' RETURNING file_id",
                    dataset_id,
                    lfn,
                )
                if not complete:
                    await connection.execute("INSERT INTO catalogue.file_replicas VALUES ($1, $2)", file_id, storage)

    async def becomes(self, job_id: int, status: str) -> None:
        """Put a job into another state (its way there is not the subject)."""
        async with self.database.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute("UPDATE jobs SET status = $2 WHERE job_id = $1", job_id, status)

    async def statuses(self, job_ids: Sequence[int]) -> list[str]:
        """The states of jobs, in the order of the ids."""
        async with self.database.read() as connection:
            rows = await connection.fetch("SELECT job_id, status FROM jobs WHERE job_id = ANY($1)", list(job_ids))
        found = {row["job_id"]: row["status"] for row in rows}
        return [found[one] for one in job_ids]

    async def events(self, routing_key: str) -> list[dict[str, Any]]:
        """Bodies in the outbox, in order."""
        import orjson

        async with self.database.read() as connection:
            rows = await connection.fetch(
                "SELECT body FROM outbox WHERE routing_key = $1 ORDER BY event_id", routing_key
            )
        return [orjson.loads(row["body"]) for row in rows]

    async def row(self, job_id: int) -> asyncpg.Record:
        async with self.database.read() as connection:
            row = await connection.fetchrow("SELECT * FROM jobs WHERE job_id = $1", job_id)
        assert row is not None
        return row

    async def report(self, job_id: int) -> dict[str, Any]:
        """The stored final report."""
        async with self.database.read() as connection:
            found: dict[str, Any] = await connection.fetchval(
                "SELECT report FROM job_reports WHERE job_id = $1", job_id
            )
        return found

    async def output(self, job_id: int, lfn: str, *, kind: str = "output", task_id: int = 1, **attributes: Any) -> int:
        """A file that the job is to write; its id."""
        async with self.database.read() as connection:
            dataset_id = await rows.dataset(connection, task_id, type=kind, attributes=attributes)
            file_id: int = await rows.file(
                connection, task_id, dataset_id, type=kind, lfn=lfn, status="running", out_job_id=job_id
            )
        return file_id
