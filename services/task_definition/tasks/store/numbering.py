"""Units of tasks that read no dataset: numbered slice by slice, or files by physical name."""

from __future__ import annotations

from dataclasses import asdict

import asyncpg

from services.task_definition.tasks.policy.input_wishes import NumberedUnits
from services.task_definition.tasks.store.readings import DatasetReading
from shared.db.queries import Queries
from shared.states import DATASET, Owner

SQL = Queries.beside(__file__)


async def number_units(connection: asyncpg.Connection, one: DatasetReading, units: NumberedUnits, size: int) -> bool:
    """Add the next units; whether these were the last, with which the dataset is ready."""
    numbers = {name: value for name, value in asdict(units).items() if name != "n_opened"}
    ids = {"task_id": one.task_id, "dataset_id": one.dataset_id}
    n_units: int = await SQL.value(connection, "number_units", timeout_s=60, **ids, size=size, **numbers)
    is_last = n_units >= units.n_rows
    stage = "read" if is_last else one.stage
    await SQL.run(connection, "note_numbered", dataset_id=one.dataset_id, stage=stage)
    if is_last:
        await count_pseudo(connection, one.dataset_id, units)
    return is_last


async def count_pseudo(connection: asyncpg.Connection, dataset_id: int, units: NumberedUnits) -> None:
    """A dataset that the catalogue does not have is ready with all its units."""
    await SQL.run(
        connection,
        "count_pseudo",
        dataset_id=dataset_id,
        n_files=units.n_rows,
        n_opened=units.n_opened,
        n_events=units.n_events,
        allowed=DATASET.sources("ready", Owner.TASK_DEFINITION),
    )
