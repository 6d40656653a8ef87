"""Jobs, their reports, outputs and transfers in PostgreSQL, as typed statements.

Every change of status is a compare-and-set over the states from which this service may make it, and returns the ids
that really changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from services.job_dispatch.policy.reports import Blame, EndedJob, ExpectedOutput, ReportedJob
from shared.auth import Caller
from shared.db.queries import Queries
from shared.events import LaneJob
from shared.model.analysis import is_analysis
from shared.model.urgency import is_urgent
from shared.model.whole_numbers import LARGEST_INT4
from shared.states import JOB, Owner
from shared.states.job import FINAL, LIVE, ON_NODE, JobStatus
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules, rules_of

SQL = Queries.beside(__file__)

OWNER = Owner.JOB_DISPATCH


@dataclass(frozen=True)
class LockedJob:
    """A live job whose row this transaction holds."""

    row: ReportedJob
    shape_id: int
    current_priority: int
    job_type: str
    prod_source_label: str
    order_key_id: int = 0

    @property
    def job_id(self) -> int:
        return self.row.job_id

    def lane_job(self) -> LaneJob:
        return LaneJob(
            job_id=self.row.job_id,
            queue=self.row.queue,
            gshare=self.row.gshare,
            shape_id=self.shape_id,
            priority=self.current_priority,
            order_key_id=self.order_key_id,
        )


_ROW_FIELDS = (
    "job_id", "task_id", "status", "attempt_number", "queue", "resource_type", "gshare", "user_name", "core_count",
    "command", "claimed_by", "vo",
)  # fmt: skip


@dataclass(frozen=True)
class TaskOfJobs:
    """What decides the way of a task's jobs."""

    task_id: int
    status: TaskStatus
    task_type: str | None
    nucleus: str | None
    rules: SplitRules
    prod_source_label: str | None = None
    processing_type: str | None = None
    current_priority: int = 0
    event_service: int = 0

    @property
    def is_urgent(self) -> bool:
        """Whether its transfers use the express activity.

        Analysis has a priority of 1000 without being urgent.
        """
        analysis = is_analysis(self.task_type, self.prod_source_label)
        return is_urgent(self.processing_type, 0 if analysis else self.current_priority)


@dataclass(frozen=True)
class StoredReport:
    """A final report; `state` is the job's, which may be failed where the pilot reported success."""

    state: JobStatus
    report: Mapping[str, Any]


@dataclass(frozen=True)
class JobOutput:
    """One file that a job writes, with the token and destination of its dataset."""

    lfn: str
    dataset_id: int
    token: str | None
    destination: str | None


@dataclass(frozen=True)
class NewTransfer:
    """A row of `transfers` to be inserted; it moves files of these datasets, without any named of all."""

    task_id: int
    job_id: int
    activity: str
    source_storage: str | None
    destination_storage: str
    n_files: int
    n_bytes: int
    dataset_ids: tuple[int, ...] = ()


async def lock_jobs(connection: asyncpg.Connection, job_ids: Sequence[int]) -> dict[int, LockedJob]:
    """Lock the live rows of these jobs in the order of their ids."""
    return await _lock(connection, "lock_jobs", job_ids)


async def _lock(connection: asyncpg.Connection, statement: str, job_ids: Sequence[int]) -> dict[int, LockedJob]:
    """Lock rows; once more where one was taken meanwhile, for then its claim is seen, too."""
    rows = await SQL.rows(connection, statement, job_ids=sorted(set(job_ids)))
    if any(row["was_taken"] for row in rows):
        rows = await SQL.rows(connection, statement, job_ids=[row["job_id"] for row in rows])
    return _locked(rows)


async def lock_free_jobs(
    connection: asyncpg.Connection, job_ids: Sequence[int]
) -> tuple[dict[int, LockedJob], set[int]]:
    """Lock the rows that no other transaction holds; these rows, and the jobs whose rows are held.

    It waits for no lock.
    """
    jobs = await _lock(connection, "lock_free_jobs", job_ids)
    others = sorted(set(job_ids) - jobs.keys())
    held = await SQL.rows(connection, "existing_jobs", job_ids=others) if others else ()
    return jobs, {row["job_id"] for row in held}


