"""Compares the outputs of a task with the catalogue before its final status; mends what it can.

A finished output that the catalogue does not know is registered again where its pilot wrote it; a log without any copy
is taken out of its dataset, which would stay incomplete for ever (JEDI: Tasks with incomplete log datasets). What is
left of a difference is said with the final status (JEDI: Validation in post-processing phase).
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from services.task_definition.tasks.policy.differences import Differences
from services.task_definition.tasks.store.comparisons import SQL
from services.task_definition.tasks.store.tasks import TaskRow
from shared.brokerage.output_places import storage_of_file
from shared.catalogue.port import Catalogue, NewFile
from shared.model.analysis import is_analysis
from shared.model.grid import Grid
from shared.model.job_report import JobReport
from shared.snapshot import KnownGrid

#: a task of a million outputs takes seconds to compare
COMPARE_TIMEOUT_S = 600
REGISTERED_AT_ONCE = 10_000


class Comparing:
    """Contents of a task against the catalogue; the task's row is locked."""

    def __init__(self, catalogue: Catalogue, grid: KnownGrid) -> None:
        self._catalogue, self._grid = catalogue, grid

    async def compare(self, connection: asyncpg.Connection, task: TaskRow) -> Differences:
        """Register what is missing, clean logs; what still differs."""
        n_again = 0
        while missing := await self._missing(connection, task.task_id):
            n_new = await self._register(connection, missing, is_analysis(task.task_type, task.prod_source_label))
            n_again += n_new
            if n_new == 0:
                break
        bare = await SQL.rows(connection, "logs_without_copies", timeout_s=COMPARE_TIMEOUT_S, task_id=task.task_id)
        await self._catalogue.remove_files(connection, [(row["dataset_name"], row["lfn"]) for row in bare])
        row = await SQL.one(connection, "differences", timeout_s=COMPARE_TIMEOUT_S, task_id=task.task_id)
        return Differences(n_registered_again=n_again, n_logs_without_copies=len(bare), **dict(row))

    async def _missing(self, connection: asyncpg.Connection, task_id: int) -> list[asyncpg.Record]:
        return await SQL.rows(
            connection,
            "missing_from_catalogue",
            timeout_s=COMPARE_TIMEOUT_S,
            task_id=task_id,
            at_most=REGISTERED_AT_ONCE,
        )

    async def _register(self, connection: asyncpg.Connection, missing: Sequence[asyncpg.Record], analysis: bool) -> int:
        """Files again whose storage is known; how many the catalogue took."""
        grid = await self._grid.grid(connection)
        files = []
        for row in missing:
            storage = _storage_of(grid, row, analysis=analysis)
            if storage is not None and row["fsize"] is not None:
                files.append(
                    NewFile(
                        row["dataset_name"],
                        row["lfn"],
                        row["fsize"],
                        storage,
                        None,
                        row["checksum"],
                        row["guid"],
                    )
                )
        datasets = {row["dataset_name"]: row for row in missing}
        for name in sorted({one.dataset for one in files}):
            row = datasets[name]
            await self._catalogue.create(connection, name, scope=row["scope"], container=row["container_name"])
        return await self._catalogue.add_files(connection, files)


def _storage_of(grid: Grid, row: asyncpg.Record, *, analysis: bool) -> str | None:
    """Where the file was written, by the rule and the report that it was registered with the first time."""
    if row["queue"] is None:
        return None
    reported = {one.lfn: one for one in JobReport.from_stored(row["report"] or {}).outputs}
    found = reported.get(row["lfn"])
    return storage_of_file(grid, row["queue"], found.storage if found else None, row["token"], analysis=analysis)
