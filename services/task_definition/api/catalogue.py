"""/api/v1/catalogue: import needs the role production; anybody with a token may look."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query
from starlette.responses import Response

from services.task_definition.importing.files import (
    dataset_in_full,
    forget_catalogue,
    list_datasets,
    read_catalogue,
    write_catalogue,
)
from services.task_definition.importing.import_file import InvalidCatalogue
from services.task_definition.store.tasks import TaskStore
from shared.auth import Caller, require
from shared.db.database import Database
from shared.model.problems import FieldProblem
from shared.snapshot import KnownGrid
from shared.web.envelope import BAD_REQUEST, NOT_FOUND, Envelope, refused
from shared.web.json_route import JsonRoute
from shared.web.values import Page, Text, Truth

Anyone = Annotated[Caller, Depends(require())]
Producer = Annotated[Caller, Depends(require("production", right="modify"))]
Name = Annotated[str, Query(min_length=1, max_length=300)]
FILES_SHOWN = 10_000


def catalogue_routes(database: Database, tasks: TaskStore, grid: KnownGrid) -> APIRouter:
    """Import, list, show."""
    router = APIRouter(route_class=JsonRoute, prefix="/api/v1/catalogue", tags=["catalogue"])

    @router.post("/import")
    async def import_(caller: Producer, content: Annotated[dict[str, Any], Body()]) -> Response:
        """Register the datasets, containers, files and replicas of a file; whole or not at all."""
        try:
            async with database.read() as connection:
                storages = (await grid.grid(connection)).storages.keys()
            parsed = await read_catalogue(database, content, storages)
            async with database.begin(reason=f"catalogue imported by {caller.name}") as work:
                counts = await write_catalogue(work.connection, parsed)
                await tasks.audit(
                    work.connection,
                    caller=caller,
                    verb="catalogue.import",
                    target="catalogue",
                    details=counts,
                )
        except InvalidCatalogue as error:
            problems = [FieldProblem(f"{one.key}.{one.field}".strip("."), "", one.reason) for one in error.problems]
            return refused(BAD_REQUEST, f"{len(problems)} problems: {error}", problems)
        await forget_catalogue(parsed)
        return Envelope(counts, f"imported {counts['datasets']} datasets with {counts['files']} files")

    @router.get("/datasets")
    async def datasets(caller: Anyone, name: Text = None, limit: Annotated[int, Page(10_000, 1000)] = 1000) -> Response:
        """Datasets and containers by name; * stands for any text."""
        async with database.read() as connection:
            return Envelope(await list_datasets(connection, name, limit))

    @router.get("/dataset")
    async def dataset(caller: Anyone, name: Name, include_files: Truth = None) -> Response:
        """One dataset or container in full."""
        async with database.read() as connection:
            found = await dataset_in_full(connection, name, max_files=FILES_SHOWN if include_files else 0)
        return Envelope(found) if found else refused(NOT_FOUND, f"{name} is not in the catalogue")

    @router.get("/show")
    async def show(caller: Anyone, name: Name, include_files: Truth = None) -> Response:
        """The same."""
        return await dataset(caller, name, include_files)

    return router
