"""Reads about jobs for people and pilots; finished jobs come from the archive.

Of jobs that are not the caller's to read in full the state view is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import asyncpg

from shared.auth import Caller
from shared.auth.access import DETAILS, OWN, Whose
from shared.auth.reach import Reach
from shared.auth.state_view import JOB_COLUMNS, WITHHELD, state_of
from shared.db.queries import Queries
from shared.model.batches import batches
from shared.model.co_jumbo import CO_JUMBO_QUEUE, shown_queue

SQL = Queries.beside(__file__)

#: jobs of a task whose metadata one answer has
MOST_METADATA = 5000
#: jobs that one answer describes, and the length of their texts together; the first one is told, however long it is
MOST_DESCRIBED, MOST_DESCRIBED_BYTES = 1000, 16 * 2**20
#: failed jobs of a task that are looked at for those that failed of the same
MOST_LOOKED_AT = 10_000
#: the error of no job, and the task of none
NO_ERROR: Mapping[str, Any] = dict.fromkeys(("task_id", "error_source", "error_code", "error_kind"))
#: descriptions that one statement reads: no more than these are read in vain
READ_TOGETHER = 25


@dataclass(frozen=True)
class JobFilter:
    """Which jobs to list; None means any. `like`: those of its task that failed of the same as this job."""

    task_id: int | None = None
    status: str | None = None
    queue: str | None = None
    resource_type: str | None = None
    user_name: str | None = None
    like: int | None = None
    job_ids: tuple[int, ...] | None = None
    before_id: int | None = None
    limit: int = 100

    @property
    def asks_for_details(self) -> bool:
        """Whether it filters by what the state view hides: it finds only what the caller may read in full."""
        return any(one is not None for one in (self.queue, self.user_name, self.like))


class Described(NamedTuple):
    """Descriptions of jobs in the order of their ids, and the ids of those that had no room."""

    jobs: list[dict[str, Any]]
    left_out: list[int]


async def job_states(connection: asyncpg.Connection, job_ids: Sequence[int]) -> list[dict[str, Any]]:
    """Read status, attempt, command and owner of each id, in this order; None where there is no such job."""
    return [dict(row) for row in await SQL.rows(connection, "job_states", job_ids=list(job_ids))]


async def list_jobs(connection: asyncpg.Connection, wanted: JobFilter, caller: Caller) -> list[dict[str, Any]]:
    """Read rows of jobs, the newest first."""
    reach, by_details = Reach.of(caller), wanted.asks_for_details
    error = NO_ERROR if wanted.like is None else await _error_of(connection, wanted.like, caller)
    if error is None or (wanted.task_id and error["task_id"] not in (None, wanted.task_id)):
        return []
    async with connection.transaction(readonly=True):
        # which index fits depends on which filters are given: a plan for all of them would scan the table
        await connection.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        rows = await SQL.rows(
            connection,
            "list_jobs",
            **{**error, "task_id": error["task_id"] or wanted.task_id},
            status=wanted.status or (None if wanted.like is None else "failed"),
            queue=wanted.queue,
            no_queue=CO_JUMBO_QUEUE,
            resource_type=wanted.resource_type,
            user_name=wanted.user_name,
            job_ids=None if wanted.job_ids is None else list(wanted.job_ids),
            before_id=wanted.before_id,
            size=wanted.limit,
            looked_at=MOST_LOOKED_AT,
            told_only=by_details and not reach.is_all,
            owner=reach.owner if by_details else None,
            **reach._asdict(),
        )
    return [_as_told({**row, "queue": shown_queue(row["queue"])}, caller) for row in rows]


async def _error_of(connection: asyncpg.Connection, job_id: int, caller: Caller) -> dict[str, Any] | None:
    """Read what a job failed of, and of which task it is; None where it did not, or is not the caller's to read."""
    row = await SQL.row(connection, "error_of_job", job_id=job_id)
    if row is None or not may_read(caller, dict(row)):
        return None
    return {name: row[name] for name in NO_ERROR}


async def describe_jobs(connection: asyncpg.Connection, job_ids: Sequence[int], caller: Caller) -> Described:
    """Read specification, row and final report of each id in the order given, as far as there is room."""
    found, n_bytes = list[dict[str, Any]](), 0
    wanted = JobFilter(job_ids=tuple(job_ids), limit=len(job_ids))
    rows = {row["job_id"]: row for row in await list_jobs(connection, wanted, caller)}
    for some in batches(list(job_ids), READ_TOGETHER):
        for one in await SQL.rows(connection, "describe_jobs", job_ids=list(some)):
            n_bytes += one["n_bytes"]
            if n_bytes > MOST_DESCRIBED_BYTES and found:
                return Described(found, list(job_ids[len(found) :]))
            found.append(_description(rows.get(one["job_id"]), one, caller))
    return Described(found, [])


async def owner_of_task(connection: asyncpg.Connection, task_id: int) -> dict[str, Any] | None:
    """Read owner and VO of a task; None where there is none."""
    row = await SQL.row(connection, "owner_of_task", task_id=task_id)
    return None if row is None else dict(row)


async def metadata_of_task(connection: asyncpg.Connection, task_id: int) -> list[dict[str, Any]]:
    """Read what payloads of finished jobs of a task wrote about themselves, the newest first."""
    return [
        {"PandaID": row["job_id"], "jobStatus": row["status"], "outFiles": row["outputs"], "metadata": row["found"]}
        for row in await SQL.rows(connection, "metadata_of_task", task_id=task_id, at_most=MOST_METADATA)
    ]


async def jobs_by_queue(connection: asyncpg.Connection) -> list[dict[str, Any]]:
    """Read jobs and cores per queue, resource type and state, from the statistics."""
    return [dict(row) for row in await SQL.rows(connection, "jobs_by_queue")]


def may_read(caller: Caller, row: Mapping[str, Any]) -> bool:
    """Whether a caller may have the details of a job, given the owner and the VO of its task."""
    return DETAILS.allows(caller, Whose.of(row["owner"], row["vo"]))


def may_read_output(caller: Caller, row: Mapping[str, Any]) -> bool:
    """Whether a caller may have what a job printed.

    Of a job that may carry its owner's secrets the owner alone may.
    """
    return may_read(caller, row) and (
        not row["may_carry_secrets"] or OWN.allows(caller, Whose.of(row["owner"], row["vo"]))
    )


def _as_told(row: dict[str, Any], caller: Caller) -> dict[str, Any]:
    return row if may_read(caller, row) else state_of(row, JOB_COLUMNS)


def _description(row: Mapping[str, Any] | None, more: asyncpg.Record, caller: Caller) -> dict[str, Any]:
    """The row of a job with its texts; a job whose row is gone is its task's as long as its specification is kept."""
    texts = {name: value for name, value in more.items() if name != "n_bytes"}
    if row is None:
        is_known = more["task_id"] is not None
        nothing = {**dict.fromkeys(texts), "job_id": more["job_id"]}
        return _as_told(texts, caller) if is_known else nothing
    texts |= {name: row[name] for name in ("task_id", "owner", "vo")}
    return {**row, **(texts if WITHHELD not in row else dict.fromkeys(texts.keys() - row.keys()))}
