"""Parts of a task that wait by themselves while the rest goes on: its merges and its job sets."""

from __future__ import annotations

from collections.abc import Sequence

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)
MERGES, JOB_SETS = "merge", "job sets"
#: work that does not wait with its task, whatever that waits for
WAITS_BY_ITSELF = frozenset({MERGES, JOB_SETS})


async def held_merges(work: UnitOfWork, task_id: int) -> set[tuple[str | None, int | None]]:
    """Queues and memory whose merges wait."""
    return {(row["queue"], row["ram_mb"]) for row in await SQL.rows(work.connection, "held_merges", task_id=task_id)}


async def release_merges(work: UnitOfWork, task_id: int, queue: str | None = None) -> None:
    """Merges at this queue, or all, need not wait longer."""
    await SQL.run(work.connection, "release_merges", task_id=task_id, queue=queue)


async def release_woken_merges(work: UnitOfWork, task_id: int) -> None:
    """Merges need not wait longer for what has been lifted."""
    await SQL.run(work.connection, "release_woken_merges", task_id=task_id)


async def woken_work(work: UnitOfWork, task_id: int) -> set[str]:
    """Which work of a task was woken and is to be tried now."""
    return {row["work"] for row in await SQL.rows(work.connection, "woken_work", task_id=task_id)}


async def due_merges(work: UnitOfWork, statuses: Sequence[str], at_most: int) -> list[int]:
    """Tasks with merges whose longest wait is over."""
    rows = await SQL.rows(work.connection, "due_merges", statuses=list(statuses), at_most=at_most)
    return [row["task_id"] for row in rows]


async def release_due_merges(work: UnitOfWork, task_id: int) -> None:
    """Merges of a task whose longest wait is over."""
    await SQL.run(work.connection, "release_due_merges", task_id=task_id)


async def leave_gate(work: UnitOfWork, task_id: int) -> None:
    """Input went through the gate of its share: the task waits there no more."""
    await SQL.run(work.connection, "leave_gate", task_id=task_id)


async def wait_as_job_sets(work: UnitOfWork, task_id: int, chunk_id: int) -> None:
    """What held the input of a chunk holds the job sets that were made of it."""
    await SQL.run(work.connection, "wait_as_job_sets", task_id=task_id, chunk_id=chunk_id)


async def more_output_comes(work: UnitOfWork, task_id: int, dataset_ids: Sequence[int], live: Sequence[str]) -> bool:
    """Whether input of the task is on its way to jobs: in a chunk, or open in these datasets."""
    found = await SQL.value(
        work.connection, "more_output_comes", task_id=task_id, dataset_ids=list(dataset_ids), live=list(live)
    )
    return bool(found)
