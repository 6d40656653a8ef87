"""A task with preproSpec is refined twice: before its pre-processing job, and with what that returned."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy.preprocessing import with_returned
from shared.db import Database
from shared.events import Event, TaskProgressed, TaskReady, TaskRegistered, TaskReleased
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import define, put, rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import an_input, log, output, production
from tests.rows import change
from tests.unit.brokerage.conformance import sample

SPEC = {"jobParameters": "--find ${TASKID}", "transPath": "find.sh", "prodSourceLabel": "panda"}


def to_preprocess(**changes: Any) -> dict[str, Any]:
    return production("found", preproSpec=SPEC, nucleus="ALPHA", **changes)


async def begun(database: Database, service: Service, producer: httpx.AsyncClient, **changes: Any) -> int:
    task_id, _ = await define(database, service, producer, to_preprocess(**changes))
    assert (await task_row(database, task_id))["status"] == "topreprocess"
    return task_id


async def ended(database: Database, task_id: int, metadata: Any) -> None:
    """What job generation does when the job succeeded."""
    async with database.read() as connection:
        await change(connection, "UPDATE task_files SET status = 'finished' WHERE task_id = $1", task_id)
        await change(
            connection, "UPDATE task_datasets SET n_files_used = 1, n_files_finished = 1 WHERE task_id = $1", task_id
        )
        await connection.execute(
            "INSERT INTO preprocessing_results (task_id, job_id, returned) VALUES ($1, 1, $2)", task_id, metadata
        )
    rule = await value_of(database, "SELECT split_rule FROM tasks WHERE task_id = $1", task_id)
    await put(database, task_id, "registered", split_rule={**rule, "usePrePro": 3})


async def told(database: Database, service: Service, task_id: int) -> list[Event]:
    event = TaskProgressed(
        task_id=task_id, status="registered", files_finished=0, files_failed=0, files_total=0, live_jobs=0
    )
    return list(await deliver(database, service, event))


async def returned(database: Database, service: Service, task_id: int, metadata: Any) -> Any:
    await ended(database, task_id, metadata)
    await told(database, service, task_id)
    return await task_row(database, task_id)


async def command(client: httpx.AsyncClient, verb: str, task_id: int, **given: Any) -> dict[str, Any]:
    reply: dict[str, Any] = (await client.post(f"/api/v1/task/{verb}", json={"task_id": task_id, **given})).json()
    return reply


async def test_a_task_with_prepro_spec_waits_for_its_job_before_anything_of_it_is_defined(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, said = await define(database, service, producer, to_preprocess())
    assert [(one.task_id, one.status) for one in said if isinstance(one, TaskReleased)] == [(task_id, "topreprocess")]
    assert not any(isinstance(one, TaskReady) for one in said)
    [dataset] = await rows_of(database, "SELECT * FROM task_datasets WHERE task_id = $1", task_id)
    assert (dataset["type"], dataset["status"], dataset["n_files"]) == ("pp_input", "ready", 1)
    [unit] = await rows_of(database, "SELECT * FROM task_files WHERE task_id = $1", task_id)
    assert (unit["type"], unit["status"], unit["max_attempt"]) == ("pp_input", "ready", 3)
    statement = "SELECT job_parameters_template FROM job_parameters_templates WHERE task_id = $1"
    lines = await value_of(database, statement, task_id)
    assert lines == {
        "preprocess": "--find ${TASKID}", "preprocess_trans_path": "find.sh", "preprocess_label": "panda",
    }  # fmt: skip
    assert (await task_row(database, task_id))["split_rule"]["usePrePro"] == 1


async def test_a_task_told_twice_has_one_unit_for_its_pre_processing(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    assert await value_of(database, "SELECT count(*) FROM task_files WHERE task_id = $1", task_id) == 1


async def test_the_second_refine_takes_what_the_job_returned(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer, inputs=[], noInput=True, nFiles=20)
    found = {"nFilesPerJob": 5, "ramCount": 3000, "jobParameters": [an_input(), output("found")], "noInput": False}
    row = await returned(database, service, task_id, {"taskParameters": found})
    assert row["status"] == "ready", row["error_dialog"]
    assert (row["split_rule"]["nFilesPerJob"], row["split_rule"]["usePrePro"], row["ram_count"]) == (5, 3, 3000)
    datasets = await rows_of(
        database, "SELECT type, status, n_files FROM task_datasets WHERE task_id = $1 ORDER BY dataset_id", task_id
    )
    assert dict(datasets[0]) == {"type": "pp_input", "status": "removed", "n_files": 0}
    assert [dict(one) for one in datasets if one["type"] == "input"] == [
        {"type": "input", "status": "ready", "n_files": 20}
    ]
    kept = await value_of(database, "SELECT task_parameters FROM task_parameters WHERE task_id = $1", task_id)
    assert (kept["nFilesPerJob"], kept["taskName"], kept["preproSpec"]) == (5, "found", SPEC)
    assert await value_of(database, "SELECT count(*) FROM preprocessing_results") == 0
    assert await value_of(database, "SELECT count(*) FROM task_files WHERE type = 'pp_input'") == 0


async def test_a_job_that_returns_no_parameters_leaves_the_task_as_it_was_submitted(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    row = await returned(database, service, task_id, {"taskParameters": {}})
    assert (row["status"], row["split_rule"]["nFilesPerJob"], row["ram_count"]) == ("ready", 2, 1000)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({}, "its pre-processing job returned nothing as taskParameters of its metadata; allowed: an object"),
        ({"taskParameters": [1]}, "its pre-processing job returned [1] as taskParameters"),
        ({"taskParameters": "x"}, "its pre-processing job returned 'x' as taskParameters"),
        ({"taskParameters": {"userName": "eve"}}, "pre-processing job returned userName='eve'; allowed: parameters"),
        ({"taskParameters": {"taskPriority": 9000, "gshare": "x"}}, "returned gshare='x', taskPriority=9000; allowed"),
        ({"taskParameters": {"preproSpec": None}}, "its pre-processing job returned preproSpec=None; allowed"),
        ({"taskParameters": {"nFilesPerJob": -1}}, "what its pre-processing job returned makes no task: nFilesPerJob"),
        ({"taskParameters": {"nonsense": 1}}, "what its pre-processing job returned makes no task: nonsense"),
        ({"taskParameters": {"jobParameters": 7}}, "what its pre-processing job returned makes no task: jobParameters"),
    ],
)  # fmt: skip
async def test_a_task_whose_job_returned_rubbish_is_broken_with_the_reason(
    database: Database, service: Service, producer: httpx.AsyncClient, metadata: Any, why: str
) -> None:
    task_id = await begun(database, service, producer)
    row = await returned(database, service, task_id, metadata)
    assert row["status"] == "broken" and why in row["error_dialog"], row["error_dialog"]


async def test_returned_input_that_the_catalogue_does_not_know_breaks_the_task(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    found = {"jobParameters": [an_input("mc.nowhere"), output("found")]}
    row = await returned(database, service, task_id, {"taskParameters": found})
    assert row["status"] == "broken" and "mc.nowhere" in row["error_dialog"]


async def test_a_task_is_refined_a_second_time_once(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    await returned(database, service, task_id, {"taskParameters": {"nFilesPerJob": 4}})
    before = await rows_of(database, "SELECT * FROM task_datasets WHERE task_id = $1 ORDER BY dataset_id", task_id)
    await told(database, service, task_id)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    after = await rows_of(database, "SELECT * FROM task_datasets WHERE task_id = $1 ORDER BY dataset_id", task_id)
    assert before == after


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"transPath": "find.sh"}, "preproSpec.jobParameters"),
        ({**SPEC, "archiveName": "a.tar"}, "preproSpec.archiveName"),
        ({**SPEC, "jobParameters": "-i ${IN}"}, "preproSpec.jobParameters"),
        ({**SPEC, "jobParameters": 7}, "preproSpec.jobParameters"),
        ("find.sh", "preproSpec"),
    ],
)
async def test_a_prepro_spec_that_no_job_can_be_made_of_is_refused(
    producer: httpx.AsyncClient, spec: Any, field: str
) -> None:
    body = {"task_parameters": production("bad", preproSpec=spec)}
    reply = (await producer.post("/api/v1/task/submit", json=body)).json()
    assert not reply["success"]
    assert field in [one["field"] for one in reply["problems"]], reply


async def test_a_task_whose_parent_works_waits_before_its_pre_processing(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    parent, _ = await define(database, service, producer, production("parent", nucleus="ALPHA"))
    task_id = await submit(producer, to_preprocess(), parent_tid=parent)
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"]) == ("pending", "registered")


async def gave_up(database: Database, service: Service, task_id: int) -> Any:
    """What job generation does when the job has no attempts left."""
    async with database.read() as connection:
        await change(connection, "UPDATE task_files SET status = 'failed', attempt_nr = 3 WHERE task_id = $1", task_id)
        await change(
            connection, "UPDATE task_datasets SET n_files_used = 1, n_files_failed = 1 WHERE task_id = $1", task_id
        )
    await put(database, task_id, "prepared")
    await deliver(database, service, TaskReleased(task_id=task_id, status="prepared", reason="test"))
    return await task_row(database, task_id)


async def test_a_task_whose_pre_processing_was_given_up_fails_with_the_reason(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    row = await gave_up(database, service, task_id)
    assert (row["status"], row["error_dialog"]) == ("failed", "its pre-processing did not succeed")


async def test_a_retry_begins_with_the_pre_processing_that_did_not_succeed(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    await gave_up(database, service, task_id)
    assert (await command(producer, "retry", task_id))["success"]
    assert (await task_row(database, task_id))["status"] == "topreprocess"
    assert await value_of(database, "SELECT status FROM task_files WHERE task_id = $1", task_id) == "ready"


async def test_an_incremental_execution_begins_with_the_pre_processing_that_did_not_succeed(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    await gave_up(database, service, task_id)
    assert (await command(producer, "reload_input", task_id))["success"]
    await deliver(database, service, TaskRegistered(task_id=task_id))
    assert (await task_row(database, task_id))["status"] == "topreprocess"
    assert await value_of(database, "SELECT count(*) FROM task_files WHERE task_id = $1", task_id) == 1


@pytest.mark.parametrize("status", ["topreprocess", "preprocessing"])
@pytest.mark.parametrize(("verb", "leads_to"), [("kill", "aborting"), ("finish", "finishing"), ("pause", "paused")])
async def test_tasks_that_wait_for_their_pre_processing_are_killed_finished_and_paused(
    database: Database, service: Service, producer: httpx.AsyncClient, status: str, verb: str, leads_to: str
) -> None:
    task_id = await begun(database, service, producer)
    await put(database, task_id, status)
    assert (await command(producer, verb, task_id))["success"]
    assert (await task_row(database, task_id))["status"] == leads_to
    if verb == "pause":
        assert (await command(producer, "resume", task_id))["success"]
        assert (await task_row(database, task_id))["status"] == status
    else:
        await deliver(database, service, TaskReleased(task_id=task_id, status=leads_to, reason="test"))
        expected = {"kill": "aborted", "finish": "failed"}[verb]
        assert (await task_row(database, task_id))["status"] == expected


async def test_a_task_finished_between_its_pre_processing_and_its_work_is_not_done(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    await ended(database, task_id, {"taskParameters": {}})
    await command(producer, "finish", task_id)
    await deliver(database, service, TaskReleased(task_id=task_id, status="finishing", reason="test"))
    row = await task_row(database, task_id)
    assert row["status"] == "failed" and row["error_dialog"].startswith("it ended before its work began")


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("requestType", "request_type", "urgent"),
        ("countryGroup", "country_group", "xx"),
        ("ticketID", "ticket_id", "T-1"),
        ("ticketSystemType", "ticket_system_type", "tracker"),
    ],
)
async def test_what_the_job_returns_changes_the_column_that_follows_from_it(
    database: Database, service: Service, producer: httpx.AsyncClient, name: str, column: str, value: str
) -> None:
    task_id = await begun(database, service, producer)
    row = await returned(database, service, task_id, {"taskParameters": {name: value}})
    assert (row["status"], row[column]) == ("ready", value), row["error_dialog"]


async def test_a_retry_of_a_task_that_ended_after_its_job_succeeded_defines_it_with_what_that_returned(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    await ended(database, task_id, {"taskParameters": {"nFilesPerJob": 5}})
    await put(database, task_id, "finished")
    reply = await command(producer, "retry", task_id)
    assert reply["success"] and (await task_row(database, task_id))["status"] == "rerefine", reply
    await deliver(database, service, TaskRegistered(task_id=task_id))
    row = await task_row(database, task_id)
    assert (row["status"], row["split_rule"]["nFilesPerJob"]) == ("ready", 5), row["error_dialog"]
    assert await value_of(database, "SELECT count(*) FROM preprocessing_results") == 0


def good_run_list() -> dict[str, Any]:
    """What prun --goodRunListXML submits, with output and VO of these tests."""
    recorded = next(one for one in sample("client_visible")["cases"] if one["in"]["name"] == "prun_grl")
    [task] = recorded["out"]["tasks"]
    given = task["task_params"]
    items = [one for one in given["jobParameters"] if one.get("param_type") != "output"]
    [read] = [one for one in items if one.get("param_type") == "input"]
    assert (read["dataset"], read["files"], given["dsForIN"]) == ("%%INDS%%", "%%INLFNLIST%%", "%%INDS%%")
    texts = [one for one in items if "-o " not in one["value"]]
    changes = {"vo": "demo", "taskName": "user.alice.grl", "log": log("user.alice.grl")}
    return {**given, **changes, "jobParameters": [*texts, output("user.alice.grl")]}


async def test_the_job_of_a_good_run_list_names_the_datasets_and_files_that_its_task_reads(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, good_run_list())
    row = await task_row(database, task_id)
    assert row["status"] == "topreprocess", row["error_dialog"]
    statement = "SELECT job_parameters_template FROM job_parameters_templates WHERE task_id = $1"
    lines = await value_of(database, statement, task_id)
    assert lines["preprocess"].startswith("--goodRunListXML pre_")
    assert lines["preprocess_trans_path"].endswith("/preGoodRunList-00-00-01")
    # as the script of the field writes it
    report = {"%%INDS%%": "data:data.a", "%%INLFNLIST%%": ["A._2.root", "A._5.root"], "reportVersion": "1.0.0"}
    row = await returned(database, service, task_id, report)
    assert row["status"] == "ready", row["error_dialog"]
    files = await rows_of(
        database, "SELECT lfn FROM task_files WHERE task_id = $1 AND type = 'input' ORDER BY lfn", task_id
    )
    assert [one["lfn"] for one in files] == ["A._2.root", "A._5.root"]
    kept = await value_of(database, "SELECT task_parameters FROM task_parameters WHERE task_id = $1", task_id)
    assert kept["dsForIN"] == "data:data.a"


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ({"%%INDS%%": "data:data.a"}, "its pre-processing job returned no value for %%INLFNLIST%%"),
        ({"%%INDS%%": "data.none", "%%INLFNLIST%%": ["a"]}, "data.none"),
        ({"%%INDS%%": 7, "%%INLFNLIST%%": ["a"]}, "what its pre-processing job returned makes no task: jobParameters"),
        ({"reportVersion": "1.0.0"}, "its pre-processing job returned nothing as taskParameters"),
    ],
)
async def test_a_good_run_list_without_datasets_breaks_its_task_with_the_reason(
    database: Database, service: Service, user: httpx.AsyncClient, report: dict[str, Any], why: str
) -> None:
    task_id, _ = await define(database, service, user, good_run_list())
    row = await returned(database, service, task_id, report)
    assert row["status"] == "broken" and why in row["error_dialog"], row["error_dialog"]


async def test_a_value_that_no_job_finds_out_is_refused(user: httpx.AsyncClient) -> None:
    task = {name: value for name, value in good_run_list().items() if name != "preproSpec"}
    reply = (await user.post("/api/v1/task/submit", json={"task_parameters": task})).json()
    told = {one["field"].rpartition(".")[2]: one["allowed"] for one in reply["problems"]}
    assert told == dict.fromkeys(("dataset", "files"), "needs preproSpec: the job that finds out its value")


def test_what_says_whose_task_it_is_is_no_place_for_what_a_job_returns() -> None:
    submitted = {"userName": "%%NAME%%", "campaign": "%%NAME%%"}
    assert with_returned(submitted, {"%%NAME%%": "eve"}) == "its pre-processing job returned no value for %%NAME%%"
