"""Live tasks as task files: what a dry run needs to decide on a task as the brokerages would do now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import asyncpg

from services.task_definition.tasks.policy.task_file import (
    BoundaryPart,
    ChangeableColumn,
    ChunkPart,
    InputPart,
    ParentPart,
    ReplicaPart,
    StatePart,
    TaskFile,
)
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.auth import Caller
from shared.auth.access import PRODUCTION, Whose
from shared.brokerage.request import InputDataset
from shared.catalogue import CatalogueReader
from shared.db.queries import Queries
from shared.model.dataset_types import WITHOUT_DATA
from shared.model.storage import Storage
from shared.snapshot.inputs import history_of_task, inputs_of_chunk, inputs_of_task

SQL = Queries.beside(__file__)


class NoSuchTask(LookupError):
    """Some of the tasks do not exist, or not for the caller; `task_ids` are theirs."""

    def __init__(self, task_ids: Sequence[int]) -> None:
        self.task_ids = tuple(task_ids)
        super().__init__(f"there is no task {', '.join(map(str, task_ids))}")


class TaskFiles:
    """Reads only; everything of one call is of one moment."""

    def __init__(self, catalogue: CatalogueReader) -> None:
        self._catalogue = catalogue

    async def save(
        self,
        connection: asyncpg.Connection,
        task_ids: Sequence[int],
        storages: Mapping[str, Storage],
        caller: Caller,
    ) -> list[TaskFile]:
        """The task file of each task, in the order asked.

        Raises NoSuchTask with every id that is unknown, or of a VO of which the caller is not production.
        """
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            found = [await self._one(connection, task_id, storages, caller) for task_id in task_ids]
        missing = [task_id for task_id, file in zip(task_ids, found, strict=True) if file is None]
        if missing:
            raise NoSuchTask(missing)
        return [file for file in found if file is not None]

    async def _one(
        self, connection: asyncpg.Connection, task_id: int, storages: Mapping[str, Storage], caller: Caller
    ) -> TaskFile | None:
        row = await SQL.row(connection, "task_of_file", task_id=task_id)
        if row is None or not PRODUCTION.allows(caller, Whose.of(row["user_name"], row["vo"])):
            return None
        datasets, inputs = await inputs_of_task(self._catalogue, connection, task_id, storages)
        parts = _parts_of_task(datasets, inputs)
        chunk = await SQL.row(connection, "chunk_of_file", task_id=task_id)
        history = await history_of_task(connection, task_id)
        seed = await SQL.value(connection, "seed_of_file", task_id=task_id, chunk_id=None)
        return TaskFile(
            parameters=row["task_parameters"],
            state=_state(row, history, seed),
            inputs=parts,
            chunk=await self._chunk(connection, chunk, storages) if chunk else None,
        )

    async def _chunk(
        self, connection: asyncpg.Connection, chunk: asyncpg.Record, storages: Mapping[str, Storage]
    ) -> ChunkPart:
        """The chunk as the brokerage reads it while it is offered; its input is null where it was not kept."""
        chunk_id = chunk["chunk_id"]
        held = await inputs_of_chunk(self._catalogue, connection, chunk_id, storages) if chunk["has_inputs"] else None
        return ChunkPart(
            chunk_id=chunk_id,
            kind=chunk["kind"],
            files=chunk["n_files"],
            events=chunk["n_events"],
            bytes=chunk["input_bytes"],
            queue=chunk["queue"],
            priority=chunk["priority"],
            ram_mb=chunk["ram_mb"],
            waiting_since=chunk["waiting_since"],
            largest_boundary=BoundaryPart(**chunk["largest_boundary"]) if chunk["largest_boundary"] else None,
            inputs=None if held is None else [_part(one, 0) for one in held],
            seed=await SQL.value(connection, "seed_of_file", task_id=chunk["task_id"], chunk_id=chunk_id),
        )


def _state(row: asyncpg.Record, history: asyncpg.Record, seed: int | None) -> StatePart:
    parent = ParentPart(task_id=row["parent_tid"], status=row["parent_status"], nucleus=row["parent_nucleus"])
    return StatePart(
        task_id=row["task_id"],
        status=row["status"],
        assigning_since=row["assigning_since"],
        nucleus=row["nucleus"],
        priority=row["current_priority"],
        share=row["gshare"],
        resource_type=row["resource_type"],
        parent=parent if row["parent_status"] else None,
        user_name=row["user_name"],
        files_finished=history["n_finished"],
        queues_used=list(history["queues_used"]),
        # not refined yet: whoever decides on it has to
        split_rule=None if row["status"] == "registered" else row["split_rule"],
        changed=changed_columns(dict(row)),
        seed=seed,
    )


def changed_columns(row: Mapping[str, Any]) -> dict[ChangeableColumn, Any]:
    """Columns of the task's row that do not follow from its parameters; all if those are no longer valid."""
    try:
        submitted = parse_task(row["task_parameters"]).columns()
    except InvalidTask:
        submitted = {}
    submitted.setdefault("event_service", 0)
    return {
        name: row[name]
        for name in get_args(ChangeableColumn)
        if name not in submitted or submitted[name] != row[name]
        if name in submitted or row[name] is not None
    }


def _parts_of_task(datasets: Sequence[Mapping[str, Any]], inputs: Sequence[InputDataset]) -> list[InputPart]:
    """All datasets in their order; pseudo inputs are not among `inputs`."""
    with_data, parts = iter(inputs), []
    for row in datasets:
        if row["type"] in WITHOUT_DATA:
            parts.append(
                InputPart(
                    dataset=row["dataset_name"],
                    master=row["is_master"],
                    pseudo=True,
                    files=row["n_files"],
                    bytes=0,
                    events=row["n_events"],
                )
            )
        else:
            part = _part(next(with_data), row["n_events"])
            parts.append(part.model_copy(update={"attributes": dict(row["attributes"] or {})}))
    return parts


def _part(one: InputDataset, n_events: int) -> InputPart:
    copies = [
        ReplicaPart(storage=copy.storage, files=copy.n_files, bytes=copy.n_bytes, tape=copy.is_tape)
        for copy in one.replicas
    ]
    return InputPart(
        dataset=one.name, master=one.is_master, files=one.n_files, bytes=one.n_bytes, events=n_events, replicas=copies
    )
