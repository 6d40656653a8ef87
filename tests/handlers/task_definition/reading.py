"""Steps of tests that read input from the catalogue, in slices of eight files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from services.task_definition.data.telling import Telling
from services.task_definition.data.wishing import Wishes
from services.task_definition.metrics import DefinitionMetrics
from services.task_definition.tasks.defining.checking import InputChecks
from services.task_definition.tasks.defining.definition import Definition
from services.task_definition.tasks.defining.reading import ContentsReader
from services.task_definition.tasks.staging.staging import Staging
from shared.cache import NullCache
from shared.catalogue import BuiltInCatalogue
from shared.config.parameters import Parameters
from shared.db import Database
from shared.events import Event, TaskRegistered
from shared.runtime.service import Service
from shared.snapshot import KnownGrid
from tests.handlers.task_definition.steps import define, rows_of, task_row, value_of
from tests.handlers.task_definition.world import production

SMALL = 8


NOBODY_OUTSIDE = Wishes((), Parameters())
TELLING = Telling(DefinitionMetrics(CollectorRegistry()))


def in_small_slices() -> Definition:
    reading = ContentsReader(KnownGrid(NullCache()), files_of_slice=SMALL, names_of_piece=5)
    return Definition(BuiltInCatalogue(), Parameters(), reading, NOBODY_OUTSIDE, staging(), TELLING)


def staging() -> Staging:
    return Staging(BuiltInCatalogue(), NOBODY_OUTSIDE, KnownGrid(NullCache()), Parameters())


async def registered(database: Database, definition: Definition, task_id: int) -> None:
    async with database.begin(reason="test") as work:
        await definition.on_task_registered(TaskRegistered(task_id=task_id), work)


async def read_on(database: Database, definition: Definition) -> Sequence[Event]:
    """One run of the periodic; what it announced."""
    async with database.begin(reason="test") as work:
        await definition.read_on(work)
        return work.emitted


async def read_all(database: Database, definition: Definition) -> list[Event]:
    emitted: list[Event] = []
    while await value_of(database, "SELECT EXISTS (SELECT FROM input_readings)"):
        emitted += await read_on(database, definition)
    return emitted


async def look(database: Database, definition: Definition | None = None) -> list[Event]:
    """Everything that is due is looked at, and read again."""
    definition = definition or in_small_slices()
    await begin_to_look(database, definition)
    return await read_all(database, definition)


async def begin_to_look(database: Database, definition: Definition) -> None:
    checks = InputChecks(Parameters(), definition.read_again, NOBODY_OUTSIDE, definition.compare_unknown)
    await change(database, "UPDATE task_datasets SET state_check_time = state_check_time - interval '2 hours'")
    async with database.begin(reason="test") as work:
        await checks.look(work)


async def change(database: Database, statement: str, *arguments: Any) -> None:
    async with database.begin(reason="test") as work:
        await work.connection.execute(statement, *arguments)


async def statuses(database: Database, task_id: int) -> dict[str, str]:
    rows = await rows_of(database, "SELECT lfn, status FROM task_files WHERE task_id = $1 AND type = 'input'", task_id)
    return {row["lfn"]: row["status"] for row in rows}


async def master(database: Database, task_id: int) -> Any:
    [row] = await rows_of(
        database, "SELECT * FROM task_datasets WHERE task_id = $1 AND type = 'input' AND master_id IS NULL", task_id
    )
    return row


async def ready_task(database: Database, service: Service, producer: httpx.AsyncClient, **changes: Any) -> int:
    inputs = changes.pop("inputs", None)
    task_id, _ = await define(database, service, producer, production("read", inputs, nucleus="ALPHA", **changes))
    assert (await task_row(database, task_id))["status"] == "ready", (await task_row(database, task_id))["error_dialog"]
    return task_id


def lfn(number: int) -> str:
    return f"EVNT._{number:06d}.root"
