"""Searches of hyper-parameter points, and the points that optimisers added, in PostgreSQL."""

from __future__ import annotations

from services.job_generation.policy.values import Unit
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.points import PointSearch
from shared.task.in_effect import SplitRules

SQL = Queries.beside(__file__)


async def begin(work: UnitOfWork, task_id: int, job_set_id: int, unit: Unit, rules: SplitRules) -> PointSearch:
    """A job set that was just inserted works on the search of this file, with the points added so far."""
    await SQL.run(work.connection, "mark_search", job_set_id=job_set_id)
    await SQL.run(
        work.connection, "begin_search", file_id=unit.file_id, task_id=task_id, dataset_id=unit.dataset_id,
        job_set_id=job_set_id, most_points=rules.n_points, per_generation=rules.points_per_generation,
        min_unevaluated=rules.min_unevaluated_points, attempts=rules.range_attempts,
    )  # fmt: skip
    await add_ranges(work, job_set_id)
    return await search_of(work, job_set_id)


async def open_searches(work: UnitOfWork, task_id: int) -> list[int]:
    """The job sets of a task that search."""
    return [row["job_set_id"] for row in await SQL.rows(work.connection, "open_searches", task_id=task_id)]


async def search_of(work: UnitOfWork, job_set_id: int) -> PointSearch:
    """The search that a set works on; its row is locked."""
    return PointSearch(*await SQL.one(work.connection, "search_of_set", job_set_id=job_set_id))


async def note_jobs(work: UnitOfWork, job_set_id: int, n_jobs: int) -> None:
    """So many jobs were made for a search; below 0: were taken back before they ran."""
    await SQL.run(work.connection, "note_jobs", job_set_id=job_set_id, n_jobs=n_jobs)


async def end(work: UnitOfWork, job_set_id: int) -> None:
    """The search of a set is over: another one begins anew."""
    await SQL.run(work.connection, "end_search", job_set_id=job_set_id)


async def has_points(work: UnitOfWork, task_id: int) -> bool:
    """Whether an optimiser added points to a task."""
    return bool(await SQL.value(work.connection, "has_points", task_id=task_id))


async def add_ranges(work: UnitOfWork, job_set_id: int) -> None:
    """Points that were added to the task become ranges of the set."""
    await SQL.run(work.connection, "add_ranges", job_set_id=job_set_id)
