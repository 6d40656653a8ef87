"""/api/v1/catalogue: production of a VO imports what is its own; members of a VO look."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import Response

from services.task_definition.data.importing.files import (
    ForeignNames,
    dataset_in_full,
    forget_catalogue,
    list_datasets,
    read_catalogue,
    write_catalogue,
)
from services.task_definition.data.importing.import_file import ImportedCatalogue, InvalidCatalogue, vo_in
from services.task_definition.data.owning import caller_as_writer
from services.task_definition.data.telling import Telling
from services.task_definition.desk.store.audit import audit
from shared.auth import Caller, access, require
from shared.auth.access import Whose
from shared.db.database import Database
from shared.model.common_names import only_newest
from shared.model.problems import FieldProblem, Problem
from shared.snapshot import KnownGrid
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Page, Text, Truth

Anyone = Annotated[Caller, Depends(require(access.MEMBERS))]
Producer = Annotated[Caller, Depends(require(access.WRITERS, "production", right="modify"))]
Name = Annotated[str, Query(min_length=1, max_length=300)]
FILES_SHOWN = 10_000
#: as `shared.web.envelope`: the API's number for what the caller may not do
NOT_PERMITTED = 3


def vo_of_import(caller: Caller, stated: str | None) -> str:
    """The VO for which a file is imported: the one that it names, else the caller's only one; "": none.

    Raises InvalidCatalogue for another VO, and where it is not clear which of several.
    """
    if stated is not None and access.PRODUCTION.allows(caller, Whose(vo=stated)):
        return stated
    if stated is None and access.WRITERS.allows(caller, Whose()):
        return ""
    vos = [one for one in sorted(caller.vos or ()) if access.PRODUCTION.allows(caller, Whose(vo=one))]
    if stated is None and len(vos) == 1:
        return vos[0]
    said = f"{stated!r}: " if stated is not None else "is needed: "
    raise InvalidCatalogue([Problem("catalogue", "", "vo", f"{said}allowed: {', '.join(vos) or 'none'}")])


def catalogue_routes(database: Database, grid: KnownGrid, telling: Telling) -> APIRouter:
    """Import, list, show."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/catalogue", tags=["catalogue"])

    async def write(caller: Caller, parsed: ImportedCatalogue, vo: str) -> dict[str, int]:
        async with database.begin(reason=f"catalogue imported by {caller.name}") as work:
            writer = caller_as_writer(caller, vo, caller.name, is_of_task=False)
            counts = await write_catalogue(work.connection, parsed, writer)
            details = {**counts, "vo": vo}
            verb = "catalogue.import"
            await audit(work.connection, caller=caller, verb=verb, target="catalogue", details=details)
        return counts

    @router.post("/import")
    async def import_(caller: Producer, content: Annotated[dict[str, Any], Body()]) -> Response:
        """Register the datasets, containers, files and replicas of a file; whole or not at all."""
        try:
            vo = vo_of_import(caller, vo_in(content))
            async with database.read() as connection:
                storages = (await grid.grid(connection)).storages.keys()
            parsed = await read_catalogue(database, content, storages, vo or None)
            counts = await write(caller, parsed, vo)
        except InvalidCatalogue as error:
            problems = [FieldProblem(f"{one.key}.{one.field}".strip("."), "", one.reason) for one in error.problems]
            return refused(BAD_REQUEST, f"{len(problems)} problems: {error}", problems)
        except ForeignNames as error:
            await telling.tell(database, caller, "import", error.problems)
            return refused(NOT_PERMITTED, f"{len(error.problems)} problems: {error}", error.problems)
        await forget_catalogue(parsed)
        return Envelope(counts, f"imported {counts['datasets']} datasets with {counts['files']} files")

    @router.get("/datasets")
    async def datasets(
        caller: Anyone, name: Text = None, limit: Annotated[int, Page(10_000, 1000)] = 1000, quickly: bool = False
    ) -> Response:
        """Datasets and containers by name; * stands for any text.

        `quickly`: a `name` that has all in common with many is looked for among the newest 100,000, and `message` says
        so.
        """
        async with database.read() as connection:
            found, is_cut = await list_datasets(connection, caller, name, limit, quickly=quickly)
        return Envelope(found, only_newest("datasets") if is_cut else "")

    @router.get("/dataset")
    async def dataset(caller: Anyone, name: Name, include_files: Truth = None) -> Response:
        """One dataset or container in full."""
        n_files = FILES_SHOWN if include_files else 0
        async with database.read() as connection:
            found = await dataset_in_full(connection, caller, name, max_files=n_files)
        return Envelope(found) if found else refused(NOT_FOUND, f"{name} is not in the catalogue")

    @router.get("/show")
    async def show(caller: Anyone, name: Name, include_files: Truth = None) -> Response:
        """The same."""
        return await dataset(caller, name, include_files)

    return router
