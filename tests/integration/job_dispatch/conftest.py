from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from fastapi import FastAPI

from services.job_dispatch.app import Parts, build_parts
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context
from shared.runtime.web import HttpServer
from shared.web.service import install
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.integration.job_dispatch.dispatchers import dispatcher


@dataclass
class Served:
    """A dispatcher behind a real socket, with the list of queues that another service would give."""

    url: str
    parts: Parts
    rows: Rows
    server: HttpServer


@pytest.fixture
async def served(context: Context, database: Database, authority: Authority) -> AsyncIterator[Served]:
    rows = Rows(database)
    await rows.grid({"Q1": "SITE-A", "Q2": "SITE-B", "Q3": "SITE-C"})
    await rows.task(1)
    parts = build_parts(context)
    web = parts.service.web
    assert web is not None
    install(web, authority, parts.service.body_limits)
    _add_queues(web, database)
    for action in parts.service.on_start:
        await action()
    server = HttpServer(web, host="127.0.0.1", port=0, graceful_stop_s=5)
    await server.start()
    yield Served(f"http://127.0.0.1:{server.port}", parts, rows, server)
    await server.stop()
    await parts.close()


def _add_queues(web: FastAPI, database: Database) -> None:
    @web.get("/api/v1/grid/queues")
    async def queues() -> dict[str, object]:
        async with database.read() as connection:
            found = await connection.fetch("SELECT queue, status, type, data FROM queues ORDER BY queue")
        return {"success": True, "message": "", "data": [dict(row) for row in found]}


@pytest.fixture
async def pair(rows: Rows, database: Database, database_url: str, authority: Authority) -> AsyncIterator[list[Parts]]:
    pair = [dispatcher(database, database_url, authority, seed) for seed in (1, 2)]
    for one in pair:
        for action in one.service.on_start:
            await action()
    async with database.begin(reason="test") as work:
        for one in pair:
            await one.upkeep.count_replicas(work)  # each knows of the other
    yield pair
    for one in pair:
        await one.close()
