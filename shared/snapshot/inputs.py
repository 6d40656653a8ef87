"""The input of some work with its copies, from the catalogue through its port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from shared.brokerage.request import InputDataset, Replica, part_of
from shared.catalogue import CatalogueReader
from shared.model.storage import Storage


@dataclass(frozen=True)
class Wanted:
    """So many files of one dataset; None for the bytes: in proportion to the whole dataset."""

    name: str
    n_files: int
    n_bytes: int | None
    is_master: bool


async def read_inputs(
    catalogue: CatalogueReader,
    connection: asyncpg.Connection,
    wanted: Sequence[Wanted],
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
        whole_files, whole_bytes = (known.n_files, known.size_bytes) if known else (0, 0)
        n_bytes = one.n_bytes
        if n_bytes is None:
            n_bytes = int(whole_bytes * min(1.0, one.n_files / whole_files)) if whole_files else 0
        replicas = []
        for copy in copies.get(one.name, ()):
            storage = storages.get(copy.storage)
            n_here, bytes_here = part_of(copy.n_files, whole_files, copy.complete, one.n_files, n_bytes)
            replicas.append(Replica(copy.storage, n_here, bytes_here, storage is not None and storage.is_tape))
        inputs.append(InputDataset(one.name, one.n_files, n_bytes, tuple(replicas), one.is_master))
    return tuple(inputs)
