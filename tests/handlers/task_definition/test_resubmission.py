"""A task submitted again goes on; two tasks writing one dataset are refused unless duplication is allowed."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy import duplication
from services.task_definition.tasks.store.tasks import SQL
from shared.auth import Authority
from shared.db import Database
from shared.events import TaskPrepared, TaskReady, TaskRegistered
from shared.runtime.service import Service
from tests import rows
from tests.handlers.events import deliver
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define, end_files, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import an_input, analysis, output, production
from tests.rows_read import rows_read

CODE = {"type": "constant", "value": '-j "" -a jobO.old.tar.gz --run'}


def mine(**changes: Any) -> dict[str, Any]:
    task = analysis(uniqueTaskName=True, **changes)
    return {**task, "jobParameters": [*task["jobParameters"], CODE]}


async def send(client: httpx.AsyncClient, parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return (await client.post("/api/v1/task/submit", json={"task_parameters": parameters, **more})).json()


async def test_a_task_submitted_again_runs_over_input_that_was_unused_or_failed(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, mine(nFiles=10, site="ALPHA"))
    await end_files(database, task_id, finished=6, failed=4)
    await put(database, task_id, "finished")
    again = mine(nGBPerJob=3, cliParams="prun --nGBPerJob 3", ramCount=9000, ramUnit="MB")
    reply = await send(user, again)
    assert (reply["success"], reply["data"]) == (True, task_id), reply
    assert f"jediTaskID={task_id}" in reply["message"] and "changed: nFiles, nGBPerJob, site" in reply["message"]
    emitted = list(await deliver(database, service, TaskRegistered(task_id=task_id)))
    assert emitted == [TaskReady(task_id=task_id)]
    counted = await rows_of(database, "SELECT status, count(*) AS n FROM task_files WHERE type = 'input' GROUP BY 1")
    assert {row["status"]: row["n"] for row in counted} == {"finished": 6, "ready": 31}
    row = await task_row(database, task_id)
    assert (row["status"], row["site"], row["split_rule"]["nGBPerJob"]) == ("ready", None, 3)
    assert row["ram_count"] == 2000, "what the specification does not list is not changed"
    parameters = (await user.get("/api/v1/task/get_task_parameters", params={"task_id": task_id})).json()["data"]
    assert (parameters["cliParams"], "nFiles" in parameters) == ("prun --nGBPerJob 3", False)
    assert await value_of(database, "SELECT count(*) FROM tasks") == 1


async def test_new_code_takes_the_place_of_the_old_sandbox_only_where_it_is_asked_for(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, mine())
    await end_files(database, task_id, finished=30, failed=7)
    for given, used in (({}, "jobO.old.tar.gz"), ({"fixedSandbox": "jobO.new.tar.gz"}, "jobO.new.tar.gz")):
        await put(database, task_id, "finished")
        assert (await send(user, mine(**given)))["data"] == task_id
        await deliver(database, service, TaskRegistered(task_id=task_id))
        text = await value_of(database, "SELECT job_parameters_template::text FROM job_parameters_templates")
        assert f"-a {used} --run" in text and text.count("jobO.") == 1


async def test_a_new_input_is_used_from_the_next_submission_on(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    first = mine()
    first["jobParameters"] = [an_input("data.a"), *first["jobParameters"][1:]]
    task_id, _ = await define(database, service, user, first)
    await end_files(database, task_id, finished=7)
    await put(database, task_id, "done")
    second = mine()
    second["jobParameters"] = [an_input("data.a,data.b"), *second["jobParameters"][1:]]
    assert "changed: jobParameters" in (await send(user, second))["message"]
    await deliver(database, service, TaskRegistered(task_id=task_id))
    found = await rows_of(database, "SELECT dataset_name, n_files FROM task_datasets WHERE type = 'input' ORDER BY 1")
    assert [tuple(row) for row in found] == [("data.a", 7), ("data.b", 30)]
    assert (await task_row(database, task_id))["status"] == "ready"


@pytest.mark.parametrize(
    ("status", "said"),
    [("running", "running); submitted again it can be when it is finished"), ("broken", "another name")],
)
async def test_a_task_that_works_or_is_broken_cannot_be_submitted_again(
    database: Database, service: Service, user: httpx.AsyncClient, status: str, said: str
) -> None:
    task_id, _ = await define(database, service, user, mine())
    await put(database, task_id, status)
    before = await task_row(database, task_id)
    reply = await send(user, mine(nGBPerJob=3))
    assert (reply["success"], reply["data"]) == (False, 1) and said in reply["message"], reply
    assert dict(await task_row(database, task_id)) == dict(before)
    assert await value_of(database, "SELECT count(*) FROM tasks") == 1


async def test_another_user_or_other_outputs_do_not_continue_a_task(
    database: Database, service: Service, user: httpx.AsyncClient, authority: Authority
) -> None:
    task_id, _ = await define(database, service, user, mine())
    await put(database, task_id, "finished")
    async with client_of(service, authority, "bob", "user") as bob:
        assert "a task of this name exists" in (await send(bob, mine()))["message"]
    other = mine()
    other["jobParameters"] = [output("elsewhere") if one.get("param_type") == "output" else one
                              for one in other["jobParameters"]]  # fmt: skip
    reply = await send(user, other)
    assert not reply["success"] and "mc.elsewhere" in reply["message"]
    assert (await task_row(database, task_id))["status"] == "finished"


async def test_a_dry_run_of_a_second_submission_says_which_task_would_go_on(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, mine())
    await put(database, task_id, "finished")
    assert (await send(user, mine(), dry_run=True))["data"] == {"submitted_again": task_id}
    assert (await task_row(database, task_id))["status"] == "finished"


async def test_a_task_submitted_again_by_two_calls_at_once_goes_on_once(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, mine())
    await end_files(database, task_id, finished=30, failed=7)
    await put(database, task_id, "finished")
    replies = await asyncio.gather(*(send(user, mine()) for _ in range(4)))
    assert sorted(reply["success"] for reply in replies) == [False, False, False, True]
    assert (await task_row(database, task_id))["attempt_nr"] == 1


async def test_a_dataset_that_an_archived_task_wrote_is_still_its_own(
    database: Database, producer: httpx.AsyncClient
) -> None:
    """The catalogue keeps its files, and the names of new ones would begin at the same number."""
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO tasks_archive (task_id, user_name, vo, status, task, datasets, outputs)"
            """ VALUES (77, 'prodteam', 'demo', 'done', '{}', '[]', '{"mc.simulation": ["HITS.${SN}.root"]}')"""
        )
    reply = await send(producer, production())
    assert not reply["success"] and "'mc.simulation': task 77 writes this dataset" in reply["message"]
    other = await send(producer, production("other"))
    assert other["success"], other


async def test_two_tasks_write_one_dataset_only_if_duplication_is_allowed(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    first, _ = await define(database, service, producer, production())
    reply = await send(producer, production("second", log=None) | {"jobParameters": production()["jobParameters"]})
    assert not reply["success"] and f"task {first} writes this dataset" in reply["message"]
    allowed = {**production("second"), "allowTaskDuplication": True, "jobParameters": production()["jobParameters"]}
    second, _ = await define(database, service, producer, allowed)
    assert (await task_row(database, second))["status"] != "broken"
    writers = await value_of(database, "SELECT count(*) FROM task_datasets WHERE dataset_name = 'mc.simulation'")
    assert writers == 2


async def test_a_dataset_has_no_more_writers_than_may_be_read(
    database: Database, service: Service, producer: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplication, "MOST_WRITERS", 2)
    items = [an_input(), {**output("simulation"), "value": "--out=HITS.$JEDITASKID._${SN/P}.root"}]
    for name in ("first", "second"):
        task = production(name, allowTaskDuplication=True, log=None) | {"jobParameters": items}
        task_id, _ = await define(database, service, producer, task)
        assert (await task_row(database, task_id))["status"] != "broken"
    third = production("third", allowTaskDuplication=True, log=None) | {"jobParameters": items}
    reply = await send(producer, third)
    assert (
        not reply["success"] and "or did before they were archived; allowed: one that fewer write" in reply["message"]
    )


async def test_of_many_writers_of_a_dataset_no_more_are_read_than_may_be(database: Database) -> None:
    async with database.read() as connection:
        await rows.change(
            connection,
            "INSERT INTO tasks (task_id, task_name, user_name, status) SELECT n, 't', 'u', 'done'"
            " FROM generate_series(1, 5000) n",
        )
        await rows.change(
            connection,
            "INSERT INTO task_datasets (dataset_id, task_id, dataset_name, type, status)"
            " SELECT n, n, 'popular', 'output', 'done' FROM generate_series(1, 5000) n",
        )
        await rows.change(
            connection,
            "INSERT INTO tasks_archive (task_id, user_name, status, task, datasets, outputs) SELECT -n, 'u', 'done',"
            " '{}', '[]', '{\"popular\": []}' FROM generate_series(1, 5000) n",
        )
        await connection.execute("ANALYZE")
        given = {"names": ["popular"], "besides": None, "most": 50}
        arguments = tuple(map(given.get, SQL.parameters("writers_of_datasets")))
        n_rows = await rows_read(connection, SQL.text("writers_of_datasets"), arguments)
    assert 100 <= n_rows <= 400, f"it reads {n_rows} rows"


async def test_the_client_says_that_duplication_is_allowed_by_not_asking_for_a_unique_name(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    client = {"processingType": "panda-client-2.2.0-jedi-run"}
    first, _ = await define(database, service, user, mine(**client))
    await put(database, first, "broken")
    assert "broken" in (await send(user, mine(**client)))["message"]
    second = await submit(user, analysis(**client))
    assert second != first


async def test_tasks_of_one_dataset_name_their_files_differently(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    plain = {**output("simulation"), "value": "--out=HITS._${SN/P}.root"}
    items = [an_input(), plain]
    await define(database, service, producer, {**production(), "jobParameters": items})
    reply = await send(producer, {**production("second"), "allowTaskDuplication": True, "jobParameters": items})
    assert not reply["success"] and "names with $JEDITASKID" in reply["message"]


async def test_of_two_tasks_submitted_at_once_with_one_output_only_one_is_defined(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    items = production()["jobParameters"]
    ids = [await submit(producer, {**production("first"), "jobParameters": items})]
    again = (await send(producer, {**production("second"), "jobParameters": items}))["message"]
    assert "'mc.simulation': task 1 writes this dataset" in again
    ids.append(await submit(producer, production("second")))
    async with database.pool.acquire() as connection:  # as if both had been submitted at one moment
        await connection.execute(
            "UPDATE task_parameters p SET task_parameters = p.task_parameters || jsonb_build_object('jobParameters',"
            " (SELECT o.task_parameters -> 'jobParameters' FROM task_parameters o WHERE o.task_id = $1))"
            " WHERE p.task_id = $2", *ids,
        )  # fmt: skip
    await asyncio.gather(*(deliver(database, service, TaskRegistered(task_id=one)) for one in ids))
    assert [(await task_row(database, one))["status"] for one in ids] == ["assigning", "broken"]


async def test_a_dataset_of_two_tasks_stays_open_until_both_have_ended(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    items = production()["jobParameters"]
    ids = [
        (
            await define(
                database, service, producer, production(name, allowTaskDuplication=True) | {"jobParameters": items}
            )
        )[0]
        for name in ("first", "second")
    ]
    for task_id, state in zip(ids, ("open", "frozen"), strict=True):
        assert (await producer.post("/api/v1/task/kill", json={"task_id": task_id})).json()["success"]
        await deliver(database, service, TaskPrepared(task_id=task_id))
        assert (await task_row(database, task_id))["status"] == "aborted"
        assert await value_of(database, "SELECT state FROM catalogue.datasets WHERE name = 'mc.simulation'") == state
