"""Reads about jobs for people and pilots; finished jobs come from the archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.db.database import Database
from shared.db.queries import Queries
from shared.model.co_jumbo import CO_JUMBO_QUEUE, shown_queue

SQL = Queries.beside(__file__)

#: jobs of a task whose metadata one answer has
MOST_METADATA = 5000


@dataclass(frozen=True)
class JobFilter:
    """Which jobs to list; None means any."""

    task_id: int | None = None
    status: str | None = None
    queue: str | None = None
    resource_type: str | None = None
    user_name: str | None = None
    job_ids: tuple[int, ...] | None = None
    before_id: int | None = None
    limit: int = 100


class JobQueries:
    """Read only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def states(self, job_ids: Sequence[int]) -> list[dict[str, Any]]:
        """Status, attempt, command and user of each id in the order given; None where there is no such job."""
        async with self._database.read() as connection:
            rows = await SQL.rows(connection, "job_states", job_ids=list(job_ids))
        return [dict(row) for row in rows]

    async def listed(self, wanted: JobFilter) -> list[dict[str, Any]]:
        """Rows of jobs, the newest first."""
        async with self._database.read() as connection, connection.transaction(readonly=True):
            # which index fits depends on which filters are given: a plan for all of them would scan the table
            await connection.execute("SET LOCAL plan_cache_mode = force_custom_plan")
            rows = await SQL.rows(
                connection,
                "list_jobs",
                task_id=wanted.task_id,
                status=wanted.status,
                queue=wanted.queue,
                no_queue=CO_JUMBO_QUEUE,
                resource_type=wanted.resource_type,
                user_name=wanted.user_name,
                job_ids=None if wanted.job_ids is None else list(wanted.job_ids),
                before_id=wanted.before_id,
                size=wanted.limit,
            )
        return [{**row, "queue": shown_queue(row["queue"])} for row in rows]

    async def described(self, job_ids: Sequence[int]) -> list[dict[str, Any]]:
        """Specification, row and final report of each id in the order given."""
        async with self._database.read() as connection:
            described = await SQL.rows(connection, "describe_jobs", job_ids=list(job_ids))
        rows = {row["job_id"]: row for row in await self.listed(JobFilter(job_ids=tuple(job_ids), limit=len(job_ids)))}
        return [{**(rows.get(one["job_id"]) or {}), **dict(one)} for one in described]

    async def owner_of_task(self, task_id: int) -> dict[str, Any] | None:
        """Owner and VO of a task; None where there is none."""
        async with self._database.read() as connection:
            row = await SQL.row(connection, "owner_of_task", task_id=task_id)
        return None if row is None else dict(row)

    async def metadata(self, task_id: int) -> list[dict[str, Any]]:
        """What payloads of finished jobs of a task wrote about themselves, the newest first."""
        async with self._database.read() as connection:
            rows = await SQL.rows(connection, "metadata_of_task", task_id=task_id, at_most=MOST_METADATA)
        return [
            {"PandaID": row["job_id"], "jobStatus": row["status"], "outFiles": row["outputs"], "metadata": row["found"]}
            for row in rows
        ]

    async def by_queue(self) -> list[dict[str, Any]]:
        """Jobs and cores per queue, resource type and state, from the statistics."""
        async with self._database.read() as connection:
            rows = await SQL.rows(connection, "jobs_by_queue")
        return [dict(row) for row in rows]
