"""Commands that open input again take some of it in the request and the rest in slices, each in its own transaction."""

from __future__ import annotations

import httpx
import pytest

from services.task_definition.tasks.store import reopenings
from shared.db import Database
from shared.events import TaskCommanded, TaskReady, TaskRegistered, TaskReleased
from shared.runtime.service import Service
from tests.handlers.task_definition.commanding import announced, command
from tests.handlers.task_definition.reading import master
from tests.handlers.task_definition.steps import end_files, put, rows_of, task_row, value_of


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reopenings, "SLICE", 3)


async def one_slice(database: Database, service: Service) -> bool:
    """What the service does once a second; whether there is more."""
    [work_off] = [one.run for one in service.periodic if one.name == "reopenings"]
    async with database.begin(reason="a slice") as work:
        return bool(await work_off(work))


async def all_slices(database: Database, service: Service) -> int:
    number = 0
    while await one_slice(database, service):
        number += 1
    return number


async def units(database: Database, task_id: int) -> dict[str, int]:
    rows = await rows_of(
        database,
        "SELECT status, count(*) AS n FROM task_files WHERE task_id = $1 AND type = 'input' GROUP BY status",
        task_id,
    )
    return {row["status"]: row["n"] for row in rows}


async def sizes_of_slices(database: Database) -> list[int]:
    log = await rows_of(
        database,
        "SELECT entity_ids FROM transition_log WHERE entity = 'file' AND to_status = 'ready' ORDER BY at, ctid",
    )
    return [len(one["entity_ids"]) for one in log]


async def test_a_retry_of_much_input_answers_after_the_first_slice_and_goes_on_when_the_last_is_done(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=10, failed=10)
    await put(database, task_id, "finished")
    told_before = len(await announced(database))
    reply = await command(producer, "retry", task_id)
    said = "retry: 3 units of input re-opened so far, the others follow"
    assert (reply["success"], reply["message"]) == (True, f"task {task_id}: {said}")
    row = await task_row(database, task_id)
    assert (row["status"], row["error_dialog"], await units(database, task_id)) == (
        "toretry", said, {"finished": 10, "ready": 3, "failed": 7},
    )  # fmt: skip
    assert len(await announced(database)) == told_before, "nobody is told of half a retry"
    counted = await master(database, task_id)
    assert (counted["n_files_used"], counted["n_files_failed"], counted["n_events_used"]) == (17, 7, 17_000)
    assert await one_slice(database, service)
    assert (await task_row(database, task_id))["error_dialog"] == said.replace("3", "6")
    assert await all_slices(database, service) == 2
    row, counted = await task_row(database, task_id), await master(database, task_id)
    assert (row["status"], row["error_dialog"], row["attempt_nr"]) == ("ready", None, 1)
    assert (counted["n_files_used"], counted["n_files_failed"], counted["n_events_used"]) == (10, 0, 10_000)
    assert await sizes_of_slices(database) == [3, 3, 3, 1]
    assert (await announced(database))[told_before:] == [TaskCommanded.routing_key(), TaskReady.routing_key()]
    assert await value_of(database, "SELECT count(*) FROM reopenings") == 0


async def test_a_task_that_is_killed_while_it_is_opened_again_stays_killed(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=10, failed=10)
    await put(database, task_id, "finished")
    assert (await command(producer, "retry", task_id))["success"]
    assert (await command(producer, "kill", task_id))["success"]
    await all_slices(database, service)
    assert (await task_row(database, task_id))["status"] == "aborting"
    assert (await units(database, task_id))["failed"] == 7
    assert await value_of(database, "SELECT count(*) FROM reopenings") == 0


async def test_an_incremental_execution_is_refined_after_the_last_slice(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=10, failed=8)
    await put(database, task_id, "finished")
    told_before = len(await announced(database))
    reply = await command(producer, "reload_input", task_id)
    assert reply["message"] == f"task {task_id}: incexec: 3 units of input re-opened so far, the others follow"
    assert (await task_row(database, task_id))["status"] == "toincexec"
    await all_slices(database, service)
    assert (await task_row(database, task_id))["status"] == "rerefine"
    assert await units(database, task_id) == {"finished": 10, "ready": 10}
    assert (await announced(database))[told_before:] == [TaskCommanded.routing_key(), TaskRegistered.routing_key()]


async def test_more_attempts_reach_every_unit_once_whatever_it_is_doing_meanwhile(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=5, failed=5)
    await put(database, task_id, "running")
    most = "SELECT max_attempt, count(*) AS n FROM task_files WHERE type = 'input' GROUP BY 1 ORDER BY 1"
    before = {row["max_attempt"]: row["n"] for row in await rows_of(database, most)}
    assert before == {3: 20}
    reply = await command(producer, "increase_attempts", task_id, increase=7)
    assert reply["message"].endswith(", the others follow"), reply
    assert (await task_row(database, task_id))["status"] == "running", "it works on meanwhile"
    while await one_slice(database, service):
        await put_to_work(database, task_id)
    after = {row["max_attempt"]: row["n"] for row in await rows_of(database, most)}
    assert after == {3: 5, 10: 15}, "finished units stay as they are, all others may be tried 7 times more"
    assert (await master(database, task_id))["n_files_failed"] == 0
    assert (await announced(database))[-1] == TaskReleased.routing_key()


async def test_a_live_task_is_looked_at_after_the_last_slice_even_if_that_opened_nothing(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    """Until then it does not end, for later slices may bring units that were given up."""
    await end_files(database, task_id, finished=10, failed=0)
    await put(database, task_id, "running")
    assert (await command(producer, "increase_attempts", task_id, increase=1))["success"]
    n_before = len(await announced(database))
    while await value_of(database, "SELECT count(*) FROM reopenings"):
        assert len(await announced(database)) == n_before, "nothing was re-opened"
        await one_slice(database, service)
    assert (await announced(database))[n_before:] == [TaskReleased.routing_key()]


async def put_to_work(database: Database, task_id: int) -> None:
    """Its jobs take units meanwhile, and give others back."""
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            "UPDATE task_files SET status = CASE status WHEN 'ready' THEN 'running' ELSE 'ready' END"
            " WHERE task_id = $1 AND type = 'input' AND status IN ('ready', 'running')",
            task_id,
        )


async def test_two_commands_have_their_slices_in_turn(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=10, failed=0)
    await put(database, task_id, "running")
    for _ in range(2):
        assert (await command(producer, "increase_attempts", task_id, increase=1))["success"]
    await all_slices(database, service)
    raised = await rows_of(
        database, "SELECT DISTINCT max_attempt FROM task_files WHERE type = 'input' AND status = 'ready'"
    )
    assert [row["max_attempt"] for row in raised] == [5]
