"""Task definition of a VO whose catalogue is outside, and may fail or lie."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from services.task_definition.app import build
from services.task_definition.data.cataloguing.working import RequestWorker
from services.task_definition.data.importing.files import import_catalogue
from shared.auth import Authority
from shared.catalogue import BuiltInOutside
from shared.db import Database
from shared.runtime.service import Context, Service
from tests.catalogues.faulty import FaultyCatalogue
from tests.databases import Databases
from tests.handlers.events import started
from tests.handlers.grids import load_grid
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.world import small_catalogue


@pytest.fixture
async def outside(databases: Databases) -> AsyncIterator[FaultyCatalogue]:
    """The world's data, in the catalogue of another database."""
    url = await databases.lend()
    other = await Database.connect(url, actor="outside")
    async with other.begin(reason="world") as work:
        await import_catalogue(work.connection, small_catalogue())
    yield FaultyCatalogue(BuiltInOutside(other, moves_s=3600))
    await other.close()
    await databases.take_back(url)


@pytest.fixture
async def service(context: Context, database: Database, outside: FaultyCatalogue) -> Service:
    """task_definition whose VO demo has its data outside; its own catalogue is empty."""
    await load_grid(database)
    return await started(build(context, {"demo": outside}))


@pytest.fixture
def worker(service: Service) -> RequestWorker:
    [found] = [one for run in service.background if isinstance(one := run.__self__, RequestWorker)]  # type: ignore[attr-defined]
    return found


@pytest.fixture
async def producer(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(service, authority, "prodteam", "production") as client:
        yield client
