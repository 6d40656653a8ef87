"""The rows that define a task: datasets, units of input, templates.

Each function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from services.task_definition.tasks.policy.definition_plan import InputDatasetPlan
from services.task_definition.tasks.policy.input_wishes import NumberedUnits
from services.task_definition.tasks.policy.outputs import TemplatePlan
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
    provenance_id: int | None = None
    scope: str | None = None


@dataclass(frozen=True)
class Loaded:
    """A dataset that is read: how many units are opened for use now, its state in the catalogue.

    `n_older`: files of it that are not used, for it has newer attempts of them; `n_not_made`:
    for the parent has not finished them.
    """

    dataset_id: int
    n_opened: int
    state: str
    n_older: int = 0
    n_not_made: int = 0


async def datasets(work: UnitOfWork, task_id: int) -> list[asyncpg.Record]:
    """Lock the rows of the task's datasets in order of id."""
    return await SQL.rows(work.connection, "datasets_of_task", task_id=task_id)


async def refine(work: UnitOfWork, task_id: int, split_rule: dict[str, Any]) -> bool:
    """Compare and set a task to defined, with the rules that follow from its parameters."""
    await work.because("refined")
    moved = await SQL.value(
        work.connection, "refine_task", task_id=task_id, split_rule=split_rule, allowed=TASK.sources("defined", _OWNER)
    )
    return moved is not None


async def insert_dataset(work: UnitOfWork, task_id: int, vo: str, new: NewDataset) -> None:
    columns = {**vars(new), "attributes": new.attributes or {}}
    await SQL.run(work.connection, "insert_dataset", task_id=task_id, vo=vo, **columns)


async def look_again(work: UnitOfWork, dataset_ids: list[int]) -> None:
    """Have input read again that was looked at before; new datasets stay defined."""
    await work.because("its input is read again")
    allowed = DATASET.sources("toupdate", _OWNER)
    await SQL.run(work.connection, "look_again", dataset_ids=dataset_ids, allowed=allowed)


async def take_out(work: UnitOfWork, dataset_ids: list[int]) -> None:
    """Take out datasets that their container no longer lists, unless jobs have taken files of them."""
    if dataset_ids:
        await work.because("its container does not list it any more")
        allowed = DATASET.sources("removed", _OWNER)
        await SQL.run(work.connection, "take_out", dataset_ids=dataset_ids, allowed=allowed)


async def note_loaded(work: UnitOfWork, loaded: list[Loaded], *, checked_for_s: float) -> None:
    """Make datasets ready, with what is opened of them; they are looked at again for so long."""
    await work.because("contents loaded")
    await SQL.run(
        work.connection,
        "dataset_loaded",
        dataset_ids=[one.dataset_id for one in loaded],
        opened=[one.n_opened for one in loaded],
        states=[one.state for one in loaded],
        older=[one.n_older for one in loaded],
        not_made=[one.n_not_made for one in loaded],
        checked_for_s=checked_for_s,
        allowed=[*DATASET.sources("ready", _OWNER), "ready"],
    )


async def put_off(work: UnitOfWork, dataset_ids: list[int], reason: str, *, checked_for_s: float) -> None:
    """Put off input that cannot be used now."""
    await work.because(reason)
    allowed = DATASET.sources("pending", _OWNER)
    await SQL.run(work.connection, "put_off", dataset_ids=dataset_ids, checked_for_s=checked_for_s, allowed=allowed)


async def unknown_inputs(work: UnitOfWork, task_id: int) -> list[int]:
    """Find input datasets that the catalogue does not know any more."""
    rows = await SQL.rows(work.connection, "unknown_inputs", task_id=task_id)
    return [row["dataset_id"] for row in rows]


async def break_useless(work: UnitOfWork, dataset_ids: list[int]) -> None:
    """Break those of these datasets that have lost and broken files only."""
    await work.because("all its files are lost or broken")
    allowed = DATASET.sources("broken", _OWNER)
    await SQL.run(work.connection, "break_useless", dataset_ids=dataset_ids, allowed=allowed)


async def give_up(work: UnitOfWork, task_id: int, broken: list[int], reason: str) -> None:
    """End the datasets of a task that breaks: broken are those that it breaks for, failed all others."""
    await work.because(reason)
    allowed = DATASET.sources("broken", _OWNER)
    await SQL.run(work.connection, "break_datasets", dataset_ids=broken, allowed=allowed)
    allowed = DATASET.sources("failed", _OWNER)
    await SQL.run(work.connection, "fail_datasets", task_id=task_id, allowed=allowed)


async def make_ready(work: UnitOfWork, dataset_ids: list[int]) -> None:
    await SQL.run(work.connection, "ready_dataset", dataset_ids=dataset_ids, allowed=DATASET.sources("ready", _OWNER))


async def insert_named_files(
    work: UnitOfWork, task_id: int, dataset_id: int, names: Sequence[tuple[str, int | None]], units: NumberedUnits
) -> None:
    """Insert the units of a task that lists files by physical name."""
    await SQL.run(
        work.connection, "insert_named_files", timeout_s=600, task_id=task_id, dataset_id=dataset_id,
        names=[name for name, _ in names], events=[n_events for _, n_events in names],
        first_event=units.first_event, max_attempt=units.max_attempt, max_failure=units.max_failure,
    )  # fmt: skip


async def insert_template(work: UnitOfWork, task_id: int, dataset_id: int, plan: TemplatePlan) -> None:
    await SQL.run(
        work.connection,
        "insert_template",
        task_id=task_id,
        dataset_id=dataset_id,
        file_name_template=plan.file_name_template,
        first_serial=plan.first_serial,
        stream=plan.stream,
        out_type=plan.out_type,
    )


async def put_command_lines(work: UnitOfWork, task_id: int, template: dict[str, Any]) -> None:
    await SQL.run(work.connection, "put_command_lines", task_id=task_id, template=template)


async def first_master(work: UnitOfWork, task_id: int) -> int | None:
    """Find the dataset that the jobs of a task are made of."""
    found: int | None = await SQL.value(work.connection, "first_master", task_id=task_id)
    return found


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
