"""Tasks that are in the archive alone: what they were, as it is told of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from services.task_definition.tasks.policy.file_status import FileInTask, shown_status
from shared.auth import Caller
from shared.auth.access import DETAILS, Whose
from shared.auth.state_view import TASK_COLUMNS, state_of
from shared.db.queries import Queries
from shared.model.dataset_types import INPUT_TYPES
from shared.states.task import TaskStatus

SQL = Queries.beside(__file__)
#: counters of master inputs, by the names under which they are told
_COUNTERS = {
    "total": "n_files",
    "opened": "n_files_to_be_used",
    "used": "n_files_used",
    "finished": "n_files_finished",
    "failed": "n_files_failed",
    "on_hold": "n_files_on_hold",
    "waiting": "n_files_waiting",
}


@dataclass(frozen=True)
class ArchivedTask:
    """A task that ended so long ago that nothing but this is left."""

    task_id: int
    status: TaskStatus
    whose: Whose
    archived_at: datetime
    row: Mapping[str, Any]
    parameters: Mapping[str, Any]
    datasets: Sequence[Mapping[str, Any]]

    def files(self) -> dict[str, int]:
        """Count the files of its master inputs."""
        masters = [one for one in self.datasets if one["type"] in INPUT_TYPES and one["master_id"] is None]
        return {name: sum(one[column] or 0 for one in masters) for name, column in _COUNTERS.items()}

    def details(self, caller: Caller) -> dict[str, Any]:
        """Tell every fact and its datasets; to those who may not have them its state and counts."""
        found = {**self.row, "archived_at": self.archived_at, "files": self.files(), "jobs": {}}
        if not self.is_told_to(caller):
            return {**state_of(found, TASK_COLUMNS), "datasets": []}
        return {**found, "datasets": [dict(one) for one in self.datasets]}

    def is_told_to(self, caller: Caller) -> bool:
        """Tell whether a caller may have its details."""
        return DETAILS.allows(caller, self.whose)


async def archived_task(connection: asyncpg.Connection, task_id: int) -> ArchivedTask | None:
    """Read a task of the archive; None where there is none."""
    row = await SQL.row(connection, "archived_task", task_id=task_id)
    if row is None:
        return None
    whose = Whose.of(row["user_name"], row["vo"])
    return ArchivedTask(
        row["task_id"], row["status"], whose, row["archived_at"], row["task"], row["task_parameters"] or {},
        row["datasets"],
    )  # fmt: skip


async def datasets_and_files(
    connection: asyncpg.Connection, task: ArchivedTask, types: Sequence[str] | None, at_most: int
) -> list[dict[str, Any]]:
    """Read datasets of an archived task with at most so many of their files each."""
    datasets = [one for one in task.datasets if types is None or one["type"] in types]
    rows = await SQL.rows(
        connection, "archived_files", task_id=task.task_id, dataset_ids=[one["dataset_id"] for one in datasets],
        at_most=at_most,
    )  # fmt: skip
    files: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        file = row["file"]
        files[row["dataset_id"]].append(
            {**file, "shown_status": shown_status(FileInTask(file["type"], file["status"]))}
        )
    return [{**one, "files": files[one["dataset_id"]]} for one in datasets]