async def reported_attempts(connection: asyncpg.Connection, job_ids: Sequence[int]) -> dict[int, int]:
    rows = await SQL.rows(connection, "reported_attempts", job_ids=sorted(set(job_ids)))
    return {row["job_id"]: row["attempt_number"] for row in rows}


async def heartbeats(connection: asyncpg.Connection, job_ids: Sequence[int]) -> None:
    if job_ids:
        await SQL.run(connection, "heartbeats", job_ids=list(job_ids), allowed=list(ON_NODE))


async def start(connection: asyncpg.Connection, job_ids: Sequence[int], status: JobStatus) -> list[int]:
    """Move jobs: sent -> starting, sent or starting -> running."""
    if not job_ids:
        return []
    allowed = JOB.sources(status, OWNER)
    rows = await SQL.rows(connection, "start_jobs", job_ids=list(job_ids), status=status, allowed=allowed)
    return [row["job_id"] for row in rows]


async def move(connection: asyncpg.Connection, job_ids: Sequence[int], status: JobStatus) -> list[int]:
    """Move jobs to a state that says nothing about errors or the end of the run."""
    if not job_ids:
        return []
    allowed = JOB.sources(status, OWNER)
    rows = await SQL.rows(connection, "move_jobs", job_ids=list(job_ids), status=status, allowed=allowed)
    return sorted(row["job_id"] for row in rows)


async def end(
    connection: asyncpg.Connection, job_ids: Sequence[int], status: JobStatus, blames: Mapping[int, Blame]
) -> list[int]:
    """Move jobs to a state after the run (holding, failed, finished, ...), with whom to blame."""
    if not job_ids:
        return []
    found = [blames.get(job_id) for job_id in job_ids]
    rows = await SQL.rows(
        connection,
        "end_jobs",
        job_ids=list(job_ids),
        status=status,
        sources=[None if one is None else one.source for one in found],
        codes=[None if one is None else _int4(one.code) for one in found],
        dialogs=[None if one is None else one.dialog[:500] for one in found],
        allowed=JOB.sources(status, OWNER),
    )
    return sorted(row["job_id"] for row in rows)


async def insert_reports(
    connection: asyncpg.Connection, reports: Sequence[tuple[int, int, str, Mapping[str, Any]]]
) -> None:
    """Store (job, attempt, what the report makes of the job, report); a stored report is never replaced."""
    if reports:
        await SQL.run(
            connection,
            "insert_reports",
            job_ids=[one[0] for one in reports],
            attempts=[one[1] for one in reports],
            states=[one[2] for one in reports],
            reports=[dict(one[3]) for one in reports],
        )


async def expected_outputs(connection: asyncpg.Connection, job_ids: Sequence[int]) -> dict[int, list[ExpectedOutput]]:
    """Read the files that these jobs are to write, by job."""
    found: dict[int, list[ExpectedOutput]] = {}
    for row in await SQL.rows(connection, "expected_outputs", job_ids=list(job_ids)) if job_ids else ():
        one = ExpectedOutput(row["lfn"], row["is_log"], row["may_be_absent"])
        found.setdefault(row["job_id"], []).append(one)
    return found


async def taken_names(connection: asyncpg.Connection, job_ids: Sequence[int]) -> list[asyncpg.Record]:
    """Read (job, name) of files that jobs report and that are files of others."""
    return list(await SQL.rows(connection, "taken_names", job_ids=list(job_ids))) if job_ids else []


async def stored_reports(connection: asyncpg.Connection, job_ids: Sequence[int]) -> dict[int, StoredReport]:
    rows = await SQL.rows(connection, "stored_reports", job_ids=list(job_ids))
    return {row["job_id"]: StoredReport(row["state"], row["report"]) for row in rows}


async def task_facts(connection: asyncpg.Connection, task_ids: Sequence[int]) -> dict[int, TaskOfJobs]:
    rows = await SQL.rows(connection, "task_facts", task_ids=sorted(set(task_ids)))
    return {
        row["task_id"]: TaskOfJobs(
            rules=rules_of(row["split_rule"]),
            **{name: value for name, value in row.items() if name != "split_rule"},
        )
        for row in rows
    }


