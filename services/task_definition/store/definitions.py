"""The rows that define a task: datasets, units of input, templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import asyncpg

from services.task_definition.policy.outputs import TemplatePlan
from services.task_definition.policy.refine import InputDatasetPlan, PseudoPlan
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states import DATASET, TASK, Owner

SQL = Queries.beside(__file__)
_OWNER = Owner.TASK_DEFINITION


@dataclass(frozen=True)
class NewDataset:
    """One row of `task_datasets`."""

    dataset_id: int
    name: str
    type: str
    stream: str
    container: str | None = None
    master_id: int | None = None
    state: str | None = None
    attributes: dict[str, Any] | None = None
    token: str | None = None
    destination: str | None = None
    template_id: int | None = None
    scope: str | None = None


@dataclass(frozen=True)
class Loaded:
    """What was added to a dataset, and how much of it is open for use."""

    dataset_id: int
    n_units: int
    n_opened: int
    n_events: int | None
    state: str | None


class DefinitionStore:
    """Stateless; every method runs in the caller's transaction."""

    async def datasets(self, connection: asyncpg.Connection, task_id: int) -> list[asyncpg.Record]:
        """Rows of the task's datasets, locked in order of id."""
        return await SQL.rows(connection, "datasets_of_task", task_id=task_id)

    async def refined(self, work: UnitOfWork, task_id: int, split_rule: dict[str, Any]) -> bool:
        await work.because("refined")
        moved = await SQL.value(
            work.connection,
            "refine_task",
            task_id=task_id,
            split_rule=split_rule,
            allowed=TASK.sources("defined", _OWNER),
        )
        return moved is not None

    async def insert_dataset(self, connection: asyncpg.Connection, task_id: int, vo: str, new: NewDataset) -> None:
        await SQL.run(
            connection,
            "insert_dataset",
            task_id=task_id,
            vo=vo,
            dataset_id=new.dataset_id,
            name=new.name,
            container=new.container,
            master_id=new.master_id,
            provenance_id=None,
            state=new.state,
            type=new.type,
            attributes=new.attributes or {},
            stream=new.stream,
            token=new.token,
            destination=new.destination,
            template_id=new.template_id,
            scope=new.scope,
        )

    async def load(self, connection: asyncpg.Connection, loaded: Loaded) -> None:
        """Count what was added; a dataset that was not ready becomes so."""
        facts: dict[str, Any] = {
            "dataset_id": loaded.dataset_id,
            "n_files": loaded.n_units,
            "n_files_opened": loaded.n_opened,
            "n_events": loaded.n_events,
            "state": loaded.state,
        }
        allowed = DATASET.sources("ready", _OWNER)
        if not await SQL.run(connection, "load_dataset", allowed=allowed, **facts):
            await SQL.run(connection, "add_to_dataset", **facts)

    async def ready(self, connection: asyncpg.Connection, dataset_ids: list[int]) -> None:
        await SQL.run(connection, "ready_dataset", dataset_ids=dataset_ids, allowed=DATASET.sources("ready", _OWNER))

    async def insert_pseudo_files(
        self,
        connection: asyncpg.Connection,
        task_id: int,
        dataset_id: int,
        plan: PseudoPlan,
        *,
        first_event: int,
        max_attempt: int,
        max_failure: int | None,
    ) -> None:
        await SQL.run(
            connection,
            "insert_pseudo_files",
            timeout_s=600,
            task_id=task_id,
            dataset_id=dataset_id,
            n_rows=plan.n_rows,
            events_per_row=plan.events_per_row,
            n_events=plan.n_events,
            first_event=first_event,
            max_attempt=max_attempt,
            max_failure=max_failure,
        )

    async def insert_template(
        self, connection: asyncpg.Connection, task_id: int, dataset_id: int, plan: TemplatePlan
    ) -> None:
        await SQL.run(
            connection,
            "insert_template",
            task_id=task_id,
            dataset_id=dataset_id,
            file_name_template=plan.file_name_template,
            first_serial=plan.first_serial,
            stream=plan.stream,
            out_type=plan.out_type,
        )

    async def put_command_lines(self, connection: asyncpg.Connection, task_id: int, template: dict[str, Any]) -> None:
        await SQL.run(connection, "put_command_lines", task_id=task_id, template=template)

    async def input_files_used(self, connection: asyncpg.Connection, task_id: int) -> tuple[int, int]:
        """Distinct files and events among the units of the masters."""
        row = await SQL.row(connection, "input_files_used", task_id=task_id)
        assert row is not None
        return row["n_files"], row["n_events"]


def dataset_of_input(dataset_id: int, plan: InputDatasetPlan, master_id: int | None) -> NewDataset:
    """The row of one input."""
    return NewDataset(
        dataset_id,
        plan.name,
        "input",
        plan.stream,
        plan.container,
        master_id,
        plan.state,
        plan.attributes,
        plan.token,
        scope=plan.scope,
    )
