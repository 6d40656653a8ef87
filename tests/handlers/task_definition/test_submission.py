from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from shared.auth import Authority
from shared.db import Database
from shared.events import TaskRegistered
from shared.runtime.service import Service
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import rows_of, submit, task_row, value_of
from tests.handlers.task_definition.world import an_input, analysis, output, production


async def refusal(client: httpx.AsyncClient, parameters: object) -> dict:
    reply = await client.post("/api/v1/task/submit", json={"task_parameters": parameters})
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert body["success"] is False
    return body


async def test_an_accepted_task_is_registered_and_announced_once(
    database: Database, producer: httpx.AsyncClient
) -> None:
    task_id = await submit(producer, production())
    row = await task_row(database, task_id)
    assert (row["status"], row["user_name"], row["task_priority"]) == ("registered", "prodteam", 500)
    assert (row["resource_type"], row["max_attempt"], row["max_failure"]) == ("MCORE", 3, None)
    keys = await rows_of(database, "SELECT routing_key FROM outbox WHERE routing_key <> 'grid.changed.v1'")
    assert [key["routing_key"] for key in keys] == [TaskRegistered.routing_key()]
    log = await rows_of(database, "SELECT * FROM transition_log WHERE entity = 'task'")
    assert [(one["to_status"], one["reason"]) for one in log] == [("registered", "submitted by prodteam")]
    assert await value_of(database, "SELECT verb FROM audit_log WHERE target = $1", f"task:{task_id}") == "task.submit"


async def test_an_unknown_unit_is_listed_together_with_unknown_input_and_other_problems(
    producer: httpx.AsyncClient,
) -> None:
    body = await refusal(producer, production(ramUnit="parsecs", site="NOWHERE", parent_tid=987_654_321))
    assert {one["field"] for one in body["problems"]} == {"ramUnit", "site", "parent_tid"}


@pytest.mark.parametrize("besides", [{}, {"coreCount": "eight"}], ids=["well-formed", "malformed"])
async def test_requirements_that_cannot_be_read_are_told_under_their_own_name(
    producer: httpx.AsyncClient, besides: dict[str, Any]
) -> None:
    body = await refusal(producer, production(requirements="(((", **besides))
    told = {one["field"]: one for one in body["problems"]}
    assert set(told) == {"requirements", *besides}
    assert told["requirements"]["value"] == "'((('" and told["requirements"]["allowed"].startswith("not a ClassAd")


async def test_every_problem_of_a_task_is_listed_at_once_and_nothing_is_written(
    database: Database, producer: httpx.AsyncClient
) -> None:
    bad = production("x" * 140, nFilesPerJob=-1, coreCount="eight", nFilePerJob=3, cpuTimeUnit="parsec", maxAttempt=0)
    bad["workQueueName"] = "nowhere"
    bad["jobParameters"].append({"type": "template", "param_type": "output", "value": "--o=fixed.root"})
    bad["jobParameters"].append({"type": "constant", "value": "--x=${NONE} --y=${NEITHER/L}"})
    body = await refusal(producer, bad)
    assert body["data"] == 2
    fields = {one["field"]: one for one in body["problems"]}
    assert set(fields) >= {"taskName", "nFilesPerJob", "coreCount", "nFilePerJob", "maxAttempt", "cpuTimeUnit"}
    assert "132" in fields["taskName"]["allowed"]
    assert "nFilesPerJob" in fields["nFilePerJob"]["allowed"]
    assert fields["coreCount"]["value"] == "'eight'"
    assert fields["workQueueName"]["value"] == "'nowhere'"
    place = f"jobParameters.{len(bad['jobParameters']) - 1}.value"
    told = [one["allowed"] for one in body["problems"] if one["field"] == place]
    assert [one.split()[1] for one in told] == ["${NONE}", "${NEITHER}"]
    for name in fields:
        assert name in body["message"]
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0
    assert await value_of(database, "SELECT count(*) FROM outbox WHERE routing_key LIKE 'task%'") == 0


