"""What a submitted task states is in the columns that the other services read."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy.task_spec import parse_task
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.grids import a_record, load_grid, small_grid
from tests.handlers.task_definition.steps import submit, task_row
from tests.handlers.task_definition.world import production


@pytest.fixture
async def with_event_service(service: Service, database: Database) -> None:
    """The small grid, and a queue that takes event service."""
    grid = small_grid()
    grid["queues"]["E_ALPHA"] = a_record("E_ALPHA", "ALPHA", jobseed="es")
    await load_grid(database, grid)


@pytest.mark.usefixtures("with_event_service")
@pytest.mark.parametrize(
    ("stated", "row"),
    [
        ({}, (0, None)),
        ({"nEventsPerWorker": 50, "nJumboJobs": 2}, (1, "W")),
        ({"nEventsPerWorker": 50, "nJumboJobs": 2, "site": "E_ALPHA"}, (1, None)),
    ],
    ids=["neither", "both", "at one site"],
)
async def test_a_submitted_task_uses_event_service_and_jumbo_jobs_where_it_says_so(
    database: Database, producer: httpx.AsyncClient, stated: dict[str, Any], row: tuple[int, str | None]
) -> None:
    stored = await task_row(database, await submit(producer, production(**stated)))
    assert (stored["event_service"], stored["use_jumbo"]) == row


@pytest.mark.usefixtures("with_event_service")
async def test_every_column_that_follows_from_the_parameters_is_stored(
    database: Database, producer: httpx.AsyncClient
) -> None:
    parameters = production(nEventsPerWorker=50, nJumboJobs=2, goal=95, baseRamCount=700, cpuEfficiency=80)
    stored, stated = await task_row(database, await submit(producer, parameters)), parse_task(parameters).columns()
    stated["req_id"] = stored["req_id"]  # that of the task where none is stated
    assert {name: stored[name] for name, value in stated.items() if stored[name] != value} == {}
