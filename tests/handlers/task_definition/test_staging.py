"""A task whose input must be staged from tape waits as staging, and goes on when it was, or when somebody says so."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest

from shared.db import Database
from shared.events import Event, TaskReady, TaskRegistered
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.grids import a_disk, load_grid, small_grid
from tests.handlers.task_definition.reading import change, look, master, statuses
from tests.handlers.task_definition.steps import define, path, put, rows_of, task_row
from tests.handlers.task_definition.world import analysis, production

TAPE = "ALPHA_DATATAPE"


@pytest.fixture
async def staging(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    """A task whose input has a copy on tape alone."""
    grid = small_grid()
    grid["storages"][TAPE] = a_disk("ALPHA", ddm_endpoint_name=TAPE, type="DATATAPE", is_tape=True)
    await load_grid(database, grid)
    await change(database, "UPDATE catalogue.dataset_replicas SET storage = $1 WHERE storage = 'ALPHA_DATADISK'", TAPE)
    task_id, _ = await define(database, service, producer, production("tape", nucleus="ALPHA", inputPreStaging=True))
    return task_id


async def registered(database: Database, service: Service, task_id: int) -> Sequence[Event]:
    return await deliver(database, service, TaskRegistered(task_id=task_id))


async def test_a_task_waits_as_staging_until_the_catalogue_has_its_input_on_disk(
    database: Database, service: Service, staging: int
) -> None:
    row = await task_row(database, staging)
    assert (row["status"], row["error_dialog"]) == ("staging", "none of 20 units of input can be used: 20 staging")
    assert set((await statuses(database, staging)).values()) == {"staging"}
    await look(database)
    assert (await task_row(database, staging))["status"] == "staging", "nothing was staged so far"
    await change(
        database,
        "INSERT INTO catalogue.dataset_replicas SELECT dataset_id, 'ALPHA_DATADISK', n_files, n_bytes, true"
        " FROM catalogue.datasets WHERE name = 'mc.evnt'",
    )
    await look(database)
    assert (await task_row(database, staging))["status"] == "staged"
    assert TaskReady(task_id=staging, nucleus="ALPHA") in await registered(database, service, staging)
    wanted = ["registered", "defined", "staging", "staged", "defined", "ready"]
    assert [state for _, state in await path(database, "task", staging)] == wanted
    assert set((await statuses(database, staging)).values()) == {"ready"}


async def test_input_that_is_partly_staged_is_used_as_far_as_it_is(
    database: Database, service: Service, staging: int
) -> None:
    await change(
        database,
        "WITH r AS (INSERT INTO catalogue.dataset_replicas SELECT dataset_id, 'ALPHA_DATADISK', 3, 3, false"
        " FROM catalogue.datasets WHERE name = 'mc.evnt') INSERT INTO catalogue.file_replicas"
        " SELECT f.file_id, 'ALPHA_DATADISK' FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)"
        " WHERE d.name = 'mc.evnt' ORDER BY f.lfn LIMIT 3",
    )
    await look(database)
    await registered(database, service, staging)
    assert (await task_row(database, staging))["status"] == "ready"
    found = list((await statuses(database, staging)).values())
    assert (found.count("ready"), found.count("staging")) == (3, 17)


async def test_resuming_a_task_that_is_staged_takes_its_input_from_tape(
    database: Database, service: Service, producer: httpx.AsyncClient, staging: int
) -> None:
    reply = (await producer.post("/api/v1/task/resume", json={"task_id": staging})).json()
    assert reply["success"] and (await task_row(database, staging))["status"] == "staged"
    assert TaskReady(task_id=staging, nucleus="ALPHA") in await registered(database, service, staging)
    assert set((await statuses(database, staging)).values()) == {"ready"}
    await put(database, staging, "running")
    await change(database, "UPDATE catalogue.datasets SET contents_version = contents_version + 1")
    await look(database)
    assert set((await statuses(database, staging)).values()) == {"ready"}, "what was decided holds for later readings"


async def test_input_is_looked_at_as_long_as_it_is_staged(database: Database, staging: int) -> None:
    over = "UPDATE task_datasets SET state_check_expiration = state_check_time - interval '1 day' WHERE type = 'input'"
    await change(database, over)
    await look(database)
    assert (await master(database, staging))["state_check_expiration"] is not None
    await put(database, staging, "running")
    await change(database, over)
    await look(database)
    assert (await master(database, staging))["state_check_expiration"] is None


async def test_a_task_that_is_staged_can_be_paused_and_killed(
    database: Database, producer: httpx.AsyncClient, staging: int
) -> None:
    for verb, after in (("pause", "paused"), ("resume", "staging"), ("kill", "aborting")):
        assert (await producer.post(f"/api/v1/task/{verb}", json={"task_id": staging})).json()["success"]
        assert (await task_row(database, staging))["status"] == after


async def asked(database: Database) -> list[dict]:
    rows = await rows_of(database, "SELECT * FROM stage_ins ORDER BY stage_in_id")
    return [dict(row) for row in rows]


async def look_after(database: Database, service: Service, seconds: float = 0.0) -> None:
    """What the service does every few seconds, so much later."""
    await change(
        database,
        "UPDATE stage_ins SET started_at = started_at - make_interval(secs => $1),"
        " due_at = due_at - make_interval(secs => $1), requested_at = requested_at - make_interval(secs => $1)",
        seconds,
    )
    [run] = [one.run for one in service.periodic if one.name == "stage-ins"]
    async with database.begin(reason="periodic") as work:
        await run(work)


async def test_the_stage_in_is_asked_for_once_to_the_disk_at_the_site_of_the_tape(
    database: Database, service: Service, staging: int
) -> None:
    [row] = await asked(database)
    assert (row["dataset_name"], row["source_storage"], row["destination_storage"], row["status"]) == (
        "mc.evnt", TAPE, "ALPHA_DATADISK", "requested",
    )  # fmt: skip
    assert (row["n_files"], row["task_id"]) == (20, staging)
    await put(database, staging, "staged")
    await registered(database, service, staging)
    assert len(await asked(database)) == 1


async def test_the_first_files_that_are_staged_are_worked_on_before_the_last_arrive(
    database: Database, service: Service, staging: int
) -> None:
    await look_after(database, service)
    [row] = await asked(database)
    assert (row["status"], row["n_staged"]) == ("active", 0)
    whole_s = (row["due_at"] - row["started_at"]).total_seconds()
    await look_after(database, service, 0.35 * whole_s)
    await look(database)
    assert (await task_row(database, staging))["status"] == "staged"
    assert TaskReady(task_id=staging, nucleus="ALPHA") in await registered(database, service, staging)
    found = sorted((await statuses(database, staging)).items())
    assert [status for _, status in found] == ["ready"] * 6 + ["staging"] * 14
    await look_after(database, service, 0.7 * whole_s)
    assert [row["status"] for row in await asked(database)] == ["done"]
    await put(database, staging, "running")
    await look(database)
    assert set((await statuses(database, staging)).values()) == {"ready"}
    kept = "SELECT DISTINCT task_id FROM catalogue.brought_copies"
    assert [row[0] for row in await rows_of(database, kept)] == [staging], "staged copies are deleted after use"


async def test_input_that_is_never_staged_ends_the_waiting_with_the_reason(
    database: Database, service: Service, staging: int
) -> None:
    await look_after(database, service, 31 * 86_400)
    row = await task_row(database, staging)
    assert (row["status"], row["error_dialog"]) == ("broken", f"not staged from {TAPE} in 30 days")
    assert [one["status"] for one in await asked(database)] == ["failed"]


async def test_a_task_that_works_goes_on_without_what_is_never_staged(
    database: Database, service: Service, staging: int
) -> None:
    await put(database, staging, "running")
    await look_after(database, service, 31 * 86_400)
    assert (await task_row(database, staging))["status"] == "running"
    assert set((await statuses(database, staging)).values()) == {"missing"}


async def test_nothing_is_staged_for_a_task_that_has_ended(database: Database, service: Service, staging: int) -> None:
    await put(database, staging, "aborted")
    await look_after(database, service)
    assert [(one["status"], one["error"]) for one in await asked(database)] == [("failed", "its task has ended")]


async def test_analysis_of_too_much_tape_is_refused_with_the_size(
    database: Database, service: Service, producer: httpx.AsyncClient, staging: int
) -> None:
    await change(database, "UPDATE catalogue.files SET size_bytes = $1", 20 * 2**40)
    task = {**analysis("much"), "jobParameters": production("x")["jobParameters"], "inputPreStaging": True}
    task_id, _ = await define(database, service, producer, task)
    row = await task_row(database, task_id)
    told = "input mc.evnt of 400.0 TB is on tape; allowed for analysis: 300 TB"
    assert (row["status"], row["error_dialog"]) == ("broken", told)
    assert [one["task_id"] for one in await asked(database)] == [staging]


async def test_input_without_a_disk_to_stage_it_to_waits_with_the_reason_and_goes_on_when_there_is_one(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    grid = small_grid()
    grid["storages"][TAPE] = a_disk("ALPHA", ddm_endpoint_name=TAPE, type="DATATAPE", is_tape=True)
    disks = [one for name, one in grid["storages"].items() if name != TAPE]
    for one in disks:
        one["type"] = "SCRATCHDISK"
    await load_grid(database, grid)
    await change(database, "UPDATE catalogue.dataset_replicas SET storage = $1 WHERE storage = 'ALPHA_DATADISK'", TAPE)
    task_id, _ = await define(database, service, producer, production("tape", nucleus="ALPHA", inputPreStaging=True))
    told = "no DATADISK of the grid can be written to"
    await look_after(database, service)
    [row] = await asked(database)
    assert (row["source_storage"], row["destination_storage"], row["waits_for"]) == (TAPE, None, told)
    text = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]["text"]
    assert f"staged from {TAPE} to a disk: mc.evnt, 0 of 20 files; waits: {told}" in text
    for one in disks:
        one["type"] = "DATADISK"
    await load_grid(database, grid)
    await look_after(database, service)
    [row] = await asked(database)
    assert (row["destination_storage"], row["status"], row["waits_for"]) == ("ALPHA_DATADISK", "active", None)


async def test_input_without_a_known_tape_is_given_up_like_any_other(
    database: Database, service: Service, staging: int
) -> None:
    await change(database, "UPDATE stage_ins SET source_storage = NULL, destination_storage = NULL")
    await change(database, "DELETE FROM catalogue.dataset_replicas WHERE storage = $1", TAPE)
    await look_after(database, service)
    assert [one["waits_for"] for one in await asked(database)] == ["no tape of the grid is known to have it"]
    await look_after(database, service, 31 * 86_400)
    row = await task_row(database, staging)
    told = "not staged in 30 days: no tape of the grid is known to have it"
    assert (row["status"], row["error_dialog"]) == ("broken", told)


async def test_what_is_held_by_the_limit_of_its_person_says_so(
    database: Database, service: Service, producer: httpx.AsyncClient, staging: int
) -> None:
    await look_after(database, service)
    await change(database, "UPDATE stage_ins SET n_bytes = $1", 200 * 2**40)
    await define(database, service, producer, production("more", nucleus="ALPHA", inputPreStaging=True))
    await look_after(database, service)
    told = [one["waits_for"] for one in await asked(database)]
    assert told[0] is None and "100 TB for a person (STAGED_FOR_USER_TB)" in told[1]


async def test_a_task_whose_input_was_given_up_while_it_was_paused_is_broken_when_it_is_resumed(
    database: Database, service: Service, producer: httpx.AsyncClient, staging: int
) -> None:
    assert (await producer.post("/api/v1/task/pause", json={"task_id": staging})).json()["success"]
    await look_after(database, service, 31 * 86_400)
    assert (await task_row(database, staging))["status"] == "paused"
    assert set((await statuses(database, staging)).values()) == {"staging"}
    assert (await producer.post("/api/v1/task/resume", json={"task_id": staging})).json()["success"]
    await look_after(database, service)
    row = await task_row(database, staging)
    assert (row["status"], row["error_dialog"]) == ("broken", f"not staged from {TAPE} in 30 days")


async def test_stage_ins_that_ended_long_ago_are_forgotten(database: Database, service: Service, staging: int) -> None:
    await put(database, staging, "aborted")
    await look_after(database, service)
    assert len(await asked(database)) == 1
    await change(database, "UPDATE stage_ins SET ended_at = ended_at - interval '31 days'")
    await look_after(database, service)
    assert await asked(database) == []
