"""HTTP: load a grid (operators), look at queues and sites (anybody). Replies have the field's envelope."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field

from services.job_brokerage.grid_checks import GRID_CHECKS, unread_queue_fields, warning_of
from services.job_brokerage.grid_store import GridStore
from services.job_brokerage.reply import Reply, put_into_envelopes
from services.job_brokerage.slots import QueueSlots
from services.job_brokerage.slots_api import slots_routes
from services.job_brokerage.task_files import NoSuchTask, TaskFiles
from shared.auth import Caller, require
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.model.grid import FILES, Grid, parse_grid
from shared.model.problems import InvalidGrid
from shared.snapshot import Snapshot
from shared.snapshot.saving import save_world
from shared.web.json_route import JsonRoute

ANYBODY = require("user", "pilot", "production", "operator")
OPERATOR = require("operator")
# Disk quotas and usage of people are in a world; parameters of people in a task file.
WORLD_READER = require("production", "operator")
MAX_TASK_FILES = 100
TaskId = Annotated[int, Field(ge=1, lt=2**63)]


class GridFiles(BaseModel):
    """The decoded files of a grid folder by name without extension."""

    model_config = ConfigDict(extra="forbid")
    files: dict[str, Any] = Field(description=f"any of {', '.join(FILES)}; queues, sites and storages must be there")
    keep_times: bool = Field(False, description="false: shift all measurement times so that the newest is now")


def _counts(grid: Grid, files: dict[str, Any]) -> dict[str, Any]:
    """What was loaded, and which queues can run nothing because they have no storage, and which fields nobody reads."""
    return {
        "queues": len(grid.queues),
        "sites": len(grid.sites),
        "nuclei": sum(site.is_nucleus for site in grid.sites.values()),
        "storages": len(grid.storages),
        "links": len(grid.links),
        "shares": len(grid.shares),
        "without_storage": sorted(one.name for one in grid.queues.values() if not one.write_storages),
        "unread_queue_fields": unread_queue_fields(files),
    }


def build_routes(database: Database, store: GridStore) -> APIRouter:
    """`/api/v1/grid/...`"""
    routes = APIRouter(route_class=JsonRoute, prefix="/api/v1/grid", tags=["grid"])

    @routes.post("/load")
    async def load(body: GridFiles, caller: Annotated[Caller, Depends(OPERATOR)]) -> Reply:
        """Replace the grid. Refused whole if anything is wrong, with every problem listed."""
        async with database.read() as connection:
            now = await connection.fetchval("SELECT orrery_now()")
        try:
            # A full grid takes a good part of a second to check: not on the loop that answers others.
            grid = await asyncio.to_thread(
                parse_grid, body.files, now=None if body.keep_times else now, checks=GRID_CHECKS
            )
            async with database.begin(reason=f"grid loaded by {caller.name}") as work:
                counts = {"version": await store.save(work, grid, body.files), **_counts(grid, body.files)}
                await store.record(work, caller, "accepted", counts)
        except InvalidGrid as error:
            problems = [asdict(problem) for problem in error.problems]
            message = f"the grid is refused whole: {len(problems)} problems"
            return Reply(success=False, message=message, data={"problems": problems})
        warning = warning_of(counts["unread_queue_fields"])
        return Reply(success=True, message=f"grid version {counts['version']} loaded{warning}", data=counts)

    @routes.get("/queues", dependencies=[Depends(ANYBODY)])
    async def queues() -> Reply:
        """Every queue: its CRIC record, jobs by state, last pilot, workers."""
        async with database.read() as connection:
            return Reply(success=True, data=await store.list_queues(connection))

    @routes.get("/sites", dependencies=[Depends(ANYBODY)])
    async def sites() -> Reply:
        """Every site: role, queues, storages, free space."""
        async with database.read() as connection:
            return Reply(success=True, data=await store.list_sites(connection))

    @routes.get("/status", dependencies=[Depends(ANYBODY)])
    async def status() -> Reply:
        """Version of the grid; number of links and age of the newest network metric."""
        async with database.read() as connection:
            return Reply(success=True, data=await store.status(connection))

    return routes


def snapshot_routes(database: Database, snapshot: Snapshot, task_files: TaskFiles) -> APIRouter:
    """`/api/v1/grid/world` and `/api/v1/grid/task_files`: what a dry run takes."""
    routes = APIRouter(route_class=JsonRoute, prefix="/api/v1/grid", tags=["grid"])

    @routes.get("/world", dependencies=[Depends(WORLD_READER)])
    async def world() -> Reply:
        """All that a decision reads now, as a world file; the next decision here is made on the same."""
        async with database.read() as connection:
            saved = await save_world(connection)
            await snapshot.read_again(connection)
        return Reply(success=True, data=saved.model_dump(mode="json"))

    @routes.get("/task_files", dependencies=[Depends(WORLD_READER)])
    async def task_files_of(
        task_id: Annotated[list[TaskId], Query(min_length=1, max_length=MAX_TASK_FILES)],
    ) -> Reply:
        """Each task as it is now, with its present or last chunk, as a task file."""
        async with database.read() as connection:
            try:
                saved = await task_files.save(connection, task_id, snapshot.world.grid.storages)
            except NoSuchTask as error:
                return Reply(success=False, message=str(error), data={"task_ids": list(error.task_ids)})
        return Reply(success=True, data=[one.model_dump(mode="json", exclude_none=True) for one in saved])

    return routes


def build_web(
    database: Database,
    store: GridStore,
    snapshot: Snapshot,
    task_files: TaskFiles,
    slots: QueueSlots,
    parameters: Parameters,
) -> FastAPI:
    """The service's web application."""
    web = FastAPI(title="Orrery job brokerage", version="1")
    web.include_router(build_routes(database, store))
    web.include_router(snapshot_routes(database, snapshot, task_files))
    web.include_router(slots_routes(database, slots, parameters))
    put_into_envelopes(web)
    return web
