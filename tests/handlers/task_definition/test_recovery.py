"""Lost outputs are made again: from input that was finished, in this task and in those that made lost input."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy import commands as rules
from shared.auth import Authority
from shared.db import Database
from shared.events import TaskRegistered
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define, put, rows_of, task_row, value_of
from tests.handlers.task_definition.world import an_input, production
from tests.rows import insert

PATH = "/api/v1/task/recover_lost_files"


async def recover(client: httpx.AsyncClient, task_id: int, **body: Any) -> dict[str, Any]:
    return (await client.post(PATH, json={"task_id": task_id, **body})).json()


async def produce(database: Database, task_id: int, name: str, *, first_job: int, n_jobs: int = 5) -> list[str]:
    """Jobs of two input files each ended well: their outputs are finished and in the catalogue; the task is done."""
    names = [f"{name}.{number}.root" for number in range(1, n_jobs + 1)]
    async with database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        inputs = await connection.fetch(
            "SELECT file_id, dataset_id FROM task_files WHERE task_id = $1 AND type = 'input' ORDER BY file_id", task_id
        )
        output = await connection.fetchrow(
            "SELECT dataset_id, dataset_name FROM task_datasets WHERE task_id = $1 AND type = 'output'", task_id
        )
        catalogued = await connection.fetchval(
            "SELECT dataset_id FROM catalogue.datasets WHERE name = $1", output["dataset_name"]
        )
        for place, lfn in enumerate(names):
            job_id = first_job + place
            for one in inputs[2 * place : 2 * place + 2]:
                await connection.execute(
                    "UPDATE task_files SET status = 'finished', attempt_nr = 0 WHERE file_id = $1", one["file_id"]
                )
                await insert(connection, "job_files", {
                    "job_id": job_id, "file_id": one["file_id"], "dataset_id": one["dataset_id"], "task_id": task_id,
                    "type": "input", "is_master": True,
                })  # fmt: skip
            row = {"dataset_id": output["dataset_id"], "task_id": task_id, "lfn": lfn, "type": "output",
                   "status": "finished", "out_job_id": job_id, "n_events": 2000, "fsize": 7}  # fmt: skip
            await insert(connection, "task_files", row)
            await insert(connection, "catalogue.files", {
                "dataset_id": catalogued, "scope": "mc", "lfn": lfn, "size_bytes": 7, "n_events": 2000,
            })  # fmt: skip
        await connection.execute(
            "UPDATE catalogue.datasets SET n_files = $2::bigint, n_bytes = 7 * $2::bigint, state = 'frozen',"
            " n_events = 2000 * $2::bigint WHERE dataset_id = $1",
            catalogued,
            n_jobs,
        )
        await connection.execute(
            "UPDATE task_datasets SET n_files_used = $2::bigint, n_files_finished = $2::bigint, n_files = $2::bigint,"
            " status = 'done' WHERE task_id = $1 AND type = 'output'",
            task_id,
            n_jobs,
        )
        await connection.execute(
            "UPDATE task_datasets SET n_files_used = $2::bigint, n_files_finished = $2::bigint,"
            " n_files_to_be_used = n_files, n_events_used = 1000 * $2::bigint, status = 'done'"
            " WHERE task_id = $1 AND type = 'input'",
            task_id,
            2 * n_jobs,
        )
    await put(database, task_id, "done", nucleus="ALPHA")
    return names


async def lose(database: Database, name: str) -> None:
    async with database.pool.acquire() as connection:
        await connection.execute("DELETE FROM catalogue.files WHERE lfn = $1", name)


async def counters(database: Database, task_id: int, kind: str) -> tuple[int, ...]:
    [row] = await rows_of(
        database,
        "SELECT n_files_used, n_files_finished, n_events_used FROM task_datasets WHERE task_id = $1 AND type = $2",
        task_id,
        kind,
    )
    return tuple(row)


@pytest.fixture
async def parent(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    task_id, _ = await define(database, service, producer, production(nFiles=10))
    return task_id


async def test_the_input_of_lost_outputs_is_opened_again_and_the_task_goes_on(
    database: Database, producer: httpx.AsyncClient, parent: int
) -> None:
    names = await produce(database, parent, "HITS", first_job=100)
    reply = await recover(producer, parent, files=[names[1], names[3]])
    assert reply["success"], reply
    assert reply["message"] == f"task {parent}: 2 lost files made again, from 4 units of input of 2 jobs"
    assert (await task_row(database, parent))["status"] == "ready"
    assert await counters(database, parent, "input") == (6, 6, 6000)
    assert (await counters(database, parent, "output"))[:2] == (3, 3)
    statuses = await rows_of(database, "SELECT lfn, status FROM task_files WHERE type = 'output' ORDER BY file_id")
    assert [row["status"] for row in statuses] == ["finished", "lost", "finished", "lost", "finished"]
    kept = await rows_of(database, r"SELECT lfn FROM catalogue.files WHERE lfn ~ '^HITS\.\d\.root$' ORDER BY lfn")
    assert [row["lfn"] for row in kept] == [names[0], names[2], names[4]]
    assert await value_of(database, "SELECT state FROM catalogue.datasets WHERE name = 'mc.simulation'") == "open"
    again = await rows_of(database, "SELECT max_attempt FROM task_files WHERE type = 'input' AND status = 'ready'")
    assert [row["max_attempt"] for row in again] == [8] * 4


async def test_without_names_those_are_made_again_that_the_catalogue_has_lost(
    database: Database, producer: httpx.AsyncClient, parent: int
) -> None:
    names = await produce(database, parent, "HITS", first_job=100)
    assert "no output is lost" in (await recover(producer, parent))["message"]
    assert (await task_row(database, parent))["status"] == "done"
    await lose(database, names[2])
    before = await rows_of(database, "SELECT file_id, status FROM task_files ORDER BY file_id")
    dry = await recover(producer, parent, dry_run=True)
    assert dry["message"] == f"dry run: task {parent}: 1 lost file made again, from 2 units of input of 1 job"
    assert await rows_of(database, "SELECT file_id, status FROM task_files ORDER BY file_id") == before
    assert (await recover(producer, parent))["success"]
    lost = await rows_of(database, "SELECT lfn FROM task_files WHERE status = 'lost'")
    assert [row["lfn"] for row in lost] == [names[2]]


async def test_what_was_deleted_after_use_is_not_lost_unless_it_is_named(
    database: Database, producer: httpx.AsyncClient, parent: int
) -> None:
    names = await produce(database, parent, "HITS", first_job=100)
    async with database.pool.acquire() as connection:
        await connection.execute(
            """UPDATE task_datasets SET attributes = '{"transient": true}' WHERE task_id = $1 AND type = 'output'""",
            parent,
        )
    for name in names:
        await lose(database, name)
    assert "no output is lost" in (await recover(producer, parent))["message"]
    assert (await task_row(database, parent))["status"] == "done"
    named = await recover(producer, parent, files=names[:1])
    assert named["message"] == f"task {parent}: 1 lost file made again, from 2 units of input of 1 job"


async def test_new_files_go_to_a_new_dataset_where_that_is_asked_for(
    database: Database, producer: httpx.AsyncClient, parent: int
) -> None:
    names = await produce(database, parent, "HITS", first_job=100)
    wrong = await recover(producer, parent, files=[names[0]], new_dataset_suffix=".log")
    assert not wrong["success"] and "new_dataset_suffix" in wrong["message"]
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE catalogue.scopes SET vo = 'cms' WHERE scope = 'mc'")
    lost = await recover(producer, parent, files=[names[0]])
    assert not lost["success"] and ": mc.simulation now belongs to another VO" in lost["message"]
    assert await value_of(database, "SELECT n_files FROM catalogue.datasets WHERE name = 'mc.simulation'") > 0
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE catalogue.scopes SET vo = 'demo' WHERE scope = 'mc'")
    assert (await task_row(database, parent))["status"] == "done", "nothing is half done"
    assert await value_of(database, "SELECT count(*) FROM task_files WHERE status = 'lost'") == 0
    assert (await recover(producer, parent, files=[names[0]], new_dataset_suffix=".again"))["success"]
    [template] = await rows_of(
        database,
        "SELECT d.dataset_name FROM output_templates o JOIN task_datasets d USING (dataset_id) WHERE d.type = 'output'",
    )
    assert template["dataset_name"] == "mc.simulation.again"
    assert await value_of(database, "SELECT state FROM catalogue.datasets WHERE name = 'mc.simulation.again'") == "open"


async def test_where_the_input_is_lost_too_its_maker_recovers_it_first_and_the_task_waits_for_it(
    database: Database, service: Service, producer: httpx.AsyncClient, parent: int
) -> None:
    made = await produce(database, parent, "HITS", first_job=100)
    derived = production("derivation", [an_input("mc.simulation")], nFilesPerJob=2)
    child, _ = await define(database, service, producer, derived)
    outputs = await produce(database, child, "DAOD", first_job=200, n_jobs=2)
    await lose(database, made[0])
    reply = await recover(producer, child, files=[outputs[0]])
    assert reply["success"], reply
    assert f"its input {made[0]} is lost too: task {parent} makes it first" in reply["message"]
    assert (await task_row(database, parent))["status"] == "ready"
    row = await task_row(database, child)
    assert (row["status"], row["parent_tid"]) == ("rerefine", parent)
    await deliver(database, service, TaskRegistered(task_id=child))
    row = await task_row(database, child)
    assert (row["status"], row["old_status"]) == ("pending", "rerefine"), "it waits for its parent"
    files = await rows_of(
        database, "SELECT lfn, status FROM task_files WHERE task_id = $1 AND type = 'input' ORDER BY file_id", child
    )
    assert [(row["lfn"], row["status"]) for row in files][:2] == [(made[0], "lost"), (made[1], "ready")]
    assert await value_of(database, "SELECT count(*) FROM audit_log WHERE verb = 'task.recover_lost_files'") == 2


@pytest.mark.parametrize("told", ["a name that nobody knows", "a name twice", "no name"])
async def test_names_that_are_no_finished_outputs_are_refused_and_nothing_changes(
    database: Database, producer: httpx.AsyncClient, parent: int, told: str
) -> None:
    names = await produce(database, parent, "HITS", first_job=100)
    files = {
        "a name that nobody knows": [names[0], "HITS.99.root"],
        "a name twice": [names[0], names[0]],
        "no name": [],
    }
    reply = await recover(producer, parent, files=files[told])
    if told == "a name twice":
        assert reply["success"] and "1 lost file" in reply["message"]
        return
    assert (reply["success"], reply["data"]) == (False, rules.BAD_VALUE)
    assert "files" in [one["field"] for one in reply["problems"]]
    assert (await task_row(database, parent))["status"] == "done"
    assert await value_of(database, "SELECT count(*) FROM task_files WHERE status = 'lost'") == 0


async def test_lost_input_that_no_task_made_refuses_the_recovery_and_nothing_changes(
    database: Database, producer: httpx.AsyncClient, parent: int
) -> None:
    names = await produce(database, parent, "HITS", first_job=100)
    await lose(database, "EVNT._000001.root")
    reply = await recover(producer, parent, files=[names[0]])
    assert not reply["success"] and "no task here made it" in reply["message"]
    assert (await task_row(database, parent))["status"] == "done"


async def test_what_was_made_of_input_that_is_not_known_any_more_is_refused_and_nothing_changes(
    database: Database, producer: httpx.AsyncClient, parent: int
) -> None:
    names = await produce(database, parent, "HITS", first_job=100)
    async with database.read() as connection:
        await connection.execute("DELETE FROM job_files WHERE job_id = 100")
    reply = await recover(producer, parent, files=[names[0]])
    assert not reply["success"] and "what its job 100 read is not known any more" in reply["message"]
    assert (await task_row(database, parent))["status"] == "done"
    assert (await recover(producer, parent, files=[names[1]]))["success"], "of the others it is known"


async def test_only_the_owner_or_production_recovers(
    database: Database, service: Service, authority: Authority, producer: httpx.AsyncClient, parent: int
) -> None:
    names = await produce(database, parent, "HITS", first_job=100)
    async with client_of(service, authority, "bob", "user") as bob:
        assert (await recover(bob, parent, files=[names[0]]))["data"] == rules.NOT_PERMITTED
    assert (await task_row(database, parent))["status"] == "done"
