"""Counters of datasets and tasks: whoever changes several takes datasets first, then tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from services.job_generation.policy.counters import CounterChanges, Counts
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)


async def apply(work: UnitOfWork, changes: CounterChanges) -> None:
    """Write what changed, datasets in order of id, and then the jobs of tasks that ended."""
    rows = list(changes.rows())
    if rows:
        await _count_files(work, rows)
    if changes.ended or changes.tried:
        await _count_jobs(work, changes)
    changes.clear()


async def lock_datasets(work: UnitOfWork, task_ids: Iterable[int]) -> None:
    """Hold the datasets of these tasks until the commit: files of several are picked."""
    await SQL.rows(work.connection, "lock_datasets", task_ids=sorted(task_ids))


async def _count_files(work: UnitOfWork, rows: Sequence[tuple[int, Counts]]) -> None:
    await SQL.run(
        work.connection,
        "add_to_counters",
        ids=[dataset_id for dataset_id, _ in rows],
        n_files=[counts.n_files for _, counts in rows],
        used=[counts.n_files_used for _, counts in rows],
        finished=[counts.n_files_finished for _, counts in rows],
        failed=[counts.n_files_failed for _, counts in rows],
        on_hold=[counts.n_files_on_hold for _, counts in rows],
        events=[counts.n_events_used for _, counts in rows],
    )


async def _count_jobs(work: UnitOfWork, changes: CounterChanges) -> None:
    ended, core_s = changes.ended, changes.core_s
    tasks = sorted({task_id for task_id, _ in ended} | changes.tried)
    used = sorted({(task_id, queue) for task_id, queue, _ in core_s})
    await SQL.run(
        work.connection,
        "count_ended_jobs",
        task_ids=tasks,
        n_finished=[ended[one, "finished"] for one in tasks],
        n_failed=[ended[one, "failed"] for one in tasks],
        are_tried=[one in changes.tried for one in tasks],
        used_task_ids=[task_id for task_id, _ in used],
        queues=[queue for _, queue in used],
        finished_core_s=[core_s[task_id, queue, "finished"] for task_id, queue in used],
        failed_core_s=[core_s[task_id, queue, "failed"] for task_id, queue in used],
    )
