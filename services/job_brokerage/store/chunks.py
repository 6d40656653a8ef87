"""SQL of the decisions: the offered chunk, its input and copies, and the decision as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from services.job_brokerage.policy.request import TaskHistory
from shared.brokerage.decision import Decision
from shared.brokerage.matchmaking import Advert
from shared.brokerage.request import InputDataset
from shared.brokerage.smallest_job import SecondaryInput
from shared.catalogue import CatalogueReader
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.storage import Storage
from shared.snapshot.inputs import history_of_task, inputs_of_chunk, secondary_inputs_of_chunk

SQL = Queries.beside(__file__)

KEPT_PER_TASK = 20
KEPT_DAYS = 7


class BrokerageStore:
    """Stateless; everything happens in the caller's transaction."""

    def __init__(self, catalogue: CatalogueReader) -> None:
        self._catalogue = catalogue

    async def offered_chunk(self, work: UnitOfWork, chunk_id: int) -> Mapping[str, Any] | None:
        """Read the chunk with its task; None if it no longer waits for queues."""
        row = await SQL.row(work.connection, "offered_chunk", chunk_id=chunk_id)
        return None if row is None else dict(row)

    async def chunk_inputs(
        self, work: UnitOfWork, chunk_id: int, storages: Mapping[str, Storage]
    ) -> tuple[InputDataset, ...]:
        """Read what the chunk holds of each dataset, and where copies of it are."""
        return await inputs_of_chunk(self._catalogue, work.connection, chunk_id, storages)

    async def secondary_inputs(self, work: UnitOfWork, chunk_id: int) -> tuple[SecondaryInput, ...]:
        """Read the task's input that follows the files of the chunk."""
        return await secondary_inputs_of_chunk(self._catalogue, work.connection, chunk_id)

    async def task_history(self, work: UnitOfWork, task_id: int) -> TaskHistory:
        """Read how far a task is, and where it has had jobs."""
        row = await history_of_task(work.connection, task_id)
        return TaskHistory(row["n_files"], row["n_finished"], tuple(row["queues_used"]))

    async def site_adverts(self, work: UnitOfWork) -> tuple[Advert, ...]:
        """Read what sites advertised within the last minutes."""
        return tuple([Advert.of(dict(row)) for row in await SQL.rows(work.connection, "live_adverts")])

    async def save(self, work: UnitOfWork, decision: Decision) -> int:
        """Store a decision with all its numbers; its id."""
        decision_id: int = await SQL.value(work.connection, "insert_decision", **decision.packed())
        return decision_id

    async def forget_old(self, work: UnitOfWork) -> None:
        """Delete decisions that are not recent; periodic.

        The last ones of each task and kind are kept for a week, and of tasks at work the very last.
        """
        older_than = work.now - timedelta(days=KEPT_DAYS)
        await SQL.run(work.connection, "forget_decisions", keep=KEPT_PER_TASK, older_than=older_than)