async def test_problems_that_depend_on_stored_data_are_listed_together(producer: httpx.AsyncClient) -> None:
    await submit(producer, production("first"))
    task = production(
        "first",
        [an_input("mc.unknown"), an_input("mc.nothing", "MINBIAS")],
        nucleus="GAMMA",
        site="MARS",
        uniqueTaskName=True,
    )
    body = await refusal(producer, task)
    told = {(one["field"], one["value"]) for one in body["problems"]}
    assert ("taskName", "'first'") in told
    assert ("jobParameters.0.dataset", "'mc.unknown'") in told
    assert ("jobParameters.1.dataset", "'mc.nothing'") in told
    assert ("nucleus", "'GAMMA'") in told
    assert ("site", "'MARS'") in told


@pytest.mark.parametrize("field", ["includedSite", "excludedSite"])
async def test_included_and_excluded_sites_are_names_of_the_grid(producer: httpx.AsyncClient, field: str) -> None:
    body = await refusal(producer, production(**{field: ["GAMMA", "MARS", "Q_ALPHA"]}))
    told = [(one["field"], one["value"], one["allowed"]) for one in body["problems"]]
    assert told == [(field, "'MARS'", "allowed: a site or queue of the grid")]


async def test_a_site_stands_for_its_queues(producer: httpx.AsyncClient) -> None:
    async def n_queues(**rules: Any) -> int:
        body = {"task_parameters": production(coreCount=1, **rules), "dry_run": True}
        reply = (await producer.post("/api/v1/task/submit", json=body)).json()
        return reply["data"]["queues_that_could_run_it"]

    assert await n_queues(includedSite=["GAMMA"]) == await n_queues(site="GAMMA") == 1
    assert await n_queues(excludedSite=["GAMMA"]) == 3


async def test_a_malformed_task_hears_of_unknown_input_and_a_taken_name_in_the_same_answer(
    producer: httpx.AsyncClient,
) -> None:
    await submit(producer, production("first"))
    bad = production("first", [an_input("mc.unknown")], bananas=3, coreCount="eight", uniqueTaskName=True)
    bad["jobParameters"].append({"type": "template", "param_type": "input", "dataset": 7})
    body = await refusal(producer, bad)
    assert body["data"] == 2
    assert {one["field"] for one in body["problems"]} >= {"taskName", "bananas", "coreCount", "jobParameters.0.dataset"}


async def test_a_duplicate_name_has_a_code_of_its_own(producer: httpx.AsyncClient) -> None:
    task_id = await submit(producer, production())
    again = production(uniqueTaskName=True)
    again["jobParameters"] = [an_input(), output("other")]
    again["log"]["dataset"] = "mc.other.log"
    body = await refusal(producer, again)
    assert body["data"] == 1
    assert str(task_id) in body["message"]


async def test_names_are_unique_only_where_a_task_asks_for_it(producer: httpx.AsyncClient) -> None:
    first = await submit(producer, production(uniqueTaskName=True))
    again = production()
    again["jobParameters"] = [an_input(), output("other")]
    again["log"]["dataset"] = "mc.other.log"
    assert await submit(producer, again) > first


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (lambda name: {"taskName": name}, "taskName"),
        (lambda name: {"jobParameters": [an_input(f"mc.{name}"), output("good")]}, "jobParameters.0.dataset"),
        (lambda name: {"jobParameters": [an_input(), output(name)]}, "jobParameters.1.value"),
        (lambda name: {"jobParameters": [an_input(f"m{name}:mc.evnt"), output("good")]}, "jobParameters.0.dataset"),
    ],
)
async def test_a_name_that_no_catalogue_takes_is_refused_at_submission(
    producer: httpx.AsyncClient, changes: Callable[[str], dict[str, Any]], field: str
) -> None:
    for name in ("a\nb", "a\x1b[2J", "x/../etc", "a b", "é*"):
        body = await refusal(producer, {**production(), **changes(name)})
        assert field in {one["field"] for one in body["problems"]}, (name, body["problems"])


async def test_a_task_names_its_parent_and_one_without_a_parent_itself(
    database: Database, producer: httpx.AsyncClient
) -> None:
    parent = await submit(producer, production("parent"))
    child = await submit(producer, production("child"), parent_tid=parent)
    assert [(await task_row(database, one))["parent_tid"] for one in (parent, child)] == [parent, parent]


