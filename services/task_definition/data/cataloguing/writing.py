"""Registers in a catalogue outside what tasks produce: datasets, files, where they are kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from services.task_definition.data.cataloguing.working import CarryOut, CatalogueRequest, Done
from services.task_definition.data.policy.outside import data_name
from services.task_definition.data.registering import Data, Produced, closed_logs
from services.task_definition.data.store.catalogue_requests import SQL
from shared.brokerage.nuclei import destination_storage
from shared.catalogue.outside import DataName, FileFacts, NewCollection, NewRule, OutsideCatalogue
from shared.catalogue.port import NewFile
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, OutputsRegistered
from shared.model.batches import batches
from shared.model.link import PRODUCTION_INPUT, PRODUCTION_OUTPUT
from shared.model.outputs_by_expression import BY_EXPRESSION
from shared.snapshot import KnownGrid

#: attempts of a request after which a log that came late is left out: an account may lack the right to open datasets
MOST_REOPENINGS = 3


class OutsideWriting:
    """One kind of request a method; each may be carried out twice."""

    def __init__(self, database: Database, data: Data, grid: KnownGrid) -> None:
        self._database, self._data, self._grid = database, data, grid

    def kinds(self) -> dict[str, CarryOut]:
        """What is done for which kind of request."""
        return {
            "create": self.create,
            "add_files": self.add_files,
            "remove_files": self.remove_files,
            "close": self.close,
            "reopen": self.reopen,
            "keep": self.keep,
            "expire": self.expire,
        }

    async def create(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """Output datasets, each in its container."""
        await self._create(request, catalogue, request.details["datasets"])
        return Done()

    async def _create(
        self, request: CatalogueRequest, catalogue: OutsideCatalogue, datasets: Sequence[Mapping[str, Any]]
    ) -> None:
        new = [
            NewCollection(
                _named(one),
                container=data_name(one["container"], one["scope"]) if one["container"] else None,
                metadata={"task_id": request.task_id},
            )
            for one in datasets
        ]
        if new:
            await catalogue.create(new)

    async def add_files(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """Outputs of jobs that still wait for it; then they are in the cache, and the dispatcher is told.

        A log that comes after the end of its task goes into its dataset all the same, which is closed again, unless the
        catalogue does not let us. A retry that opens it meanwhile asks after this request, and has the last word.
        """
        job_ids = list(request.details["job_ids"])
        async with self._database.read() as connection:
            found = await self._data.produced(connection, job_ids)
            names = sorted({one.dataset for one in found.files})
            scopes = {row["name"]: row["scope"] for row in await SQL.rows(connection, "scopes_of", names=names)}
            closed = await closed_logs(connection, found)
            by_expression = await SQL.value(
                connection, "has_outputs_by_expression", task_id=request.task_id, begins=f"{BY_EXPRESSION}%"
            )
        await self._create(request, catalogue, found.new_datasets)
        scopes |= {one["name"]: one["scope"] for one in found.new_datasets}
        late = await self._names_taken(catalogue, found, scopes) if by_expression else frozenset()
        by_dataset: dict[str, list[NewFile]] = defaultdict(list)
        for one in found.files:
            writer = found.writers[one.dataset, one.lfn]
            # what is about to be deleted takes no more late logs, nor what this account may not open
            is_open = one.dataset not in closed or (closed[one.dataset] and request.attempts <= MOST_REOPENINGS)
            if writer not in late and (is_open or writer in found.job_ids):
                by_dataset[one.dataset].append(one)
        again = [name for name in found.of_ended if name in by_dataset]
        # a retry since may have opened it here already, and waits for this request with opening it there
        shut = [name for name in again if name in closed or request.attempts > 1]
        await catalogue.reopen([data_name(name, scopes.get(name)) for name in shut])
        for name, some in sorted(by_dataset.items()):
            await catalogue.add_files(data_name(name, scopes.get(name)), some)
        await catalogue.close([data_name(name, scopes.get(name)) for name in again if name in closed])
        registered = [job_id for job_id in job_ids if job_id not in late]
        return Done(apply=lambda work: self._registered(work, request.vo, registered, names, late))

    async def _names_taken(
        self, catalogue: OutsideCatalogue, found: Produced, scopes: Mapping[str, str | None]
    ) -> frozenset[int]:
        """Jobs with a file that the catalogue knows by its name as another: what an expression stands for may be so."""
        files = {DataName(data_name(one.dataset, scopes.get(one.dataset)).scope, one.lfn): one for one in found.files}
        known = await catalogue.registered(list(files))
        other = [files[name] for name, facts in known.items() if _is_another(facts, files[name])]
        return frozenset(found.writers[one.dataset, one.lfn] for one in other)

    async def _registered(
        self, work: UnitOfWork, vo: str, job_ids: Sequence[int], names: Sequence[str], late: frozenset[int]
    ) -> None:
        await self._data.register(work, job_ids)
        for some in batches(sorted(late), IDS_OF_EVENT):
            work.emit(OutputsRegistered(job_ids=(), names_taken_job_ids=tuple(some)))
        await SQL.run(work.connection, "belong_to", vo=vo, names=list(names))

    async def remove_files(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """Outputs that are not kept leave their dataset."""
        name = data_name(request.subject, request.details["scope"])
        await catalogue.remove_files(name, [DataName(name.scope, lfn) for lfn in request.details["lfns"]])
        return Done()

    async def close(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """Nothing is added to a task's outputs any more."""
        await catalogue.close([_named(one) for one in request.details["datasets"]])
        return Done()

    async def expire(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """What nobody needs any more may be deleted."""
        for one in request.details["datasets"]:
            await catalogue.set_lifetime(_named(one), request.details["lifetime_s"])
        return Done()

    async def reopen(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """A task that is tried again adds files once more, also to what might have been deleted meanwhile."""
        for one in request.details["datasets"]:
            if one.get("stays"):
                await catalogue.create([NewCollection(_named(one), metadata={"task_id": request.task_id})])
                await catalogue.set_lifetime(_named(one), None)
        await catalogue.reopen([_named(one) for one in request.details["datasets"]])
        return Done()

    async def keep(self, request: CatalogueRequest, catalogue: OutsideCatalogue) -> Done:
        """A rule for an output dataset where the task wants it, if it wants it anywhere.

        For input that is used many times: where the request names.
        """
        if "storage" in request.details:
            comment = f"input of task {request.task_id}, used many times"
            wanted_there = NewRule(
                _named(request.details), request.details["storage"], PRODUCTION_INPUT, comment=comment
            )
            return Done(rule_id=await catalogue.create_rule(wanted_there))
        async with self._database.read() as connection:
            task = await SQL.row(connection, "task_of_request", task_id=request.task_id)
            wanted = None if task is None else task["destination"] or task["nucleus"]
            storage = destination_storage(await self._grid.grid(connection), wanted) if wanted else None
        if storage is None:
            return Done(reason="the task names no place where its output is kept")
        name = data_name(request.subject, request.details["scope"])
        comment = f"output of task {request.task_id}"
        rule_id = await catalogue.create_rule(NewRule(name, storage.name, PRODUCTION_OUTPUT, comment=comment))
        return Done(rule_id=rule_id)


def _named(one: Mapping[str, Any]) -> DataName:
    return data_name(one["name"], one["scope"])


def _is_another(known: FileFacts, written: NewFile) -> bool:
    is_checked = None not in (known.checksum, written.checksum)
    return known.size_bytes != written.size_bytes or (is_checked and known.checksum != written.checksum)
