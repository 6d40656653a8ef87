"""Outputs of a task that goes on after its end take files again."""

from __future__ import annotations

from services.task_definition.data.store.scopes import given_away
from services.task_definition.data.wishing import Wishes
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store.tasks import TaskRow
from shared.catalogue.port import Catalogue
from shared.db.unit_of_work import UnitOfWork


async def reopen_outputs(work: UnitOfWork, task: TaskRow, catalogue: Catalogue, wishes: Wishes) -> None:
    """Its datasets are ready, and open in its catalogue.

    A transient one that was deleted meanwhile is made anew. What belongs to another VO by now stays as it is.
    """
    rows = await store_commands.reopen_datasets(work, task.task_id)
    foreign = await given_away(work.connection, [row["dataset_name"] for row in rows], task.vo)
    rows = [row for row in rows if row["dataset_name"] not in foreign]
    for row in rows:
        if row["is_transient"]:
            name, scope = row["dataset_name"], row["scope"]
            await catalogue.create(work.connection, name, scope=scope, container=row["container_name"])
    names = [row["dataset_name"] for row in rows]
    await wishes.reopen(work, task.task_id, task.vo, names)
    await catalogue.reopen(work.connection, names)
