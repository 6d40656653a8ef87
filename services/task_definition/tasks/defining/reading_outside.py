"""Brings datasets of a catalogue outside into the schema `catalogue`, slice by slice."""

from __future__ import annotations

from collections.abc import Sequence

from services.task_definition.data.cataloguing.working import CatalogueRequest, Done
from services.task_definition.data.policy.outside import (
    DEEPEST,
    believed_copies,
    believed_files,
    believed_partial_copies,
    data_name,
    datasets_of,
    pattern_of,
)
from services.task_definition.data.store.cached_contents import SQL
from services.task_definition.tasks.announcing import emit_for_status, staged
from services.task_definition.tasks.store import tasks as store
from shared.catalogue.outside import CatalogueLies, CatalogueTrouble, Collection, DataName, FileFacts, OutsideCatalogue
from shared.catalogue.port import FROZEN, MOST_STOOD_FOR, OPEN, Catalogue, Replica
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.model.names import LATEST_RELEASE, stands_for_others
from shared.states.task import TaskStatus

#: files that are deleted in one transaction
FORGOTTEN_TOGETHER = 2000
#: a task in one of these waits for its input to be read
WAITING: tuple[TaskStatus, ...] = ("registered", "rerefine", "staged", "defined")


class OutsideReading:
    """One dataset, all datasets of a container, or those that a name with wildcards stands for."""

    def __init__(self, database: Database, inside: Catalogue) -> None:
        self._database, self._inside = database, inside

    async def read(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """Everything about the dataset that the request names; tasks that waited for it go on."""
        async with self._database.read() as connection:
            is_read = await SQL.value(
                connection, "was_read_since", vo=request.vo, subject=request.subject, since=request.created_at
            )
            scope = await SQL.value(connection, "scope_of", name=request.subject)
        if not is_read and stands_for_others(request.subject):
            await self._read_matching(request, catalogue)
        elif not is_read:
            await self._read_name(request, data_name(request.subject, scope), catalogue)
        return Done(apply=lambda work: self._go_on(work, request))

    async def _read_matching(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> None:
        """The datasets that a name stands for: those that the catalogue lists, and those that it listed before.

        Of too many only the names are kept: the task that asked for them is refused.
        """
        pattern, is_newest = pattern_of(request.subject), request.subject == LATEST_RELEASE
        listed = await catalogue.matching(pattern, MOST_STOOD_FOR + 1)
        if len(listed) > MOST_STOOD_FOR:
            for name in listed:
                await self._put(request, Collection(name, "dataset", is_open=True))
            return
        async with self._database.read() as connection:
            found = (await self._inside.find(connection, [pattern.name], request.vo)).get(pattern.name)
            facts = await self._inside.find(connection, found.constituents if found else [], request.vo)
        before = [DataName(one.scope, name) for name, one in facts.items() if one.vo == request.vo]
        gone = sorted(set(before) - set(listed))
        for name in [*gone, *(listed[-1:] if is_newest else listed)]:
            await self._read_name(request, name, catalogue)

    async def _read_name(self, request: CatalogueRequest, name: DataName, catalogue: OutsideCatalogue) -> None:
        known = await _known(name, catalogue)
        if name not in known:
            await self._forget(request.vo, name.name)
        for dataset in datasets_of(name, known):
            await self._read_dataset(request, known[dataset], catalogue)
        if name in known and known[name].kind == "container":
            await self._fill(request, known[name], datasets_of(name, known))

    async def _forget(self, vo: str, name: str) -> None:
        """The catalogue does not know, or no longer knows, a name: what is kept of it goes in slices.

        Raises CatalogueTrouble where the task that writes it waits for it to be registered.
        """
        more = True
        while more:
            async with self._database.begin(reason="unknown to the catalogue") as work:
                if await SQL.value(work.connection, "is_to_be_created", vo=vo, name=name):
                    raise CatalogueTrouble(f"{name} is not registered yet, as its task wants it")
                row = await SQL.row(work.connection, "collection", name=name)
                if row is None or row["vo"] != vo:
                    return
                more = await self._inside.delete_some(work.connection, row["dataset_id"], FORGOTTEN_TOGETHER)

    async def _go_on(self, work: UnitOfWork, request: CatalogueRequest) -> None:
        task = await store.lock(work, request.task_id)
        if task is None:
            return
        if task.status in WAITING:
            emit_for_status(work, task.task_id, task.status, f"{request.subject} was read")
        elif task.status == "pending" and task.old_status in WAITING:
            await store.release_now(work, task.task_id)
        elif task.status == "staging":
            await staged(work, task.task_id, f"{request.subject} was read")

    async def _read_dataset(self, request: CatalogueRequest, facts: Collection, catalogue: OutsideCatalogue) -> None:
        dataset_id = await self._put(request, facts)
        n_files = 0
        async for files in catalogue.files(facts.name):
            n_files += len(files)
            await self._put_files(dataset_id, believed_files(facts.name, files))
        async with self._database.read() as connection:
            n_kept = await SQL.value(connection, "count_files", dataset_id=dataset_id)
        if n_kept != n_files:
            await self._remove_unseen(request, dataset_id, facts.name, catalogue)
        async with self._database.begin(reason="catalogue read") as work:
            attributes = {key: facts.metadata[key] for key in ("task_id", "campaign") if facts.metadata.get(key)}
            await SQL.run(
                work.connection,
                "recount",
                dataset_id=dataset_id,
                state=OPEN if facts.is_open else FROZEN,
                attributes=attributes,
            )
        await self._put_copies(dataset_id, facts, n_files, catalogue)

    async def _put(self, request: CatalogueRequest, facts: Collection) -> int:
        """The row of a collection. Raises CatalogueTrouble if another VO has that name."""
        async with self._database.begin(reason="catalogue read") as work:
            scope, name = facts.name.scope, facts.name.name
            await SQL.run(work.connection, "put_collection", scope=scope, name=name, kind=facts.kind, vo=request.vo)
            row = await SQL.row(work.connection, "collection", name=name)
        if row is None:
            raise CatalogueTrouble(f"the scope of the name {name} belongs to another VO")
        if row["vo"] != request.vo:
            owner = f"VO {row['vo']}" if row["vo"] else "the built-in catalogue"
            raise CatalogueTrouble(f"the name {name} is taken by a {row['kind']} of {owner}")
        if row["kind"] != facts.kind:
            raise CatalogueLies(f"{facts.name} is a {facts.kind}, and was a {row['kind']} before")
        return int(row["dataset_id"])

    async def _put_files(self, dataset_id: int, files: Sequence[FileFacts]) -> None:
        async with self._database.begin(reason="catalogue read") as work:
            await SQL.run(
                work.connection,
                "put_files",
                dataset_id=dataset_id,
                scopes=[one.name.scope for one in files],
                lfns=[one.name.name for one in files],
                sizes=[one.size_bytes for one in files],
                events=[one.n_events for one in files],
                checksums=[one.checksum for one in files],
                guids=[one.guid for one in files],
                lumi_blocks=[one.lumi_block for one in files],
            )

    async def _remove_unseen(
        self, request: CatalogueRequest, dataset_id: int, name: DataName, catalogue: OutsideCatalogue
    ) -> None:
        """Files are gone, or are told twice: the names are read once more, and those that are not among them go."""
        asked = {"request_id": request.request_id}
        async with self._database.begin(reason="catalogue read") as work:
            await SQL.run(work.connection, "forget_seen", **asked)
        async for files in catalogue.files(name):
            lfns = [one.name.name for one in believed_files(name, files)]
            async with self._database.begin(reason="catalogue read") as work:
                new = {row["lfn"] for row in await SQL.rows(work.connection, "note_seen", lfns=lfns, **asked)}
            twice = sorted(set(lfns) - new)
            if twice:
                raise CatalogueLies(f"{name} has the file {twice[0]} twice")
        async with self._database.begin(reason="files are gone from the catalogue") as work:
            await SQL.run(work.connection, "lock_collection", dataset_id=dataset_id)
            await SQL.run(work.connection, "remove_copies_of_unseen", dataset_id=dataset_id, **asked)
            await SQL.run(work.connection, "remove_unseen", dataset_id=dataset_id, **asked)
            await SQL.run(work.connection, "forget_seen", **asked)

    async def _put_copies(self, dataset_id: int, facts: Collection, n_files: int, catalogue: OutsideCatalogue) -> None:
        """Copies as they are now; of those that are not complete, which files they have."""
        copies = believed_copies(facts, n_files, await catalogue.copies(facts.name))
        # A complete copy needs no row for each file; of an open dataset none is complete for long.
        partial = {one.storage for one in copies if facts.is_open or not one.complete}
        async with self._database.begin(reason="catalogue read") as work:
            await _put_dataset_copies(work, dataset_id, copies, partial)
        if not partial:
            return
        async for found in catalogue.copies_of_files([facts.name]):
            here = [(file.name, storage) for file, storage in found if storage in partial]
            async with self._database.begin(reason="catalogue read") as work:
                await SQL.run(
                    work.connection,
                    "put_file_copies",
                    dataset_id=dataset_id,
                    lfns=[lfn for lfn, _ in here],
                    storages=[storage for _, storage in here],
                )
        if not facts.is_open:
            async with self._database.read() as connection:
                kept = await SQL.rows(connection, "copies_kept", dataset_id=dataset_id)
            believed_partial_copies(facts.name, {row["storage"]: (row["n_files"], row["n_rows"]) for row in kept
                                                 if row["storage"] in partial})  # fmt: skip

    async def _fill(self, request: CatalogueRequest, facts: Collection, datasets: Sequence[DataName]) -> None:
        """A container as it is now."""
        container_id, names = await self._put(request, facts), [one.name for one in datasets]
        async with self._database.begin(reason="catalogue read") as work:
            await SQL.run(work.connection, "lock_collection", dataset_id=container_id)
            kept = [row["name"] for row in await SQL.rows(work.connection, "parts", container_id=container_id)]
            if kept != names:
                await SQL.run(work.connection, "remove_parts", container_id=container_id)
                await SQL.run(work.connection, "put_parts", container_id=container_id, names=names)
            state = OPEN if facts.is_open else FROZEN
            await SQL.run(work.connection, "freeze_container", dataset_id=container_id, state=state)


async def _put_dataset_copies(work: UnitOfWork, dataset_id: int, copies: Sequence[Replica], partial: set[str]) -> None:
    connection, now = work.connection, {one.storage: one for one in copies}
    await SQL.run(connection, "lock_collection", dataset_id=dataset_id)
    kept = await SQL.rows(connection, "copies_kept", dataset_id=dataset_id)
    gone = [row["storage"] for row in kept if row["storage"] not in now]
    # A partial copy that lost files, and one that is complete now, has rows that are not true any more.
    anew = [
        row["storage"]
        for row in kept
        if row["storage"] in now and (row["storage"] not in partial or row["n_rows"] > now[row["storage"]].n_files)
    ]
    await SQL.run(connection, "remove_copies", dataset_id=dataset_id, storages=[*gone, *anew])
    await SQL.run(connection, "remove_dataset_copies", dataset_id=dataset_id, storages=gone)
    await SQL.run(
        connection,
        "put_dataset_copies",
        dataset_id=dataset_id,
        storages=[one.storage for one in copies],
        n_files=[one.n_files for one in copies],
        n_bytes=[one.size_bytes for one in copies],
        complete=[one.storage not in partial for one in copies],
    )


async def _known(name: DataName, catalogue: OutsideCatalogue) -> dict[DataName, Collection]:
    """A collection and everything in it. Raises CatalogueLies for containers that go on for ever."""
    known: dict[DataName, Collection] = {}
    wanted = [name]
    for _ in range(DEEPEST):
        found = await catalogue.collections(wanted)
        for one in found.values():
            if one.n_files < 0 or one.size_bytes < 0:
                raise CatalogueLies(f"{one.name} has {one.n_files} files and {one.size_bytes} bytes")
        known |= found
        wanted = [part for one in found.values() for part in one.constituents if part not in known]
        if not wanted:
            return known
    raise CatalogueLies(f"container {name} has more than {DEEPEST} levels")
