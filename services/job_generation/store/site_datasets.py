"""Datasets of chosen sites in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.policy.values import Dataset
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)


async def insert_datasets_of_sites(work: UnitOfWork, task_id: int, new: Sequence[Dataset]) -> None:
    """Datasets that were made from templates of the task."""
    await work.because("made for a chosen site")
    await SQL.run(
        work.connection,
        "insert_datasets_of_sites",
        task_id=task_id,
        dataset_ids=[one.dataset_id for one in new],
        names=[one.name for one in new],
        types=[one.type for one in new],
        template_ids=[one.template_id for one in new],
        sites=[one.site for one in new],
    )
