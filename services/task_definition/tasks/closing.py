"""The datasets of a task that has ended: their last status, what is not kept, what is frozen."""

from __future__ import annotations

import asyncpg

from services.task_definition.data.wishing import Wishes
from services.task_definition.tasks.policy.final_status import (
    input_dataset_status,
    output_dataset_status,
)
from services.task_definition.tasks.store.ends import SQL
from services.task_definition.tasks.store.tasks import TaskRow
from shared.catalogue.port import Catalogue
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import INPUT_TYPES, OUTPUT_TYPES
from shared.states import DATASET, Owner
from shared.states.dataset import DatasetStatus
from shared.states.task import FINAL, TaskStatus


class ClosingDatasets:
    """Close the datasets of tasks, here and in catalogues outside."""

    def __init__(self, catalogue: Catalogue, wishes: Wishes) -> None:
        self._catalogue, self._wishes = catalogue, wishes

    async def close(self, work: UnitOfWork, task: TaskRow, status: TaskStatus) -> None:
        """Give each dataset its end: outputs that are not kept are removed, and the others are frozen."""
        connection, task_id = work.connection, task.task_id
        outputs, is_step = dict[str, bool](), task.rules.intermediate_task
        for row in await _datasets(connection, task_id):
            n_files = row["n_files"]
            if row["type"] in OUTPUT_TYPES:
                outputs[row["dataset_name"]] = (
                    row["is_transient"] or is_step
                )  # what a next step reads is kept by no rule
                found: DatasetStatus = output_dataset_status(status, n_files, row["n_files_finished"])
                n_files = row["n_files_finished"]
            elif row["type"] in INPUT_TYPES:
                is_master = row["master_id"] is None
                found = input_dataset_status(n_files, row["n_files_finished"], is_master=is_master)
            else:
                found = "done"
            allowed = DATASET.sources(found, Owner.TASK_DEFINITION)
            await SQL.run(
                connection,
                "close_dataset",
                dataset_id=row["dataset_id"],
                status=found,
                n_files=n_files,
                allowed=allowed,
            )
        leftovers = await SQL.rows(connection, "outputs_not_kept", task_id=task_id)
        await self._catalogue.remove_files(connection, [(row["dataset_name"], row["lfn"]) for row in leftovers])
        free = set(await self._written_by_nobody_else(connection, task_id, list(outputs)))
        await self._catalogue.freeze(connection, [name for name in outputs if name in free])
        not_kept: dict[str, list[str]] = {}
        for row in leftovers:
            not_kept.setdefault(row["dataset_name"], []).append(row["lfn"])
        closed = {name: is_passing for name, is_passing in outputs.items() if name in free}
        await self._wishes.close(work, task_id, task.vo, closed, not_kept)

    @staticmethod
    async def _written_by_nobody_else(connection: asyncpg.Connection, task_id: int, names: list[str]) -> list[str]:
        """Datasets of two tasks, where duplication is allowed, stay open until the second one has ended."""
        rows = await SQL.rows(connection, "written_by_others", task_id=task_id, names=names, over=sorted(FINAL))
        others = {row["dataset_name"] for row in rows}
        return [name for name in names if name not in others]


async def _datasets(connection: asyncpg.Connection, task_id: int) -> list[asyncpg.Record]:
    return await SQL.rows(connection, "datasets_to_close", task_id=task_id)
