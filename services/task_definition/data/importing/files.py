"""Writing an imported catalogue into the built-in one, and listing what it has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import asyncpg

from services.task_definition.data.importing.import_file import (
    ImportedCatalogue,
    ImportedDataset,
    ImportedFile,
    InvalidCatalogue,
    catalogue_in_steps,
    parse_catalogue,
    vo_in,
)
from services.task_definition.data.owning import installation_as_writer, take_names
from services.task_definition.data.policy.scopes import ForeignName, NameWanted, NameWriter, wanted
from services.task_definition.data.store.imports import SQL
from services.task_definition.data.store.scopes import refused_writes
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.catalogue.built_in import BuiltInCatalogue
from shared.catalogue.port import DatasetFacts
from shared.db.database import Database
from shared.model import common_names
from shared.model.batches import batches
from shared.model.names import bare_name, owning_scope
from shared.model.problems import Problem
from shared.model.steps import Steps, at_once
from shared.web.slices import freed, in_slices

TIMEOUT_S = 600.0
#: files, replicas or names that one statement is given: its arguments are made in one go
WRITTEN_TOGETHER = 2000
REFUSED_SHOWN = 20


class ForeignNames(Exception):
    """Names of an import that are somebody else's; everything is rolled back."""

    def __init__(self, problems: list[ForeignName]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(one) for one in problems[:20]))


async def read_catalogue(
    database: Database, content: Any, storages: Collection[str], vo: str | None = None
) -> ImportedCatalogue:
    """Check a whole file against the storages of the grid and the known datasets; raise InvalidCatalogue.

    With `vo` its containers may name what this VO may read.

    Before a grid is loaded there are no storages, and any name is accepted.

    A large one takes many seconds: no transaction is open meanwhile, and the loop answers others.
    """
    named = await in_slices(named_by_containers(content))
    async with database.read() as connection:
        known = await _known_datasets(connection, named, vo)
    return await in_slices(catalogue_in_steps(content, storages=storages or None, known_datasets=known))


async def import_catalogue(connection: asyncpg.Connection, content: Any) -> dict[str, int]:
    """Check a small file, whatever storages it names, and take it in, in one transaction.

    Raises InvalidCatalogue.
    """
    known = await _known_datasets(connection, at_once(named_by_containers(content)), None)
    parsed = parse_catalogue(content, storages=None, known_datasets=known)
    return await write_catalogue(connection, parsed, installation_as_writer(vo_in(content)))


async def _known_datasets(connection: asyncpg.Connection, named: Sequence[str], vo: str | None) -> set[str]:
    """Which of these datasets exist, for a VO."""
    known = set[str]()
    for names in batches(named, WRITTEN_TOGETHER):
        known.update(await BuiltInCatalogue().find(connection, names, vo))
    return known


