"""Files of a task that are recovered: who made them, of what, and what becomes of them.

Each function that writes runs in the caller's transaction, with the task's row locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence

import asyncpg

from services.task_definition.tasks.policy.recovery import KnownFile
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.batches import batches
from shared.model.dataset_types import INPUT_TYPES, LOG_TYPES, OUTPUT_TYPES
from shared.states import FILE, Owner
from shared.states.file import FileStatus

SQL = Queries.beside(__file__)
AT_ONCE = 10_000
#: outputs that are made again with the job; its log stays: it says what happened
MADE_AGAIN = tuple(one for one in OUTPUT_TYPES if one not in LOG_TYPES)


async def named_outputs(connection: asyncpg.Connection, task_id: int, names: Sequence[str]) -> list[KnownFile]:
    """Read finished outputs of the task that have these names."""
    return _files(await SQL.rows(connection, "named_outputs", task_id=task_id, names=list(names)))


async def finished_outputs(connection: asyncpg.Connection, task_id: int) -> AsyncIterator[list[KnownFile]]:
    """Read all finished outputs of the task, in slices."""
    after_id = 0
    while rows := await SQL.rows(connection, "finished_outputs", task_id=task_id, after_id=after_id, size=AT_ONCE):
        after_id = rows[-1]["file_id"]
        yield _files(rows)


async def makers(connection: asyncpg.Connection, job_ids: Collection[int]) -> list[int]:
    """Find the jobs of lost files with those that they merged, and whatever else was merged of these."""
    found, new = set(job_ids), set(job_ids)
    while new:
        rows = await SQL.rows(connection, "merged_with", job_ids=sorted(new))
        new = {row["job_id"] for row in rows} - found
        found |= new
    return sorted(found)


async def outputs_of_jobs(connection: asyncpg.Connection, task_id: int, job_ids: Sequence[int]) -> list[KnownFile]:
    """Read the outputs of these jobs, without their logs."""
    rows = await SQL.rows(connection, "outputs_of_jobs", task_id=task_id, job_ids=list(job_ids), types=list(MADE_AGAIN))
    return _files(rows)


async def jobs_of_dropped_files(connection: asyncpg.Connection, job_ids: Sequence[int]) -> list[int]:
    """Find jobs of which it is not known any more what they read."""
    return [row["job_id"] for row in await SQL.rows(connection, "jobs_of_dropped_files", job_ids=list(job_ids))]


async def inputs_of_jobs(connection: asyncpg.Connection, task_id: int, job_ids: Sequence[int]) -> list[KnownFile]:
    """Read the input that these jobs used."""
    rows = await SQL.rows(connection, "inputs_of_jobs", task_id=task_id, job_ids=list(job_ids), types=list(INPUT_TYPES))
    return _files(rows)


async def makers_of_files(connection: asyncpg.Connection, task_id: int, names: Sequence[str]) -> list[asyncpg.Record]:
    """Find other tasks that finished outputs of these names."""
    return await SQL.rows(connection, "makers_of_files", task_id=task_id, names=list(names))


async def lose(work: UnitOfWork, task_id: int, files: Sequence[KnownFile], *, reason: str) -> None:
    """Move finished files to `lost`."""
    await _set(work, task_id, files, "lost", more=0, reason=reason)


async def reopen_inputs(work: UnitOfWork, task_id: int, files: Sequence[KnownFile], *, more: int, reason: str) -> None:
    """Move finished input to `ready`, with `more` attempts."""
    await _set(work, task_id, files, "ready", more=more, reason=reason)


async def _set(
    work: UnitOfWork, task_id: int, files: Sequence[KnownFile], status: FileStatus, *, more: int, reason: str
) -> None:
    """Move finished files to `ready` or `lost`, with their counters and the log."""
    allowed = [one for one in FILE.sources(status, Owner.TASK_DEFINITION) if one == "finished"]
    for some in batches(list(files), AT_ONCE):
        rows = await SQL.rows(
            work.connection,
            "set_files",
            file_ids=[one.file_id for one in some],
            status=status,
            allowed=allowed,
            more=more,
        )
        if not rows:
            continue
        counts = Counter(row["dataset_id"] for row in rows)
        events = Counter[int]()
        for row in rows:
            events[row["dataset_id"]] += row["n_events"]
        ids = sorted(counts)
        await SQL.run(
            work.connection,
            "count_recovered",
            dataset_ids=ids,
            files=[counts[one] for one in ids],
            events=[events[one] for one in ids],
        )
        await work.log_files(
            entity="file",
            task_id=task_id,
            ids=sorted(row["file_id"] for row in rows),
            from_status="finished",
            to_status=status,
            reason=reason,
        )


async def note_parent(connection: asyncpg.Connection, task_id: int, parent_id: int) -> None:
    """Store which task makes the input that this one waits for."""
    await SQL.run(connection, "note_parent", task_id=task_id, parent_id=parent_id)


async def redirect(work: UnitOfWork, task_id: int, name: str, other: str) -> str:
    """Send what goes to the dataset `name` to a new one, `other`; give the new one's scope."""
    [dataset_id] = await work.next_ids("dataset_ids", 1)
    row = await SQL.one(work.connection, "copy_dataset", task_id=task_id, name=name, other=other, dataset_id=dataset_id)
    await SQL.run(work.connection, "move_templates", old_id=row["old_id"], new_id=dataset_id)
    await SQL.run(work.connection, "move_unmerged", task_id=task_id, old_id=row["old_id"], new_id=dataset_id)
    return str(row["scope"] or "")


def _files(rows: Sequence[asyncpg.Record]) -> list[KnownFile]:
    return [KnownFile(**dict(row)) for row in rows]
