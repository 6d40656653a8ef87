"""HTTP: load a grid (operators), look at queues and sites (anybody).

Replies have the field's envelope.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field

from services.job_brokerage.api.pilot_data import PilotData
from services.job_brokerage.api.slots import slots_routes
from services.job_brokerage.api.what_if import what_if_routes
from services.job_brokerage.policy.grid_checks import GRID_CHECKS, unread_queue_fields, warning_of
from services.job_brokerage.store import grids as store
from services.job_brokerage.store.slots import QueueSlots
from services.job_brokerage.store.worlds import save_world
from services.job_brokerage.supposing import Supposing
from shared.auth import Caller, access, require
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.model.grid import FILES, Grid, forget_grid, grid_in_steps
from shared.model.problems import InvalidGrid
from shared.model.steps import Steps
from shared.snapshot import Snapshot
from shared.web.envelope import Envelope, refused
from shared.web.json_route import JsonRoute, add_routes
from shared.web.slices import in_slices

ANYBODY = require(access.STATES, "user", "pilot", "production", "operator")
OPERATOR = require(access.OPERATORS, "operator", right="modify")
# Names, disk quotas and usage of people are in a world.
WORLD_READER = require(access.PRODUCTION, "production", "operator")

NamePart = Annotated[str, Query(max_length=120)]
Limit = Annotated[int | None, Query(ge=1, le=10_000)]


class GridFiles(BaseModel):
    """The decoded files of a grid folder by name without extension."""

    model_config = ConfigDict(extra="forbid")
    files: dict[str, Any] = Field(description=f"any of {', '.join(FILES)}; queues, sites and storages must be there")
    keep_times: bool = Field(False, description="false: shift all measurement times so that the newest is now")


class Cordon(BaseModel):
    """Which queue takes no new work, and why."""

    model_config = ConfigDict(extra="forbid")
    queue: Annotated[str, Field(min_length=1, max_length=120)]
    reason: Annotated[str, Field(min_length=1, max_length=500)]


class Uncordon(BaseModel):
    """Which queue takes work again."""

    model_config = ConfigDict(extra="forbid")
    queue: Annotated[str, Field(min_length=1, max_length=120)]


def _counts(grid: Grid, files: dict[str, Any]) -> Steps[dict[str, Any]]:
    """What was loaded, and which queues can run nothing because they have no storage, and which fields nobody reads."""
    unread = yield from unread_queue_fields(files)
    return {
        "queues": len(grid.queues),
        "sites": len(grid.sites),
        "nuclei": sum(site.is_nucleus for site in grid.sites.values()),
        "storages": len(grid.storages),
        "links": len(grid.links),
        "shares": len(grid.shares),
        "without_storage": sorted(one.name for one in grid.queues.values() if not one.write_storages),
        "unread_queue_fields": unread,
    }


def grid_routes(database: Database) -> APIRouter:
    """Make the routes under `/api/v1/grid/`."""
    routes = APIRouter(route_class=JsonRoute, prefix="/api/v1/grid", tags=["grid"])
    _add_changes(routes, database)
    _add_reads(routes, database)
    return routes


def _add_changes(routes: APIRouter, database: Database) -> None:
    """Add what changes the grid: load, cordon, uncordon."""

    @routes.post("/load")
    async def load(body: GridFiles, caller: Annotated[Caller, Depends(OPERATOR)]) -> Envelope:
        """Replace the grid. Refused whole if anything is wrong, with every problem listed."""
        async with database.read() as connection:
            now = await connection.fetchval("SELECT orrery_now()")
        try:
            steps = grid_in_steps(body.files, now=None if body.keep_times else now, checks=GRID_CHECKS)
            grid = await in_slices(steps)
            counted = await in_slices(_counts(grid, body.files))
            async with database.begin(reason=f"grid loaded by {caller.name}") as work:
                version = await store.save_grid(work, grid, body.files)
                counts = {"version": version, **counted}
                await store.record_load(work, caller, "accepted", counts)
            await in_slices(forget_grid(grid))
        except InvalidGrid as error:
            listed = {"problems": [one.as_sent() for one in error.problems]}
            message = f"the grid is refused whole: {len(error.problems)} problems"
            return refused(listed, message, error.problems)
        warning = warning_of(counts["unread_queue_fields"])
        return Envelope(counts, f"grid version {counts['version']} loaded{warning}")

    @routes.post("/cordon")
    async def cordon(body: Cordon, caller: Annotated[Caller, Depends(OPERATOR)]) -> Envelope:
        """Close a queue for new work. Jobs that wait or run there go on; a grid loaded later does not open it."""
        async with database.begin(reason=f"{body.queue} cordoned by {caller.name}") as work:
            await store.cordon(work, caller, body.queue, body.reason)
        return Envelope()

    @routes.post("/uncordon")
    async def uncordon(body: Uncordon, caller: Annotated[Caller, Depends(OPERATOR)]) -> Envelope:
        """Open a queue again."""
        async with database.begin(reason=f"{body.queue} uncordoned by {caller.name}") as work:
            await store.uncordon(work, caller, body.queue)
        return Envelope()


def _add_reads(routes: APIRouter, database: Database) -> None:
    """Add what tells of the grid: queues, sites, status."""

    @routes.get("/queues", dependencies=[Depends(ANYBODY)])
    async def queues(
        part: NamePart = "",
        site: NamePart | None = None,
        after: NamePart | None = None,
        limit: Limit = None,
        order: Literal["queue", "running", "activated"] = "queue",
        records: bool = True,
    ) -> Envelope:
        """Queues: CRIC record, jobs by state, last pilot, workers.

        `part`: those with a text in their name, site, status or type; `after`: those behind a name; `order`: by name,
        or those with most jobs in a state first. Without `records` the CRIC record is left out.
        """
        most_in = None if order == "queue" else order
        wanted = store.Listed(part, site, after, limit, most_in, records)
        async with database.read() as connection:
            return Envelope(await store.list_queues(connection, wanted))

    @routes.get("/sites", dependencies=[Depends(ANYBODY)])
    async def sites(
        part: NamePart = "", site: NamePart | None = None, after: NamePart | None = None, limit: Limit = None
    ) -> Envelope:
        """Sites: role, queues, storages, free space, jobs by state; `part`, `after` and `limit` as of queues."""
        async with database.read() as connection:
            return Envelope(await store.list_sites(connection, store.Listed(part, site, after, limit)))

    @routes.get("/status", dependencies=[Depends(ANYBODY)])
    async def status() -> Envelope:
        """Version of the grid; number of links and age of the newest network metric."""
        async with database.read() as connection:
            return Envelope(await store.grid_status(connection))


def snapshot_routes(database: Database, snapshot: Snapshot) -> APIRouter:
    """Make the route `/api/v1/grid/world`: what a dry run takes."""
    routes = APIRouter(route_class=JsonRoute, prefix="/api/v1/grid", tags=["grid"])
    # a world of a whole grid takes a second of the processor: those who ask at once wait, and nobody else does
    one_at_a_time = asyncio.Lock()

    @routes.get("/world")
    async def world(caller: Annotated[Caller, Depends(WORLD_READER)]) -> Envelope:
        """All that a decision reads now, as a world file; the next decision here is made on the same.

        Production of a VO gets names, quotas and groups of users of that VO alone; numbers of others have no names.
        """
        async with one_at_a_time:
            async with database.read() as connection:
                saved = await save_world(connection, caller)
                await snapshot.read_again(connection)
            return await asyncio.to_thread(lambda: Envelope(saved.model_dump(mode="json")))

    return routes


def names_routes(snapshot: Snapshot) -> APIRouter:
    """Make the route `/api/v1/grid/names`."""
    routes = APIRouter(route_class=JsonRoute, prefix="/api/v1/grid", tags=["grid"])

    @routes.get("/names", dependencies=[Depends(ANYBODY)])
    async def names(
        part: Annotated[str, Query(max_length=120)] = "", limit: Annotated[int, Query(ge=1, le=50)] = 20
    ) -> Envelope:
        """Name queues with this in their names, of the grid in memory."""
        wanted = part.lower()
        return Envelope(
            list(islice((one for one in sorted(snapshot.world.grid.queues) if wanted in one.lower()), limit))
        )

    return routes


def build_web(
    database: Database, snapshot: Snapshot, slots: QueueSlots, parameters: Parameters, supposing: Supposing
) -> FastAPI:
    """Make the service's web application."""
    web = FastAPI(title="Orrery job brokerage")
    web.router.routes.extend(PilotData(database).routes())
    add_routes(
        web,
        grid_routes(database),
        snapshot_routes(database, snapshot),
        slots_routes(database, slots, parameters),
        what_if_routes(database, supposing),
        names_routes(snapshot),
    )
    return web
