"""Inserts what refining planned: datasets in order, templates; says what of the input is to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import asyncpg

from services.task_definition.data.wishing import Wishes
from services.task_definition.tasks.defining.reading import COMPARE, LOAD, NUMBER
from services.task_definition.tasks.policy.definition_plan import InputDatasetPlan, Refined
from services.task_definition.tasks.policy.input_wishes import InputWish, NumberedUnits, wish_for
from services.task_definition.tasks.policy.scouting import open_for_scouts
from services.task_definition.tasks.policy.unit_limits import UnitLimits
from services.task_definition.tasks.store import definitions as store_definitions
from services.task_definition.tasks.store import readings as store_readings
from services.task_definition.tasks.store.definitions import NewDataset, dataset_of_input
from services.task_definition.tasks.store.numbering import count_pseudo
from services.task_definition.tasks.store.tasks import TaskRow
from shared.catalogue.port import OPEN, Catalogue
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import OUTPUT_TYPES, SEQUENCE_OFFSET, TEMPLATE_TYPES
from shared.states.task import TaskStatus
from shared.task.in_effect import rules_of
from shared.task.stored import with_rules

DATASET_SEQUENCE = "dataset_ids"
#: states in which no job takes a unit as soon as it is read
BEFORE_JOBS: tuple[TaskStatus, ...] = ("registered", "rerefine", "staged", "defined")
Known = Mapping[tuple[str, str], asyncpg.Record]


class Contents:
    """Writes the rows of one refined task, whose row is held."""

    def __init__(self, catalogue: Catalogue, wishes: Wishes) -> None:
        self._catalogue, self._wishes = catalogue, wishes

    async def put(
        self, work: UnitOfWork, task: TaskRow, plan: Refined, *, parent_works: bool, most: UnitLimits
    ) -> None:
        """Every row that is missing; all input is to be read, or read again.

        A dataset that its container no longer lists is taken out, unless jobs have taken files of it.
        """
        rows = await store_definitions.datasets(work, task.task_id)
        known = {(row["dataset_name"], row["stream_name"]): row for row in rows if row["type"] == "input"}
        listed = {(one.name, one.stream) for one in plan.inputs}
        gone = [row["dataset_id"] for key, row in known.items() if key not in listed and row["container_name"]]
        await store_definitions.take_out(work, gone)
        is_new = not any(row["type"] in (*OUTPUT_TYPES, *TEMPLATE_TYPES) for row in rows)
        if is_new and plan.pseudo is not None:  # before the input that jobs of a search read besides
            await self._insert_pseudo(work, task, plan)
        await self._put_inputs(work, task, plan, known, parent_works=parent_works, most=most)
        await self._number_units(work, task, plan)
        if is_new:
            if plan.seed_offset is not None or plan.sequence_offset is not None:
                await self._insert_seeds(work, task, plan)
            first = await store_definitions.first_master(work, task.task_id)
            await self._insert_outputs(work, task, plan, first)
        await store_definitions.put_command_lines(work, task.task_id, plan.command_lines)

    async def compare_unknown(self, work: UnitOfWork, task: TaskRow) -> None:
        """Input datasets that the catalogue has lost are compared with nothing."""
        unknown = set(await store_definitions.unknown_inputs(work, task.task_id))
        rows = [r for r in await store_definitions.datasets(work, task.task_id) if r["dataset_id"] in unknown]
        if not rows:
            return
        await store_definitions.look_again(work, sorted(unknown))
        await store_readings.begin(work, task.task_id)
        for position, row in enumerate(rows):
            wanted = InputWish(is_master=row["master_id"] is None, name=row["dataset_name"], needs_names=False)
            await store_readings.add(work, task.task_id, row["dataset_id"], position, COMPARE, wanted)

    async def _put_inputs(
        self, work: UnitOfWork, task: TaskRow, plan: Refined, known: Known, *, parent_works: bool, most: UnitLimits
    ) -> None:
        masters = [one for one in plan.inputs if one.is_master]
        in_order = [*masters, *(one for one in plan.inputs if not one.is_master)]
        ids = await self._ids(work, task, in_order, known)
        await store_definitions.look_again(work, [ids[one.name, one.stream] for one in in_order])
        counts_files = plan.max_files is not None
        used = await store_readings.used(work, task.task_id, counts_files=counts_files)
        await store_readings.begin(work, task.task_id)
        for position, one in enumerate(in_order):
            before = known.get((one.name, one.stream))
            is_new = before is None or before["n_files"] == 0
            wish = wish_for(
                plan,
                one,
                max_attempt=task.max_attempt,
                max_failure=task.max_failure,
                used=used,
                parent_works=parent_works,
                is_new=is_new,
                takes_unstaged=task.takes_unstaged,
                makes_jobs=task.status not in BEFORE_JOBS,
            )
            wanted, stage = replace(wish, most=most), LOAD if is_new else COMPARE
            await store_readings.add(work, task.task_id, ids[one.name, one.stream], position, stage, wanted)

    async def _ids(
        self, work: UnitOfWork, task: TaskRow, in_order: Sequence[InputDatasetPlan], known: Known
    ) -> dict[tuple[str, str], int]:
        """The rows of the input datasets, inserted if they are new; secondaries name the first master."""
        ids = {key: row["dataset_id"] for key, row in known.items()}
        new = [one for one in in_order if (one.name, one.stream) not in ids]
        for one, dataset_id in zip(new, await work.next_ids(DATASET_SEQUENCE, len(new)), strict=True):
            ids[one.name, one.stream] = dataset_id
        first = next((ids[one.name, one.stream] for one in in_order if one.is_master), None)
        first = first or (await store_definitions.first_master(work, task.task_id) if new else None)
        for one in new:
            master_id = None if one.is_master else first
            row = dataset_of_input(ids[one.name, one.stream], one, master_id)
            await store_definitions.insert_dataset(work, task.task_id, task.vo, row)
        return ids

    async def _insert_seeds(self, work: UnitOfWork, task: TaskRow, plan: Refined) -> None:
        """The dataset that numbers jobs: seeds and places in a sequence follow from the number."""
        offsets = {"offset": plan.seed_offset or 0}
        if plan.sequence_offset is not None:
            offsets[SEQUENCE_OFFSET] = plan.sequence_offset
        [dataset_id] = await work.next_ids(DATASET_SEQUENCE, 1)
        name = f"pseudo_random_seed_{task.task_id}"
        seeds = NewDataset(dataset_id, name, "random_seed", "RNDMSEED", attributes=offsets)
        await store_definitions.insert_dataset(work, task.task_id, task.vo, seeds)
        await store_definitions.make_ready(work, [dataset_id])

    async def _insert_pseudo(self, work: UnitOfWork, task: TaskRow, plan: Refined) -> None:
        assert plan.pseudo is not None
        [dataset_id] = await work.next_ids(DATASET_SEQUENCE, 1)
        await store_definitions.insert_dataset(
            work,
            task.task_id,
            task.vo,
            NewDataset(
                dataset_id, f"pseudo_dataset_{task.task_id}", "pseudo_input", plan.pseudo.stream, state="frozen"
            ),
        )
        if plan.pseudo.names:
            units = _numbered(task, plan)
            names = plan.pseudo.names
            await store_definitions.insert_named_files(work, task.task_id, dataset_id, names, units)
            await count_pseudo(work.connection, dataset_id, units)

    async def _number_units(self, work: UnitOfWork, task: TaskRow, plan: Refined) -> None:
        """The units of a task without input are numbered in slices, from where it was ended before."""
        if plan.pseudo is None or plan.pseudo.names:
            return
        units = _numbered(task, plan)
        for row in await store_definitions.datasets(work, task.task_id):
            if row["type"] == "pseudo_input" and row["n_files"] < units.n_rows:
                name, dataset_id = row["dataset_name"], row["dataset_id"]
                wanted = InputWish(is_master=False, name=name, numbered=units)
                await store_readings.add(work, task.task_id, dataset_id, -1, NUMBER, wanted)

    async def _insert_outputs(self, work: UnitOfWork, task: TaskRow, plan: Refined, provenance_id: int | None) -> None:
        """Output datasets, made of the input dataset with this id, and how their files are named."""
        outputs = plan.outputs
        new_ids = await work.next_ids(DATASET_SEQUENCE, len(outputs.datasets))
        ids = {one.name: dataset_id for one, dataset_id in zip(outputs.datasets, new_ids, strict=True)}
        for one in outputs.datasets:
            new = NewDataset(
                ids[one.name],
                one.name,
                one.type,
                one.stream,
                one.container,
                state=OPEN,
                attributes=one.attributes,
                token=one.token,
                destination=one.destination,
                template_id=ids[one.final] if one.final else None,
                provenance_id=provenance_id,
                scope=one.scope,
            )
            await store_definitions.insert_dataset(work, task.task_id, task.vo, new)
        for template in outputs.templates:
            await store_definitions.insert_template(work, task.task_id, ids[template.dataset], template)

    async def register_outputs(self, work: UnitOfWork, task: TaskRow) -> None:
        """Output datasets that the catalogue does not have yet, as the task is about to make jobs.

        Those of a task that ended before it could make any, and is executed again, are ready but not there.
        """
        outputs = [
            row
            for row in await store_definitions.datasets(work, task.task_id)
            if row["type"] in OUTPUT_TYPES and row["status"] in ("defined", "ready")
        ]
        known = await self._catalogue.find(work.connection, [row["dataset_name"] for row in outputs])
        new = [row for row in outputs if row["status"] == "defined" or row["dataset_name"] not in known]
        for row in new:
            await self._catalogue.create(
                work.connection, row["dataset_name"], scope=row["scope"], container=row["container_name"]
            )
        wanted = [
            {"scope": row["scope"], "name": row["dataset_name"], "container": row["container_name"]} for row in new
        ]
        await self._wishes.create(work, task.task_id, task.vo, wanted)
        await store_definitions.make_ready(work, [row["dataset_id"] for row in new if row["status"] == "defined"])


def _numbered(task: TaskRow, plan: Refined) -> NumberedUnits:
    """The units of a task that reads no dataset, and how many of them its scouts may use."""
    assert plan.pseudo is not None
    pseudo = plan.pseudo
    rules = plan.rules if pseudo.names else rules_of(with_rules(plan.split_rule, n_files_per_job=1))
    [opened] = open_for_scouts(rules, [pseudo.n_rows], split_by_events=False)
    return NumberedUnits(
        n_rows=pseudo.n_rows,
        n_opened=pseudo.n_rows if plan.rules.skip_scout else opened,
        first_event=plan.first_event,
        offset=pseudo.offset,
        events_per_row=pseudo.events_per_row,
        n_events=pseudo.n_events,
        max_attempt=task.max_attempt,
        max_failure=task.max_failure,
    )
