"""Debug mode and what running jobs say of themselves: over HTTP, on a real database."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.job_dispatch.acquire.upkeep import Upkeep
from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import by_curl, by_urllib

COMMAND, MODE, STDOUT = "/api/v1/job/set_command", "/api/v1/job/set_debug_mode", "/api/v1/job/get_stdout"


async def told(pilot: httpx.AsyncClient, job_id: int, **fields: Any) -> str:
    return str((await by_curl(pilot, "updateJob", jobId=job_id, state="running", **fields)).json()["command"])


async def test_the_owner_turns_debug_mode_on_and_sees_the_output_that_the_pilot_sends(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with client(parts, authority, "alice", "user") as alice:
        none = (await alice.get(STDOUT, params={"job_id": job_id})).json()
        assert not none["success"] and none["data"] == 2
        assert (await alice.post(MODE, json={"job_id": job_id, "mode": True})).json()["success"]
        assert await told(pilot, job_id) == "debug"
        await told(pilot, job_id, stdout="event 1\nevent 2\n")
        await by_urllib(pilot, "updateJob", jobId=job_id, state="running", stdout="event 3\n")
        found = (await alice.get(STDOUT, params={"job_id": job_id})).json()["data"]
        assert found["stdout"] == "event 3\n" and found["reported_at"]
        assert (await alice.post(MODE, json={"job_id": job_id, "mode": False})).json()["success"]
    assert await told(pilot, job_id) == "NULL"


async def test_the_output_of_two_jobs_at_once_is_refused(rows: Rows, parts: Parts, authority: Authority) -> None:
    await rows.jobs(2, status="running")
    async with client(parts, authority, "alice", "user") as alice:
        answer = (await alice.get(STDOUT, params={"job_id": "1,2"})).json()
    assert not answer["success"] and "job_id: value '1,2' is not allowed; one id is" in answer["message"]


@pytest.mark.parametrize(
    ("command", "is_told"),
    [("tail payload.stdout", "tail payload.stdout"), ("tail  a/b.log", "tail a/b.log"), ("ls", "ls -al ."),
     ("ls -l srv/*", "ls -l ./srv/*"), ("tail *.log", "tail *.log"), ("tail p*/secrets.txt", "tail p*/secrets.txt"),
     ("tail -100 a/b.log", "tail -100 a/b.log"), ("ps", "ps -ef"), ("du", "du -sk"), ("debug", "debug")],
)  # fmt: skip
async def test_a_command_of_debug_mode_is_told_with_the_blank_by_which_the_pilot_knows_it(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient, command: str, is_told: str
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with client(parts, authority, "alice", "user") as alice:
        assert (await alice.post(COMMAND, json={"job_id": job_id, "command": command})).json()["success"]
        text = await by_urllib(pilot, "updateJob", jobId=job_id, state="running")
        assert httpx.QueryParams(text.text)["command"] == is_told == await told(pilot, job_id)
        assert (await alice.post(COMMAND, json={"job_id": job_id, "command": "debugoff"})).json()["success"]
    assert await told(pilot, job_id) == "NULL"


@pytest.mark.parametrize(
    "command", ["tail", "tail a;b", "tail a,tobekilled", "tail tobekilled", "ls `x`", "rm -rf", "ls $HOME",
                "tail " + "x" * 300, "gdb 1", "tail /etc/passwd", "tail ../../x509up", "ls -al /", "ls a/../..", "du /",
                "ps eww", "ps -auxe", "tail a /etc/passwd", "du --files0-from=a", "ls -L l", "ls -l .*",
                "tail panda_secrets.json", "tail -n 99999 *", "tail **", "tail ./*/p*json", "tail Panda_Secrets.json"],
)  # fmt: skip
async def test_a_command_that_a_shell_or_the_pilot_could_take_for_another_is_refused(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient, command: str
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with client(parts, authority, "olga", "operator") as operator:
        answer = (await operator.post(COMMAND, json={"job_id": job_id, "command": command})).json()
    assert not answer["success"] and answer["problems"][0]["field"] == "command" and "allowed" in answer["message"]
    assert await told(pilot, job_id) == "NULL"


async def test_debug_mode_is_for_the_owner_the_pilot_of_the_job_and_production_and_the_rest_for_production(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1)
    await by_curl(pilot, "getJob", siteName="Q1")
    body = {"job_id": job_id, "command": "debug"}
    callers = [("bob", "user", False), ("pilot-2", "pilot", False), ("alice", "pilot", False),
               ("alice", "user", True), ("pilot-1", "pilot", True), ("paul", "production", True)]  # fmt: skip
    for name, role, may in callers:
        async with client(parts, authority, name, role) as one:
            answer = (await one.post(COMMAND, json=body)).json()
            assert answer["success"] is may and (may or answer["data"] == 3), (name, answer)
            output = (await one.get(STDOUT, params={"job_id": job_id})).json()
            assert not output["success"]
    async with client(parts, authority, "alice", "user") as alice, client(parts, authority, "p", "production") as chief:
        kill = {"job_id": job_id, "command": "tobekilled"}
        assert (await alice.post(COMMAND, json=kill)).json()["data"] == 3
        assert (await chief.post(COMMAND, json=kill)).json()["success"]
        assert (await alice.post(COMMAND, json=body)).json()["data"] == 3
        assert (await alice.post(COMMAND, json={"job_id": job_id})).json()["data"] == 3
        assert (await alice.post(COMMAND, json={"job_id": 4711, "command": "debug"})).json()["data"] == 2
    assert await told(pilot, job_id) == "tobekilled"


async def test_setdebugmode_is_answered_with_the_text_that_the_pilot_looks_for(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1)
    await by_urllib(pilot, "getJob", siteName="Q1")
    assert (await by_urllib(pilot, "setDebugMode", pandaID=job_id, modeOn=True)).text == "Succeeded"
    assert await told(pilot, job_id) == "debug"
    assert (await by_curl(pilot, "setDebugMode", pandaID=job_id, modeOn="False")).text == "Succeeded"
    assert await told(pilot, job_id) == "NULL"
    async with client(parts, authority, "pilot-2", "pilot") as other:
        refused = await by_urllib(other, "setDebugMode", pandaID=job_id, modeOn=True)
    assert refused.status_code == 200 and "may not" in refused.text and "Succeeded" not in refused.text
    assert "not live" in (await by_urllib(pilot, "setDebugMode", pandaID=999, modeOn=True)).text


async def test_of_a_long_output_the_end_is_kept_and_of_an_old_one_nothing(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await told(pilot, job_id, stdout="x" * 100_000 + "the end")
    async with client(parts, authority, "paul", "production") as chief:
        found = (await chief.get(STDOUT, params={"job_id": job_id})).json()["data"]["stdout"]
        assert len(found) == 65_536 and found.endswith("xthe end")
        await _forget(rows, parts.upkeep)
        assert (await chief.get(STDOUT, params={"job_id": job_id})).json()["success"]
        async with rows.database.read() as connection:
            await connection.execute("UPDATE job_stdout SET reported_at = orrery_now() - interval '8 days'")
        await _forget(rows, parts.upkeep)
        assert (await chief.get(STDOUT, params={"job_id": job_id})).json()["data"] == 2


async def test_output_that_only_the_final_report_has_is_kept_beside_the_report_and_not_in_it(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await by_curl(pilot, "updateJob", jobId=job_id, state="failed", stdout="segmentation fault", pilotErrorCode=1305)
    async with client(parts, authority, "alice", "user") as alice:
        assert (await alice.get(STDOUT, params={"job_id": job_id})).json()["data"]["stdout"] == "segmentation fault"
    assert "stdout" not in await rows.report(job_id)


async def test_a_running_job_keeps_its_node_sub_status_times_and_last_metrics_until_it_ends(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="sent")

    async def progress() -> Any:
        async with client(parts, authority, "alice", "user") as alice:
            answer = await alice.get("/api/v1/job/get_description", params={"job_ids": job_id})
        return answer.json()["data"][0]["progress"]

    assert await progress() is None
    always = {"node": "node7", "siteName": "Q1", "pilotID": "t|PR|3", "startTime": 1.5e9}
    await told(pilot, job_id, jobSubStatus="stagein", nEvents=10, maxPSS=1000, coreCount=8, **always)
    await told(pilot, job_id, jobSubStatus="running", nEvents=20, cpuConsumptionTime=77, maxRSS="n/a", **always)
    found = await progress()
    assert found == {
        "node": "node7", "site_name": "Q1", "pilot_id": "t|PR|3", "start_time": "1500000000.0", "core_count": 8,
        "job_sub_status": "running", "n_events": 20, "max_pss": 1000, "cpu_consumption_time": 77.0,
    }  # fmt: skip
    await by_curl(pilot, "updateJob", jobId=job_id, state="finished", nEvents=30)
    assert await progress() is None and (await rows.report(job_id))["n_events"] == 30


async def test_what_a_job_said_that_was_killed_is_forgotten_and_of_a_running_one_it_is_not(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    running, killed = await rows.jobs(2, status="running")
    for one in (running, killed):
        await told(pilot, one, node="node7")
    await rows.becomes(killed, "cancelled")
    async with rows.database.read() as connection:
        await connection.execute("UPDATE job_progress SET reported_at = orrery_now() - interval '2 hours'")
        await _forget(rows, parts.upkeep)
        assert [row["job_id"] for row in await connection.fetch("SELECT job_id FROM job_progress")] == [running]


async def _forget(rows: Rows, upkeep: Upkeep) -> None:
    async with rows.database.begin(reason="test") as work:
        await upkeep.forget_said(work)
