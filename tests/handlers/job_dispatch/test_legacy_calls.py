"""The calls of published pilots (3.7.0.36 with curl, 3.11.5.1 with urllib) over HTTP, on a real database."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import parse_qs

import httpx
import orjson
import pytest

from services.job_dispatch.acquire.waiting import Unavailable
from services.job_dispatch.api.relays import EVENT_PICKING, WORKFLOWS, relays
from services.job_dispatch.app import Parts
from services.job_dispatch.coalescing import TooLate
from shared.auth import Authority
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import LEGACY, by_curl, by_urllib

NO_JOBS = {"StatusCode": 20, "errorDialog": "no jobs in PanDA"}
#: what the pilots send with getJob
GET_JOB = {
    "siteName": "Q1", "computingElement": "Q1", "prodSourceLabel": "managed", "diskSpace": 20_480, "mem": 8000,
    "cpu": 2400.0, "node": "node7", "workingGroup": "", "jobType": "", "allowOtherCountry": False, "countryGroup": "",
    "prodUserID": "", "taskID": "", "viaTopic": True, "resourceType": "", "harvester_id": "", "worker_id": "",
}  # fmt: skip


def query(answer: httpx.Response) -> dict[str, str]:
    """What the newest pilot makes of an answer that does not look like JSON."""
    assert answer.headers["content-type"].startswith("text/plain")
    return {key: one[0] for key, one in parse_qs(answer.text).items()}


@pytest.mark.parametrize("call", [by_urllib, by_curl])
async def test_getjob_answers_the_fields_of_the_job_beside_the_status_code(
    rows: Rows, pilot: httpx.AsyncClient, call: Any
) -> None:
    (job_id,) = await rows.jobs(1)
    answer = await call(pilot, "getJob", **GET_JOB)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    assert answer.json() == {"StatusCode": 0, "PandaID": job_id, "taskID": 1, "attemptNr": 1}
    assert (await rows.row(job_id))["worker"] == "node7" and await rows.statuses([job_id]) == ["sent"]


async def test_getjob_with_njobs_answers_a_list_of_jobs(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.jobs(3)
    answer = (await by_curl(pilot, "getJob", siteName="Q1", nJobs=2)).json()
    assert answer["StatusCode"] == 0 and [one["PandaID"] for one in answer["jobs"]] == [1, 2]
    assert all(one["StatusCode"] == 0 for one in answer["jobs"])


@pytest.mark.parametrize("call", [by_urllib, by_curl])
async def test_getjob_without_a_job_is_status_code_20_after_which_the_pilot_waits(
    rows: Rows, pilot: httpx.AsyncClient, call: Any
) -> None:
    answer = await call(pilot, "getJob", **GET_JOB)
    assert answer.status_code == 200 and answer.json().items() >= NO_JOBS.items()
    assert (await call(pilot, "getJob", **{**GET_JOB, "siteName": "NOWHERE"})).json().items() >= NO_JOBS.items()


async def test_whatever_fails_in_getjob_is_json_with_a_status_code_as_the_pilot_takes_all_else_for_a_job(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def code_of(answer: httpx.Response) -> int:
        body = answer.json()
        assert answer.status_code == 200 and body["errorDialog"] and None not in body.values()
        return int(body["StatusCode"])

    async with client(parts, authority, "nobody", "user") as nobody:
        assert await code_of(await by_curl(nobody, "getJob", **GET_JOB)) == 60
        nobody.headers["Authorization"] = "Bearer x.y.z"
        assert await code_of(await by_curl(nobody, "getJob", **GET_JOB)) == 50
    assert await code_of(await by_curl(pilot, "getJob", node="no queue is named")) == 30
    assert await code_of(await by_curl(pilot, "getJob", siteName="Q1", node="n" * 20_000)) == 30
    broken = await pilot.post(f"{LEGACY}/getJob", content=b"\x1f\x8bbroken")
    assert await code_of(broken) == 30

    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(parts.claims, "acquire", fail)
    error: Exception = Unavailable("PostgreSQL is away")
    assert await code_of(await by_curl(pilot, "getJob", **GET_JOB)) == 10
    error = ConnectionError("PostgreSQL is away")
    assert await code_of(await by_curl(pilot, "getJob", **GET_JOB)) == 10
    error = ZeroDivisionError("a bug")
    assert await code_of(await by_curl(pilot, "getJob", **GET_JOB)) == 30


@pytest.mark.parametrize("call", [by_urllib, by_curl])
async def test_updatejob_takes_a_job_to_its_end_and_answers_null_as_a_text_never_as_json_null(
    rows: Rows, pilot: httpx.AsyncClient, call: Any
) -> None:
    (job_id,) = await rows.jobs(1, status="sent")
    read = query if call is by_urllib else httpx.Response.json
    done = {"StatusCode": "0", "command": "NULL"} if call is by_urllib else {"StatusCode": 0, "command": "NULL"}
    outputs = {"out.1": {"guid": "a-b", "fsize": 1400, "adler32": "0123abcd", "surl": "", "endpoint": "SITE-A"}}
    always = {"jobId": str(job_id), "timestamp": "2026-01-01T00:00:00+00:00", "siteName": "Q1", "node": "node7",
              "attemptNr": 1, "schedulerID": "unknown", "pilotID": "unknown|PR|3.11.5.1"}  # fmt: skip
    for state, status in (("starting", "starting"), ("running", "running"), ("running", "running")):
        assert read(await call(pilot, "updateJob", state=state, xml="", metaData="", **always)) == done
        assert await rows.statuses([job_id]) == [status]
    final = {"xml": orjson.dumps(outputs).decode(), "startTime": 1.5e9, "endTime": 1.6e9, "transExitCode": 0}
    assert read(await call(pilot, "updateJob", state="finished", **always, **final)) == done
    assert await rows.statuses([job_id]) == ["holding"]
    again = read(await call(pilot, "updateJob", state="finished", **always, **final))
    assert again["command"] == "alreadydone"


@pytest.mark.parametrize(("command", "is_told"), [("tobekilled", True), ("softkill", True), ("debug", True)])
async def test_updatejob_tells_the_command_for_the_job(
    rows: Rows, pilot: httpx.AsyncClient, command: str, is_told: bool
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with rows.database.read() as connection:
        await connection.execute("UPDATE jobs SET command = $2 WHERE job_id = $1", job_id, command)
    text = await by_urllib(pilot, "updateJob", jobId=job_id, state="running")
    json = await by_curl(pilot, "updateJob", jobId=job_id, state="running")
    assert query(text)["command"] == json.json()["command"] == command


async def test_a_database_that_is_away_at_the_final_report_is_told_as_text_so_that_the_pilot_sends_it_again(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    handle, errors = parts.reporting.report, [TooLate("a row is held"), ConnectionError("away"), ZeroDivisionError()]

    async def fail(report: Any) -> Any:
        raise errors.pop(0)

    monkeypatch.setattr(parts.reporting, "report", fail)
    for status in (503, 503, 500):
        answer = await by_curl(pilot, "updateJob", jobId=job_id, state="finished")
        assert answer.status_code == status and answer.headers["content-type"].startswith("text/plain")
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(answer.content)
    monkeypatch.setattr(parts.reporting, "report", handle)
    assert (await by_curl(pilot, "updateJob", jobId=job_id, state="finished")).json()["command"] == "NULL"
    assert await rows.statuses([job_id]) == ["holding"]


async def test_a_token_that_is_being_renewed_loses_no_final_report_and_a_wrong_role_is_final(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with client(parts, authority, "nobody", "user") as nobody:
        refused = await by_curl(nobody, "updateJob", jobId=job_id, state="finished")
        assert (refused.status_code, refused.json()["StatusCode"]) == (200, 60)
        nobody.headers["Authorization"] = "Bearer x.y.z"
        passing = await by_curl(nobody, "updateJob", jobId=job_id, state="finished")
        assert passing.status_code == 401 and passing.headers["content-type"].startswith("text/plain")
    assert await rows.statuses([job_id]) == ["running"]


async def test_updatejob_for_the_job_of_another_pilot_is_role_60_and_a_command_to_stop(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1)
    await by_curl(pilot, "getJob", **GET_JOB)
    async with client(parts, authority, "pilot-2", "pilot") as other:
        answer = (await by_curl(other, "updateJob", jobId=job_id, state="failed")).json()
    assert (answer["StatusCode"], answer["command"]) == (60, "tobekilled") and "pilot-1" in answer["errorDialog"]
    assert await rows.statuses([job_id]) == ["sent"]


@pytest.mark.parametrize(
    "odd", [{"nEvents": "12|3"}, {"maxRSS": "n/a"}, {"coreCount": -1}, {"transExitCode": "SIGTERM"}, {"nEvents": -1},
            {"pilotErrorCode": "1305, 1307"}, {"metaData": "x" * 3_000_000}],
)  # fmt: skip
async def test_an_odd_field_of_a_final_updatejob_costs_the_field_and_not_the_report(
    rows: Rows, pilot: httpx.AsyncClient, odd: dict[str, Any]
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    answer = await by_urllib(pilot, "updateJob", jobId=job_id, state="finished", **odd)
    assert query(answer) == {"StatusCode": "0", "command": "NULL"} and await rows.statuses([job_id]) == ["holding"]


async def test_updateworkerpilotstatus_stores_what_the_pilot_says_of_its_worker(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    worker = {"site": "Q1", "workerID": "7", "harvesterID": "h", "node_id": "node7"}
    started = await by_urllib(pilot, "updateWorkerPilotStatus", status="started", **worker)
    assert query(started) == {"StatusCode": "0"}
    assert (await by_curl(pilot, "updateWorkerPilotStatus", status="finished", **worker)).json() == {"StatusCode": 0}
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT status FROM workers WHERE worker_id = 7") == "finished"
    async with client(parts, authority, "pilot-2", "pilot") as other:
        refused = (await by_curl(other, "updateWorkerPilotStatus", status="finished", **worker)).json()
    assert refused["StatusCode"] == 60 and "may not report" in refused["errorDialog"]


async def test_getstatus_joins_states_and_attempts_by_commas(rows: Rows, pilot: httpx.AsyncClient) -> None:
    first, second = await rows.jobs(2, status="running", attempt_number=3)
    ids = f"{first},{second},999"
    found = {"StatusCode": 0, "status": "running,running,notfound", "attemptNr": "3,3,0"}
    assert (await by_curl(pilot, "getStatus", ids=ids)).json() == found
    assert (await pilot.get(f"{LEGACY}/getStatus", params={"ids": ids})).json() == found
    assert query(await by_urllib(pilot, "getStatus", ids=first)) == {
        "StatusCode": "0",
        "status": "running",
        "attemptNr": "3",
    }
    assert (await by_curl(pilot, "getStatus", ids="x")).json()["StatusCode"] == 50


async def test_what_does_not_exist_is_told_with_a_status_code_too(pilot: httpx.AsyncClient) -> None:
    unknown, wrong = await by_curl(pilot, "noSuchMethod"), await pilot.put(f"{LEGACY}/getJob")
    assert (unknown.status_code, unknown.json()["StatusCode"]) == (404, 30)
    assert (wrong.status_code, wrong.json()["StatusCode"], wrong.headers["allow"]) == (405, 30, "GET, HEAD, POST")


async def test_calls_to_other_systems_behind_the_fields_own_server_are_answered_with_why_there_are_none(
    parts: Parts, authority: Authority
) -> None:
    async with client(parts, authority, "alice", "user") as alice:
        told = {one.path: await alice.post(one.path, json={}) for one in relays()}
    picking = told.pop(f"{LEGACY}/putEventPickingRequest")
    assert picking.headers["content-type"].startswith("text/plain") and picking.text == f"{EVENT_PICKING}\n"
    assert len(told) == 3 and all(one.json() == [False, WORKFLOWS] for one in told.values())


async def test_two_pilots_of_both_generations_never_get_the_same_job(rows: Rows, pilot: httpx.AsyncClient) -> None:
    await rows.jobs(20)
    answers = await asyncio.gather(
        *(call(pilot, "getJob", **GET_JOB) for _ in range(10) for call in (by_urllib, by_curl))
    )
    assert sorted(one.json()["PandaID"] for one in answers) == list(range(1, 21))


async def test_a_pilot_whose_disk_is_full_reports_in_the_address_and_loses_nothing(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1)
    taken = (await pilot.get(f"{LEGACY}/getJob", params=GET_JOB)).json()
    assert taken["PandaID"] == job_id
    outputs = {f"out.{n}": {"guid": "a-b", "fsize": 1400, "adler32": "0123abcd"} for n in range(100)}
    final = {"jobId": job_id, "state": "finished", "attemptNr": 1, "xml": orjson.dumps(outputs).decode()}
    answer = await pilot.get(f"{LEGACY}/updateJob", params=final)
    assert answer.json() == {"StatusCode": 0, "command": "NULL"} and await rows.statuses([job_id]) == ["holding"]
    assert len((await rows.report(job_id))["outputs"]) == 100


@pytest.mark.parametrize(
    ("method", "fields", "names"),
    [
        ("getJob", {"node": "n"}, ["siteName"]),
        ("getJob", {"siteName": "Q1", "mem": -1, "nJobs": 0}, ["mem", "nJobs"]),
        ("updateJob", {"attemptNr": "x", "state": "done"}, ["jobId", "state", "attemptNr"]),
        ("updateWorkerPilotStatus", {"status": "lost"}, ["workerID", "harvesterID", "site", "status"]),
        ("setDebugMode", {}, ["pandaID"]),
        ("getEventRanges", {"nRanges": 7}, ["pandaID"]),
        ("updateEventRanges", {"eventRanges": "x"}, ["eventRanges"]),
        ("getKeyPair", {}, ["publicKeyName", "privateKeyName"]),
    ],
)
async def test_what_is_wrong_with_a_legacy_call_is_told_by_the_names_that_its_caller_knows(
    rows: Rows, pilot: httpx.AsyncClient, method: str, fields: dict[str, Any], names: list[str]
) -> None:
    answer = await by_curl(pilot, method, **fields)
    said = answer.json()["errorDialog"] if answer.headers["content-type"].endswith("json") else answer.text
    assert sorted(re.findall(r"(?:^|; )(\w+): (?:is missing|value )", said)) == sorted(names), said
