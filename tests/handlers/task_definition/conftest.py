from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from services.task_definition.app import build
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context, Service
from tests.applications import application_of
from tests.handlers.events import started
from tests.handlers.grids import load_grid
from tests.handlers.task_definition.steps import define, put
from tests.handlers.task_definition.world import import_world, production


@pytest.fixture
async def service(context: Context, database: Database) -> Service:
    """task_definition with a small grid and catalogue, without bus and sockets."""
    await load_grid(database)
    await import_world(database)
    return await started(build(context))


def client_of(
    service: Service, authority: Authority, name: str, *roles: str, groups: Sequence[str] = ()
) -> httpx.AsyncClient:
    """A client with a token of these roles and groups, straight into the application."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(service, authority)),
        base_url="http://task-definition",
        headers={"Authorization": f"Bearer {authority.issue(name, roles, groups)}"},
    )


@pytest.fixture
async def producer(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(service, authority, "prodteam", "production") as client:
        yield client


@pytest.fixture
async def user(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(service, authority, "alice", "user") as client:
        yield client


@pytest.fixture
async def operator(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(service, authority, "operations", "operator") as client:
        yield client


@pytest.fixture
async def task_id(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    """A production task, running."""
    found, _ = await define(database, service, producer, production())
    await put(database, found, "running", nucleus="ALPHA")
    return found