@pytest.mark.parametrize(("said", "stored"), [({}, 0), ({"noThrottle": True}, None), ({"noThrottle": False}, 0)])
async def test_a_task_that_asks_not_to_be_throttled_is_stored_so(
    database: Database, producer: httpx.AsyncClient, said: dict[str, Any], stored: int | None
) -> None:
    task_id = await submit(producer, production(**said))
    assert (await task_row(database, task_id))["num_throttled"] == stored


async def test_the_priority_of_a_user_has_an_upper_limit(user: httpx.AsyncClient, producer: httpx.AsyncClient) -> None:
    body = await refusal(user, analysis(taskPriority=1001, currentPriority=5000))
    assert {one["field"] for one in body["problems"]} == {"taskPriority"}, "currentPriority is taken as 1000"
    assert "at most 1000" in body["message"]
    await submit(user, analysis(taskPriority=1000))
    await submit(producer, production(taskPriority=5000))


async def test_what_changes_a_task_s_meaning_and_is_not_carried_out_is_refused_by_name(
    producer: httpx.AsyncClient,
) -> None:
    body = await refusal(producer, production(useZipToPin=True, registerEsFiles=True))
    assert {one["field"] for one in body["problems"]} == {"useZipToPin", "registerEsFiles"}


async def test_a_user_owns_what_they_submit_and_may_only_analyse(database: Database, user: httpx.AsyncClient) -> None:
    task_id = await submit(user, analysis(userName="somebody else"))
    assert (await task_row(database, task_id))["user_name"] == "alice"
    body = await refusal(user, production("mine", skipScout=True))
    fields = {"prodSourceLabel", "taskType", "skipScout", "jobParameters.1.dataset", "log.dataset"}
    assert {one["field"] for one in body["problems"]} == fields


async def test_a_user_may_not_use_the_share_of_a_group_without_belonging_to_it(
    service: Service, authority: Authority, user: httpx.AsyncClient
) -> None:
    body = await refusal(user, analysis(workingGroup="AP_HIGGS"))
    assert [one["field"] for one in body["problems"]] == ["workingGroup"]
    token = authority.issue("bob", ["user"], ["demo", "AP_HIGGS"])
    async with client_of(service, authority, "bob", "user") as member:
        member.headers["Authorization"] = f"Bearer {token}"
        await submit(member, analysis("user.bob.histograms", workingGroup="AP_HIGGS"))


async def test_a_share_that_does_not_exist_is_refused(database: Database, producer: httpx.AsyncClient) -> None:
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO shares (gshare, value, parent, prod_source_label) VALUES ('All', 100, NULL, NULL),"
            " ('Reprocessing', 50, 'All', 'reprocess'), ('Production', 50, 'All', 'managed')"
        )
    assert (await refusal(producer, production(gshare="All")))["problems"][0]["field"] == "gshare"
    malformed = (await refusal(producer, production(gshare="All", maxAttempt=0)))["problems"]
    assert {one["field"] for one in malformed} == {"gshare", "maxAttempt"}
    task_id = await submit(producer, production())
    assert (await task_row(database, task_id))["gshare"] == "Production"


async def test_a_dry_run_tells_what_would_be_and_writes_nothing(
    database: Database, producer: httpx.AsyncClient
) -> None:
    reply = await producer.post("/api/v1/task/submit", json={"task_parameters": production(), "dry_run": True})
    body = reply.json()
    assert body["success"] is True
    assert body["data"]["next_status"] == "assigning"
    assert body["data"]["inputs"] == [{"dataset": "mc.evnt", "files": 20, "bytes": 20_000_000, "events": 20_000}]
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0


async def test_no_token_is_401_and_the_wrong_role_403(service: object, producer: httpx.AsyncClient) -> None:
    anonymous = await producer.post(
        "/api/v1/task/submit", json={"task_parameters": production()}, headers={"Authorization": ""}
    )
    assert anonymous.status_code == 401
    forbidden = await producer.post("/api/v1/config/set", json={"component": "a", "key": "b", "value": 1})
    assert forbidden.status_code == 403
    assert forbidden.json()["success"] is False