async def write_catalogue(
    connection: asyncpg.Connection, parsed: ImportedCatalogue, writer: NameWriter
) -> dict[str, int]:
    """Take a whole file in, in one transaction; importing it again changes nothing.

    Raises InvalidCatalogue, ForeignNames.
    """
    foreign = await take_names(connection, _names_in(parsed), writer)
    if foreign:
        raise ForeignNames(foreign)
    await _check_existing(connection, parsed)
    await SQL.run(
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
        await SQL.run(connection, "import_container", name=container.name, datasets=list(container.datasets))
    frozen = [one.name for one in parsed.datasets if one.state == "frozen"]
    await BuiltInCatalogue().freeze(connection, [*frozen, *(one.name for one in parsed.containers)])
    return {
        "datasets": len(parsed.datasets),
        "containers": len(parsed.containers),
        "files": sum(len(one.files) for one in parsed.datasets),
    }


def _names_in(parsed: ImportedCatalogue) -> list[NameWanted]:
    """What an import writes."""
    datasets = [wanted(f"{one.name}.name", one.name, one.scope) for one in parsed.datasets]
    return [*datasets, *(wanted(f"{one.name}.name", one.name, one.scope) for one in parsed.containers)]


def named_by_containers(content: Any) -> Steps[list[str]]:
    """Every dataset that a container of the file names, each once; a name in each step.

    The file is read as far as it can be.
    """
    containers = content.get("containers") if isinstance(content, dict) else None
    found: dict[str, None] = {}
    for one in containers if isinstance(containers, list) else []:
        yield
        names = one.get("datasets") if isinstance(one, dict) else None
        for name in names if isinstance(names, list) else []:
            yield
            if isinstance(name, str):
                found[bare_name(name)] = None
    return list(found)


async def _check_existing(connection: asyncpg.Connection, parsed: ImportedCatalogue) -> None:
    """A frozen dataset may only be imported again as it is."""
    facts = await BuiltInCatalogue().find(connection, [one.name for one in parsed.datasets])
    problems = []
    for one in parsed.datasets:
        if one.name not in facts or facts[one.name].state != "frozen":
            continue
        n_files = facts[one.name].n_files
        if n_files != len(one.files):
            told = f"is frozen with {n_files} files, not {len(one.files)}"
            problems.append(Problem("catalogue", one.name, "files", told))
        elif await _n_alike(connection, one) != n_files:
            problems.append(Problem("catalogue", one.name, "files", "is frozen with other names or sizes of files"))
    if problems:
        raise InvalidCatalogue(problems)


async def _n_alike(connection: asyncpg.Connection, one: ImportedDataset) -> int:
    """How many files of a dataset are known with their names and sizes."""
    found = 0
    for files in batches(one.files, WRITTEN_TOGETHER):
        lfns, sizes = [file.lfn for file in files], [file.size_bytes for file in files]
        found += await SQL.value(connection, "files_alike", name=one.name, lfns=lfns, sizes=sizes)
    return found


async def _import_dataset(connection: asyncpg.Connection, one: ImportedDataset) -> None:
    for files in batches(one.files, WRITTEN_TOGETHER):
        await _import_files(connection, one.name, files)
    await SQL.run(connection, "recount", timeout_s=TIMEOUT_S, name=one.name)
    for storage, lfns in sorted(one.partly_at.items()):
        for some in batches(lfns, WRITTEN_TOGETHER):
            copies = [(one.name, lfn, storage) for lfn in some]
            await BuiltInCatalogue().add_replicas(connection, copies)
    await SQL.run(connection, "import_complete_replicas", name=one.name, storages=list(one.complete_at))


async def _import_files(connection: asyncpg.Connection, name: str, files: Sequence[ImportedFile]) -> None:
    await SQL.run(
        connection,
        "import_files",
        timeout_s=TIMEOUT_S,
        name=name,
        lfns=[file.lfn for file in files],
        sizes=[file.size_bytes for file in files],
        events=[file.n_events for file in files],
        checksums=[file.checksum for file in files],
        guids=[file.guid for file in files],
        lumi_blocks=[file.lumi_block for file in files],
        first_events=[file.first_event for file in files],
    )


async def forget_catalogue(parsed: ImportedCatalogue) -> None:
    """Free the files of a catalogue that was written, without holding the loop."""
    await in_slices(freed([one.files for one in parsed.datasets]))


def like_of(pattern: str | None) -> str | None:
    """A pattern for SQL of one in which * stands for any text."""
    if pattern is None:
        return None
    return pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")


async def list_datasets(
    connection: asyncpg.Connection, caller: Caller, pattern: str | None, at_most: int, *, quickly: bool = False
) -> tuple[list[dict[str, Any]], bool]:
    """Datasets and containers of the caller's VOs, of none, and those opened for all, by name.

    `quickly`: a part like many names is looked for among the newest alone; the second is whether that left some out.
    Not for those who may not read all names: which way is taken tells of the names of others.
    """
    vos, bare = access.vos_of_members(caller), "" if pattern is None else bare_name(pattern)
    like = None if pattern is None else like_of(bare)
    names: dict[str, Any] = {"pattern": like, "common_pattern": None, "common_after": None}
    if quickly and vos is None and "*" in bare:
        newest = await SQL.rows(connection, "newest_names", at_most=common_names.SAMPLED)
        after = newest[0]["dataset_id"] - common_names.NEWEST if newest else 0
        if after > 0 and common_names.is_common(bare, [row["name"] for row in newest]):
            names = {"pattern": None, "common_pattern": like, "common_after": after}
    found = [dict(row) for row in await SQL.rows(connection, "list_datasets", **names, vos=vos, at_most=at_most)]
    return found, names["common_pattern"] is not None and len(found) < at_most


async def dataset_in_full(
    connection: asyncpg.Connection, caller: Caller, name: str, *, max_files: int
) -> dict[str, Any] | None:
    """One dataset or container with its replicas, datasets and, if asked, files.

    None also for what the caller may not see.
    """
    name = bare_name(name)
    there = await BuiltInCatalogue().find(connection, [name])
    known = {one: facts for one, facts in there.items() if _is_told(facts, caller)}
    if name not in known:
        return None
    facts = known[name]
    copies = (await BuiltInCatalogue().replicas(connection, [name])).get(name, ())
    found: dict[str, Any] = {
        "name": facts.name,
        "scope": facts.scope,
        "vo": facts.vo,
        "owner": facts.owner,
        "readable_by_all": facts.readable_by_all,
        "kind": facts.kind,
        "state": facts.state,
        "n_files": facts.n_files,
        "n_bytes": facts.size_bytes,
        "n_events": facts.n_events,
        "datasets": [
            {"name": one, "state": known[one].state, "n_files": known[one].n_files}
            for one in facts.constituents
            if one in known
        ],
        "replicas": [
            {"storage": one.storage, "n_files": one.n_files, "n_bytes": one.size_bytes, "complete": one.complete}
            for one in copies
        ],
    }
    found["refused_writes"] = await refused_writes(connection, caller, REFUSED_SHOWN, owning_scope(name))
    if max_files:
        rows = await SQL.rows(connection, "files_of_dataset", name=name, at_most=max_files)
        found["files"] = [dict(row) for row in rows]
    return found


def _is_told(facts: DatasetFacts, caller: Caller) -> bool:
    return facts.readable_by_all or access.MEMBERS.allows(caller, Whose(vo=facts.vo))
