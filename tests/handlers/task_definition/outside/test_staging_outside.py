"""Input on tape of a catalogue outside is staged by a rule with a lifetime."""

from __future__ import annotations

import httpx
import pytest

from services.task_definition.data.cataloguing.working import RequestWorker
from shared.db import Database
from shared.events import TaskRegistered
from shared.runtime.service import Service
from tests.catalogues.faulty import FaultyCatalogue
from tests.handlers.events import deliver
from tests.handlers.grids import a_disk, load_grid, small_grid
from tests.handlers.task_definition.outside.steps import due_again, let_arrive, registered, work_off
from tests.handlers.task_definition.steps import put, rows_of, task_row, value_of
from tests.handlers.task_definition.world import production
from tests.rows import change

TAPE = "ALPHA_DATATAPE"


@pytest.fixture
async def staging(
    database: Database, service: Service, worker: RequestWorker, producer: httpx.AsyncClient, outside: FaultyCatalogue
) -> int:
    """A task whose input has a copy on tape alone, with the stage-in begun."""
    grid = small_grid()
    grid["storages"][TAPE] = a_disk("ALPHA", ddm_endpoint_name=TAPE, type="DATATAPE", is_tape=True)
    await load_grid(database, grid)
    async with outside._inner._database.begin(reason="world") as work:
        move = "UPDATE catalogue.dataset_replicas SET storage = $1 WHERE storage = 'ALPHA_DATADISK'"
        await change(work.connection, move, TAPE)
    task_id = await registered(database, service, producer, production("tape", nucleus="ALPHA", inputPreStaging=True))
    await work_off(worker)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    assert (await task_row(database, task_id))["status"] == "staging"
    await look_after_stage_ins(database, service)
    await work_off(worker)
    return task_id


async def look_after_stage_ins(database: Database, service: Service) -> None:
    [run] = [one.run for one in service.periodic if one.name == "stage-ins"]
    async with database.begin(reason="periodic") as work:
        await run(work)


async def rule_of(database: Database) -> str:
    return str(await value_of(database, "SELECT rule_id FROM catalogue_requests WHERE kind = 'stage'"))


async def test_a_rule_brings_the_input_to_disk_and_the_task_goes_on(
    database: Database, worker: RequestWorker, outside: FaultyCatalogue, staging: int
) -> None:
    [asked] = await rows_of(database, "SELECT subject, details, status FROM catalogue_requests WHERE kind = 'stage'")
    assert (asked["subject"], asked["status"]) == ("mc.evnt at ALPHA_DATADISK", "moving")
    assert (asked["details"]["source"], asked["details"]["lifetime_s"]) == (TAPE, 15 * 86_400)
    await let_arrive(outside, await rule_of(database))
    await due_again(database)
    await work_off(worker)
    assert (await task_row(database, staging))["status"] == "staged"
    assert [row[0] for row in await rows_of(database, "SELECT status FROM stage_ins")] == ["done"]


async def test_a_rule_that_is_gone_ends_the_waiting_with_the_reason(
    database: Database, worker: RequestWorker, outside: FaultyCatalogue, staging: int
) -> None:
    rule_id = await rule_of(database)
    await outside.cancel(rule_id)
    await due_again(database)
    await work_off(worker)
    row = await task_row(database, staging)
    assert row["status"] == "broken" and row["error_dialog"].startswith(f"rule {rule_id} stages nothing: "), dict(row)


async def test_the_rule_of_a_task_that_has_ended_is_cancelled(
    database: Database, service: Service, worker: RequestWorker, outside: FaultyCatalogue, staging: int
) -> None:
    rule_id = await rule_of(database)
    await put(database, staging, "aborted")
    await look_after_stage_ins(database, service)
    await due_again(database)
    await work_off(worker)
    found = await rows_of(database, "SELECT kind, status FROM catalogue_requests WHERE kind IN ('stage', 'release')")
    assert sorted(tuple(row) for row in found) == [("release", "done"), ("stage", "failed")]
    assert (await outside.look_at([rule_id]))[rule_id].outcome == "gone"