async def input_facts(
    connection: asyncpg.Connection, job_ids: Sequence[int], storages: Mapping[str, Sequence[str]]
) -> list[asyncpg.Record]:
    """Read one row per job and input dataset; `storages` of each queue count as being there."""
    queues = sorted(storages)
    return list(
        await SQL.rows(
            connection,
            "input_facts",
            job_ids=list(job_ids),
            queues=queues,
            storage_lists=[",".join(storages[queue]) for queue in queues],
        )
    )


async def insert_transfers(
    connection: asyncpg.Connection, transfers: Sequence[NewTransfer], direction: str
) -> list[int]:
    if not transfers:
        return []
    rows = await SQL.rows(
        connection,
        "insert_transfers",
        task_ids=[one.task_id for one in transfers],
        job_ids=[one.job_id for one in transfers],
        direction=direction,
        activities=[one.activity for one in transfers],
        sources=[one.source_storage for one in transfers],
        destinations=[one.destination_storage for one in transfers],
        n_files=[one.n_files for one in transfers],
        n_bytes=[one.n_bytes for one in transfers],
        datasets=[",".join(map(str, one.dataset_ids)) for one in transfers],
    )
    return [row["transfer_id"] for row in rows]


async def outputs_of_jobs(connection: asyncpg.Connection, job_ids: Sequence[int]) -> dict[int, list[JobOutput]]:
    """Read what these jobs write, in order of the files' ids."""
    found: dict[int, list[JobOutput]] = {}
    for job_id, *facts in await SQL.rows(connection, "outputs_of_jobs", job_ids=list(job_ids)) if job_ids else ():
        found.setdefault(job_id, []).append(JobOutput(*facts))
    return found


async def waiting_for_transfers(connection: asyncpg.Connection, job_ids: Sequence[int]) -> set[int]:
    rows = await SQL.rows(connection, "waiting_transfers", job_ids=list(job_ids))
    return {row["job_id"] for row in rows}


async def audit(
    connection: asyncpg.Connection, caller: Caller, verb: str, target: str, details: Mapping[str, Any]
) -> None:
    """Record who gave which command to which jobs."""
    await SQL.run(
        connection,
        "audit",
        caller=caller.name,
        roles=sorted(caller.roles),
        verb=verb,
        target=target,
        outcome="done",
        details=dict(details),
    )


async def set_command(connection: asyncpg.Connection, job_id: int, command: str | None) -> bool:
    rows = await SQL.rows(connection, "set_command", job_id=job_id, command=command, allowed=list(LIVE))
    return bool(rows)


async def take_back_commands(connection: asyncpg.Connection, job_id: int, commands: Sequence[str]) -> bool:
    """Tell the pilot none of these any more; whether the job is live."""
    rows = await SQL.rows(connection, "take_back_commands", job_id=job_id, commands=list(commands), allowed=list(LIVE))
    return bool(rows)


async def ended_without_report(connection: asyncpg.Connection, job_ids: Sequence[int]) -> dict[int, EndedJob]:
    """Read those of these jobs that ended, live or archived, before their pilot reported the end."""
    if not job_ids:
        return {}
    ended = sorted(FINAL - {"finished"})
    rows = await SQL.rows(connection, "ended_without_report", job_ids=sorted(set(job_ids)), ended=ended)
    return {
        row["job_id"]: EndedJob(
            row["job_id"], row["attempt_number"], row["claimed_by"], row["vo"] or "", tuple(row["logs"])
        )
        for row in rows
    }


def _locked(rows: Sequence[asyncpg.Record]) -> dict[int, LockedJob]:
    return {
        row["job_id"]: LockedJob(
            ReportedJob(**{name: row[name] for name in _ROW_FIELDS}),
            row["shape_id"],
            row["current_priority"],
            row["job_type"],
            row["prod_source_label"],
            row["order_key_id"],
        )
        for row in rows
    }


def _int4(value: int) -> int:
    return max(-LARGEST_INT4 - 1, min(LARGEST_INT4, value))
