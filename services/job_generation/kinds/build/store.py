"""Builds of tasks by site."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.kinds.build.policy import SiteBuild
from services.job_generation.store.results import EndedJob
from services.job_generation.store.units import unit_of
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import LIBRARY_STREAM

SQL = Queries.beside(__file__)


async def builds(work: UnitOfWork, task_id: int) -> dict[str, SiteBuild]:
    """Every build of a task by its site, with the library where it is made."""
    return {
        row["site"]: SiteBuild(
            row["site"],
            row["build_job_id"],
            None if row["file_id"] is None else unit_of(row),
            row["n_failures"],
            row["under_way_s"],
        )
        for row in await SQL.rows(work.connection, "builds_of_task", task_id=task_id)
    }


async def begin(work: UnitOfWork, task_id: int, site: str, job_id: int) -> None:
    """A build job was made for a site."""
    await SQL.run(work.connection, "begin_build", task_id=task_id, site=site, job_id=job_id)


async def end(work: UnitOfWork, task_id: int, jobs: Sequence[EndedJob]) -> None:
    """Build jobs ended: the library is there, or the site is without a build again.

    What was killed is no failure.
    """
    ids = [job.job_id for job in jobs]
    await SQL.run(work.connection, "keep_libraries", task_id=task_id, job_ids=ids, stream=LIBRARY_STREAM)
    failed = [job.job_id for job in jobs if job.status in ("failed", "finished")]
    await SQL.run(work.connection, "end_builds", task_id=task_id, job_ids=ids, failed=failed)
