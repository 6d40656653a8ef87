"""The input of a task or a chunk with its copies, from the catalogue through its port.

Both brokerages and the task file read it here, so that a saved task has exactly what is decided on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from shared.brokerage.request import InputDataset, InputReplica, part_of
from shared.brokerage.smallest_job import SecondaryInput
from shared.catalogue import CatalogueReader
from shared.catalogue.port import DatasetFacts
from shared.db.queries import Queries
from shared.model.dataset_types import WITHOUT_DATA
from shared.model.storage import Storage
from shared.states.job import MEANINGS

SQL = Queries.beside(__file__)


@dataclass(frozen=True)
class WantedFiles:
    """So many files of one dataset; None for the bytes: in proportion to the whole dataset."""

    name: str
    n_files: int
    n_bytes: int | None
    is_master: bool


def bytes_of(known: DatasetFacts | None, n_files: int) -> int:
    """Bytes of so many files of a dataset, in proportion to the whole; none of one that is unknown."""
    if known is None or not known.n_files:
        return 0
    return int(known.size_bytes * min(1.0, n_files / known.n_files))


async def read_inputs(
    catalogue: CatalogueReader,
    connection: asyncpg.Connection,
    wanted: Sequence[WantedFiles],
    storages: Mapping[str, Storage],
) -> tuple[InputDataset, ...]:
    """Each wanted dataset with where its files are; one that the catalogue does not know has no copies."""
    names = [one.name for one in wanted]
    if not names:
        return ()
    facts = await catalogue.find(connection, names)
    copies = await catalogue.replicas(connection, names)
    inputs = []
    for one in wanted:
        known = facts.get(one.name)
        whole_files = known.n_files if known else 0
        n_bytes = bytes_of(known, one.n_files) if one.n_bytes is None else one.n_bytes
        replicas = []
        for copy in copies.get(one.name, ()):
            storage = storages.get(copy.storage)
            n_here, bytes_here = part_of(copy.n_files, whole_files, copy.complete, one.n_files, n_bytes)
            replicas.append(InputReplica(copy.storage, n_here, bytes_here, storage is not None and storage.is_tape))
        inputs.append(InputDataset(one.name, one.n_files, n_bytes, tuple(replicas), one.is_master))
    return tuple(inputs)


async def inputs_of_task(
    catalogue: CatalogueReader, connection: asyncpg.Connection, task_id: int, storages: Mapping[str, Storage]
) -> tuple[list[Mapping[str, Any]], tuple[InputDataset, ...]]:
    """The task's input datasets as rows, and as values with their copies; pseudo inputs have rows only."""
    rows: list[Mapping[str, Any]] = [dict(row) for row in await SQL.rows(connection, "task_inputs", task_id=task_id)]
    wanted = [
        WantedFiles(row["dataset_name"], row["n_files"], None, row["is_master"])
        for row in rows
        if row["type"] not in WITHOUT_DATA
    ]
    return rows, await read_inputs(catalogue, connection, wanted, storages)


async def inputs_of_chunk(
    catalogue: CatalogueReader, connection: asyncpg.Connection, chunk_id: int, storages: Mapping[str, Storage]
) -> tuple[InputDataset, ...]:
    """What a chunk holds of each dataset, or held when it was offered, and where copies of it are."""
    wanted = [
        WantedFiles(row["dataset_name"], row["n_files"], row["n_bytes"], row["is_master"])
        for row in await SQL.rows(connection, "chunk_inputs", chunk_id=chunk_id)
    ]
    return await read_inputs(catalogue, connection, wanted, storages)


async def secondary_inputs_of_chunk(
    catalogue: CatalogueReader, connection: asyncpg.Connection, chunk_id: int
) -> tuple[SecondaryInput, ...]:
    """The input of the chunk's task that is not split but follows the files of the chunk."""
    rows = await SQL.rows(connection, "secondary_inputs", chunk_id=chunk_id)
    if not rows:
        return ()
    facts = await catalogue.find(connection, [row["dataset_name"] for row in rows])
    return tuple(
        SecondaryInput(
            row["n_files"],
            bytes_of(facts.get(row["dataset_name"]), row["n_files"]),
            row["n_events"],
            row["attributes"] or {},
        )
        for row in rows
    )


async def history_of_task(connection: asyncpg.Connection, task_id: int) -> asyncpg.Record:
    """Files of the masters, those that finished, and the queues where the task has or had jobs."""
    return await SQL.one(connection, "task_history", task_id=task_id, statuses=list(MEANINGS))