async def test_a_malformed_request_gets_the_envelope(producer: httpx.AsyncClient) -> None:
    body = (await producer.post("/api/v1/task/submit", json={"task_parameters": [1]})).json()
    assert body["success"] is False
    assert "task_parameters" in body["message"]
    body = (await producer.get("/api/v1/task/get_status", params={"task_id": "many"})).json()
    assert (body["success"], body["data"]) == (False, 5)


async def test_a_task_that_no_queue_could_ever_run_is_refused_with_the_reasons(producer, database) -> None:
    reply = await producer.post(
        "/api/v1/task/submit", json={"task_parameters": production(ramCount=900_000, ramUnit="MB")}
    )
    body = reply.json()
    assert not body["success"]
    assert "no queue could ever run this task" in body["message"] and "memory_too_large" in body["message"]
    assert "it depends on ramCount, baseRamCount, coreCount" in body["message"]
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0


async def test_an_architecture_that_nobody_has_is_named_first_with_its_field(producer, database) -> None:
    grid = small_grid()
    cpu = {"type": "cpu", "arch": ["x86_64"], "vendor": "excl", "instr": []}
    grid["software_map"] = {
        name: {"architectures": [cpu], "cvmfs": ["any"], "containers": [], "tags": []} for name in grid["queues"]
    }
    for record in grid["queues"].values():
        record["releases"] = ["AUTO"]
    await load_grid(database, grid)
    reply = await producer.post("/api/v1/task/submit", json={"task_parameters": production(architecture="pdp11")})
    body = reply.json()
    assert not body["success"]
    told = body["message"].partition("no queue could ever run this task: ")[2]
    checks, _, fields = told.partition("it depends on ")
    assert "(cpu_hardware: CPU that the task needs is there no, must be yes)" in checks, told
    assert fields == "architecture", told


async def test_a_queue_that_is_only_offline_may_still_run_a_task_some_day(database: Database, producer) -> None:
    task_id = await submit(producer, production(site="Q_DELTA", coreCount=8))
    assert await value_of(database, "SELECT status FROM tasks WHERE task_id = $1", task_id) == "registered"


async def test_a_dry_run_tells_how_many_queues_could_run_the_task(producer) -> None:
    body = {"task_parameters": production(coreCount=1), "dry_run": True}
    reply = (await producer.post("/api/v1/task/submit", json=body)).json()
    assert reply["success"] and reply["data"]["queues_that_could_run_it"] == 4


async def test_an_expression_that_only_python_knows_is_refused_at_once(
    database: Database, producer: httpx.AsyncClient
) -> None:
    bad = production()
    bad["jobParameters"][0]["include"] = "(?P<name>EVNT).*"
    body = await refusal(producer, bad)
    assert [one["field"] for one in body["problems"]] == ["jobParameters.0.include"]
    assert "regular expression" in body["message"]
    assert await value_of(database, "SELECT count(*) FROM tasks") == 0


async def test_a_task_is_taken_with_a_warning_for_what_nothing_is_done_and_the_client_shows_it(
    database: Database, user: httpx.AsyncClient
) -> None:
    given = analysis(ddmBackEnd="rucio", skipScout=True, currentPriority=5000)
    dry = (await user.post("/api/v1/task/submit", json={"task_parameters": given, "dry_run": True})).json()
    assert len(dry["data"]["warnings"]) == 3
    reply = (await user.post("/api/v1/task/submit", json={"task_parameters": given})).json()
    assert reply["message"] == (
        f"succeeded. new jediTaskID={reply['data']}"
        ". Warning: currentPriority = 5000 is taken as 1000; allowed: 900 to 1100"
        ". Warning: skipScout is taken and nothing is done for it: official tasks alone skip their scouts"
        ". Warning: ddmBackEnd is taken and nothing is done for it: the catalogue of a VO is set by its operators"
    )
    row = await task_row(database, reply["data"])
    assert (row["current_priority"], "skipScout" in row["split_rule"]) == (1000, False)
