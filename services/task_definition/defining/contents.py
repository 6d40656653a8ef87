"""Inserts what refining planned: datasets in order, their contents from the catalogue, templates."""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg

from services.task_definition.policy.refine import InputDatasetPlan, Refined
from services.task_definition.policy.scouting import open_for_scouts
from services.task_definition.store.definitions import DefinitionStore, Loaded, NewDataset, dataset_of_input
from services.task_definition.store.tasks import TaskRow
from shared.brokerage.smallest_job import least_secondary_files, most_secondary_files
from shared.catalogue.port import OPEN, Catalogue, FeedRequest, FeedResult
from shared.db.unit_of_work import UnitOfWork

DATASET_SEQUENCE = "dataset_ids"


class InputTrouble(Exception):
    """The input cannot be used now (`temporary`) or ever; everything inserted so far is rolled back."""

    def __init__(self, reason: str, *, temporary: bool) -> None:
        super().__init__(reason)
        self.reason, self.temporary = reason, temporary


class Contents:
    """Writes the rows of one refined task."""

    def __init__(self, store: DefinitionStore, catalogue: Catalogue) -> None:
        self._store, self._catalogue = store, catalogue

    async def insert(self, work: UnitOfWork, task: TaskRow, plan: Refined) -> int:
        """Everything for a task that has no rows yet; how many units of input it has. Raises InputTrouble."""
        connection = work.connection
        n_units = await self._insert_inputs(work, task, plan, {})
        if plan.pseudo is not None:
            n_units += await self._insert_pseudo(work, task, plan)
        if plan.seed_offset is not None:
            [seeds] = await work.next_ids(DATASET_SEQUENCE, 1)
            attributes = {"offset": plan.seed_offset}
            await self._store.insert_dataset(
                connection,
                task.task_id,
                task.vo,
                NewDataset(
                    seeds, f"pseudo_random_seed_{task.task_id}", "random_seed", "RNDMSEED", attributes=attributes
                ),
            )
            await self._store.ready(connection, [seeds])
        await self._insert_outputs(work, task, plan)
        await self._store.put_command_lines(connection, task.task_id, plan.command_lines)
        return n_units

    async def extend(self, work: UnitOfWork, task: TaskRow, plan: Refined) -> int:
        """For a task that has rows: new input datasets and new files of known ones; units added to masters."""
        known = {
            (row["dataset_name"], row["stream_name"]): row
            for row in await self._store.datasets(work.connection, task.task_id)
            if row["type"] == "input"
        }
        added = await self._insert_inputs(work, task, plan, known)
        await self._store.put_command_lines(work.connection, task.task_id, plan.command_lines)
        return added

    async def _insert_inputs(
        self, work: UnitOfWork, task: TaskRow, plan: Refined, known: Mapping[tuple[str, str], asyncpg.Record]
    ) -> int:
        masters = [one for one in plan.inputs if one.is_master]
        ids: dict[tuple[str, str], int] = {key: row["dataset_id"] for key, row in known.items()}
        fed = await self._feed_masters(work, task, plan, masters, ids)
        if masters and not known and not any(result.n_units for result in fed):
            self._check_empty(plan, masters)
        split = any(one.events_per_unit for one in masters)
        opened = [result.n_units for result in fed]
        if not known:
            opened = open_for_scouts(plan.split_rule, opened, split_by_events=split)
        for one, result, n_opened in zip(masters, fed, opened, strict=True):
            await self._store.load(
                work.connection,
                Loaded(ids[one.name, one.stream], result.n_units, n_opened, result.n_events, one.state),
            )
        if masters:
            master_id = ids[masters[0].name, masters[0].stream]
            for one in plan.inputs:
                if not one.is_master:
                    await self._feed_secondary(work, task, plan, one, master_id, ids, known, fed)
        return sum(result.n_units for result in fed)

    async def _feed_masters(
        self,
        work: UnitOfWork,
        task: TaskRow,
        plan: Refined,
        masters: list[InputDatasetPlan],
        ids: dict[tuple[str, str], int],
    ) -> list[FeedResult]:
        """Limits and the running event number go on from one dataset to the next."""
        used_files, used_events = await self._store.input_files_used(work.connection, task.task_id)
        by_boundary = bool(plan.split_rule.get("groupBoundaryID"))  # a boundary is a luminosity block
        results = []
        for one in masters:
            dataset_id = await self._dataset_id(work, task, one, None, ids)
            result = await self._catalogue.feed(
                work.connection,
                FeedRequest(
                    task_id=task.task_id,
                    dataset_id=dataset_id,
                    dataset=one.name,
                    type="input",
                    max_attempt=task.max_attempt,
                    max_failure=task.max_failure,
                    max_files=None if plan.max_files is None else max(0, plan.max_files - used_files),
                    max_events=None if plan.max_events is None else max(0, plan.max_events - used_events),
                    events_per_unit=one.events_per_unit,
                    events_per_file=one.events_per_file,
                    first_event=plan.first_event + used_events,
                    names=one.names,
                    include=one.include,
                    exclude=one.exclude,
                    skip_files_used_by=tuple(plan.split_rule.get("skipFilesUsedBy") or ()),
                    by_lumi_block=bool(plan.split_rule.get("orderByLB")) or by_boundary,
                    respect_lumi_blocks=bool(plan.split_rule.get("respectLB")) or by_boundary,
                ),
            )
            used_files, used_events = used_files + result.n_files, used_events + (result.n_events or 0)
            results.append(result)
        return results

    async def _feed_secondary(
        self,
        work: UnitOfWork,
        task: TaskRow,
        plan: Refined,
        one: InputDatasetPlan,
        master_id: int,
        ids: dict[tuple[str, str], int],
        known: Mapping[tuple[str, str], asyncpg.Record],
        fed: list[FeedResult],
    ) -> None:
        """Files by ratio to the master's units, as jobs take them, or all of them where jobs share them.

        Of a task that has rows what no job has taken yet counts too: of the files, and of the units that need them.
        """
        dataset_id = await self._dataset_id(work, task, one, master_id, ids)
        ratio = one.files_per_master_file
        n_units = sum(result.n_units for result in fed)
        result = await self._catalogue.feed(
            work.connection,
            FeedRequest(
                task_id=task.task_id,
                dataset_id=dataset_id,
                dataset=one.name,
                type="input",
                max_attempt=None,
                max_files=None if ratio is None else most_secondary_files(ratio, n_units),
                names=one.names,
                include=one.include,
                exclude=one.exclude,
            ),
        )
        before = known.get((one.name, one.stream))
        n_files = result.n_files + (_untaken(before) if before is not None else 0)
        n_units += sum(_untaken(row) for row in known.values() if row["master_id"] is None) if n_units else 0
        needed = 0 if ratio is None else least_secondary_files(ratio, n_units, plan.units_per_job)
        if n_files < needed:
            raise InputTrouble(
                f"secondary dataset {one.name} has {n_files} files for other jobs to take, but {n_units} files or "
                f"ranges of events of the master need {needed} (ratio {ratio:g})",
                temporary=one.state == OPEN,
            )
        await self._store.load(
            work.connection, Loaded(dataset_id, result.n_units, result.n_units, result.n_events, one.state)
        )

    async def _dataset_id(
        self,
        work: UnitOfWork,
        task: TaskRow,
        one: InputDatasetPlan,
        master_id: int | None,
        ids: dict[tuple[str, str], int],
    ) -> int:
        """The row of an input dataset, inserted if it is new."""
        key = (one.name, one.stream)
        if key not in ids:
            [ids[key]] = await work.next_ids(DATASET_SEQUENCE, 1)
            new = dataset_of_input(ids[key], one, master_id)
            await self._store.insert_dataset(work.connection, task.task_id, task.vo, new)
        return ids[key]

    @staticmethod
    def _check_empty(plan: Refined, masters: list[InputDatasetPlan]) -> None:
        if plan.split_rule.get("allowEmptyInput"):
            return
        names = ", ".join(one.name for one in masters)
        still_open = any(one.state == OPEN for one in masters)
        raise InputTrouble(
            f"no file of {names} can be used" + ("; it is still open" if still_open else ""),
            temporary=still_open or bool(plan.split_rule.get("waitInput")),
        )

    async def _insert_pseudo(self, work: UnitOfWork, task: TaskRow, plan: Refined) -> int:
        assert plan.pseudo is not None
        [dataset_id] = await work.next_ids(DATASET_SEQUENCE, 1)
        await self._store.insert_dataset(
            work.connection,
            task.task_id,
            task.vo,
            NewDataset(dataset_id, f"pseudo_dataset_{task.task_id}", "pseudo_input", "SEQNUMBER", state="frozen"),
        )
        await self._store.insert_pseudo_files(
            work.connection,
            task.task_id,
            dataset_id,
            plan.pseudo,
            first_event=plan.first_event,
            max_attempt=task.max_attempt,
            max_failure=task.max_failure,
        )
        n_rows = plan.pseudo.n_rows
        [opened] = open_for_scouts({**plan.split_rule, "nFilesPerJob": 1}, [n_rows], split_by_events=False)
        if plan.split_rule.get("skipScout"):
            opened = n_rows
        await self._store.load(work.connection, Loaded(dataset_id, n_rows, opened, plan.pseudo.n_events, "frozen"))
        return n_rows

    async def _insert_outputs(self, work: UnitOfWork, task: TaskRow, plan: Refined) -> None:
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
                scope=one.scope,
            )
            await self._store.insert_dataset(work.connection, task.task_id, task.vo, new)
            await self._catalogue.create(work.connection, one.name, scope=one.scope, container=one.container)
        await self._store.ready(work.connection, new_ids)
        for template in outputs.templates:
            await self._store.insert_template(work.connection, task.task_id, ids[template.dataset], template)


def _untaken(row: asyncpg.Record) -> int:
    """Files of a dataset, or units of a master, that no job has taken, or that came back."""
    return max(0, row["n_files"] - row["n_files_used"])
