"""Writing an imported catalogue into the built-in one, and listing what it has."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from shared.catalogue.built_in import BuiltInCatalogue
from shared.catalogue.import_file import (
    ImportedCatalogue,
    ImportedDataset,
    InvalidCatalogue,
    parse_catalogue,
)
from shared.db.database import Database
from shared.db.queries import Queries
from shared.model.problems import Problem
from shared.model.task_spec_items import bare_name

_SQL = Queries.beside(__file__, "import.sql")
TIMEOUT_S = 600.0


async def read_catalogue(database: Database, content: Any) -> ImportedCatalogue:
    """Check a whole file against the storages and datasets that are known. Raises InvalidCatalogue.

    A large one takes many seconds: no transaction is open meanwhile, and the loop answers others.
    """
    async with database.read() as connection:
        storages, known = await _known(connection, content)
    return await asyncio.to_thread(parse_catalogue, content, storages=storages, known_datasets=known)


async def import_catalogue(connection: asyncpg.Connection, content: Any) -> dict[str, int]:
    """Check a small file and take it in, in one transaction. Raises InvalidCatalogue."""
    storages, known = await _known(connection, content)
    return await write_catalogue(connection, parse_catalogue(content, storages=storages, known_datasets=known))


async def _known(connection: asyncpg.Connection, content: Any) -> tuple[list[str] | None, set[str]]:
    """All storages (None before a grid is loaded), and which of the datasets exist that containers name."""
    storages = [row["storage"] for row in await _SQL.rows(connection, "storages")]
    return storages or None, set(await BuiltInCatalogue().find(connection, _named_by_containers(content)))


async def write_catalogue(connection: asyncpg.Connection, parsed: ImportedCatalogue) -> dict[str, int]:
    """Take a whole file in, in one transaction; importing it again changes nothing. Raises InvalidCatalogue."""
    await _check_existing(connection, parsed)
    await _SQL.run(
        connection,
        "import_datasets",
        scopes=[*(one.scope for one in parsed.datasets), *(one.scope for one in parsed.containers)],
        names=[*(one.name for one in parsed.datasets), *(one.name for one in parsed.containers)],
        kinds=["dataset"] * len(parsed.datasets) + ["container"] * len(parsed.containers),
        attributes=[*(dict(one.attributes) for one in parsed.datasets), *({} for _ in parsed.containers)],
    )
    for dataset in parsed.datasets:
        await _import_dataset(connection, dataset)
    for container in parsed.containers:
        await _SQL.run(connection, "import_container", name=container.name, datasets=list(container.datasets))
    frozen = [one.name for one in parsed.datasets if one.state == "frozen"]
    await BuiltInCatalogue().freeze(connection, [*frozen, *(one.name for one in parsed.containers)])
    return {
        "datasets": len(parsed.datasets),
        "containers": len(parsed.containers),
        "files": sum(len(one.files) for one in parsed.datasets),
    }


def _named_by_containers(content: Any) -> list[str]:
    """Every dataset that a container of the file names, as far as it can be read."""
    containers = content.get("containers") if isinstance(content, dict) else None
    found = set()
    for one in containers if isinstance(containers, list) else []:
        names = one.get("datasets") if isinstance(one, dict) else None
        found |= (
            {bare_name(name) for name in names or [] if isinstance(name, str)} if isinstance(names, list) else set()
        )
    return sorted(found)


async def _check_existing(connection: asyncpg.Connection, parsed: ImportedCatalogue) -> None:
    """A frozen dataset may only be imported again as it is."""
    facts = await BuiltInCatalogue().find(connection, [one.name for one in parsed.datasets])
    problems = [
        Problem("catalogue", one.name, "files", f"is frozen with {facts[one.name].n_files} files, not {len(one.files)}")
        for one in parsed.datasets
        if one.name in facts and facts[one.name].state == "frozen" and facts[one.name].n_files != len(one.files)
    ]
    if problems:
        raise InvalidCatalogue(problems)


async def _import_dataset(connection: asyncpg.Connection, one: ImportedDataset) -> None:
    await _SQL.run(
        connection,
        "import_files",
        timeout_s=TIMEOUT_S,
        name=one.name,
        lfns=[file.lfn for file in one.files],
        sizes=[file.size_bytes for file in one.files],
        events=[file.n_events for file in one.files],
        checksums=[file.checksum for file in one.files],
        guids=[file.guid for file in one.files],
        lumi_blocks=[file.lumi_block for file in one.files],
        first_events=[file.first_event for file in one.files],
    )
    await _SQL.run(connection, "recount", timeout_s=TIMEOUT_S, name=one.name)
    copies = [(one.name, lfn, storage) for storage, lfns in sorted(one.partly_at.items()) for lfn in lfns]
    await BuiltInCatalogue().add_replicas(connection, copies)
    await _SQL.run(connection, "import_complete_replicas", name=one.name, storages=list(one.complete_at))


async def list_datasets(connection: asyncpg.Connection, pattern: str | None, at_most: int) -> list[dict[str, Any]]:
    """Datasets and containers by name; * in the pattern stands for any text."""
    like = None
    if pattern is not None:
        escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        like = bare_name(escaped).replace("*", "%")
    return [dict(row) for row in await _SQL.rows(connection, "list_datasets", pattern=like, at_most=at_most)]


async def dataset_in_full(connection: asyncpg.Connection, name: str, *, max_files: int) -> dict[str, Any] | None:
    """One dataset or container with its replicas, datasets and, if asked, files."""
    name = bare_name(name)
    known = await BuiltInCatalogue().find(connection, [name])
    if name not in known:
        return None
    facts = known[name]
    copies = (await BuiltInCatalogue().replicas(connection, [name])).get(name, ())
    found: dict[str, Any] = {
        "name": facts.name,
        "scope": facts.scope,
        "kind": facts.kind,
        "state": facts.state,
        "n_files": facts.n_files,
        "n_bytes": facts.size_bytes,
        "n_events": facts.n_events,
        "datasets": [
            {"name": one, "state": known[one].state, "n_files": known[one].n_files} for one in facts.constituents
        ],
        "replicas": [
            {"storage": one.storage, "n_files": one.n_files, "n_bytes": one.size_bytes, "complete": one.complete}
            for one in copies
        ],
    }
    if max_files:
        rows = await _SQL.rows(connection, "files_of_dataset", name=name, at_most=max_files)
        found["files"] = [dict(row) for row in rows]
    return found
