"""What a token may do as a pilot: for its VOs, by its role, and not at all where it is limited to other rights."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.policy.reports import TO_BE_KILLED
from shared.auth import Authority
from tests.applications import application_of
from tests.handlers.job_dispatch.calls import ACQUIRE, UPDATE
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import by_curl
from tests.handlers.job_dispatch.ranges import add_ranges

NAME = "factory"


def caller(
    parts: Parts, authority: Authority, role: str, *groups: str, name: str = NAME, rights: list[str] | None = None
) -> httpx.AsyncClient:
    token = authority.issue(name, [role], groups, rights=rights)
    transport = httpx.ASGITransport(app=application_of(parts.service, authority))
    return httpx.AsyncClient(
        transport=transport, base_url="http://dispatch", headers={"Authorization": f"Bearer {token}"}
    )


async def of_cms(rows: Rows) -> str:
    """The shape of jobs of a task of the VO cms."""
    async with rows.database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE tasks SET vo = 'cms'")
    return await rows.shape_of_vo("cms")


@pytest.mark.parametrize("path", [ACQUIRE, "/server/panda/getJob"])
async def test_a_key_that_is_repeated_with_other_rights_is_another_request(
    rows: Rows, parts: Parts, authority: Authority, path: str
) -> None:
    await rows.jobs(1, shape=await of_cms(rows), user_name=NAME)

    async def asked(role: str, *groups: str, **headers: str) -> int | None:
        async with caller(parts, authority, role, *groups) as who:
            fields = {"json": {"site_name": "Q1"}} if path == ACQUIRE else {"data": {"siteName": "Q1"}}
            answer = (await who.post(path, headers={"Idempotency-Key": "K", **headers}, **fields)).json()
        data = answer.get("data", answer)
        job = data["jobs"][0] if data.get("jobs") else data
        return job.get("PandaID")

    assert await asked("pilot", "cms") == 1
    assert await asked("pilot", "cms") == 1, "the same pilot asks again"
    assert await asked("pilot", "atlas") is None
    assert await asked("pilot", "cms", "atlas", Origin="atlas") is None
    assert await asked("user", "cms") is None, "a user asks for jobs of their own: another request"


async def test_who_may_not_report_for_a_job_is_told_no_command_of_it(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    (job_id,) = await rows.jobs(1, status="running", shape=await of_cms(rows))
    file_id = await add_ranges(rows, [job_id], 1)
    async with rows.database.begin(reason="debugged") as work:
        await work.connection.execute("UPDATE jobs SET command = 'tail private.log' WHERE job_id = $1", job_id)
    ranges = [{"eventRangeID": f"1-{job_id}-{file_id}-1-10", "eventStatus": "finished"}]
    of_nobody = [{"eventRangeID": "1-999999-1-1-10", "eventStatus": "finished"}]
    for role, groups, name in (("user", ["atlas"], "mallory"), ("pilot", ["atlas"], NAME), ("user", ["cms"], "eve")):
        async with caller(parts, authority, role, *groups, name=name) as who:
            told: dict[str, Any] = {}
            for said in (ranges, of_nobody):
                answer = await by_curl(who, "updateEventRanges", eventRanges=orjson.dumps(said).decode(), version=0)
                assert answer.json()["Returns"] == [False]
                told[said[0]["eventRangeID"]] = list(answer.json()["Command"].values())
            assert set(map(tuple, told.values())) == {(TO_BE_KILLED,)}, "as of a job that there is not"
            new = await who.post("/api/v1/event/update_event_ranges", json={"event_ranges": ranges})
            assert "private.log" not in new.text


async def test_pilots_that_people_start_are_no_workers_of_a_factory(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    said = {"worker_id": "77", "harvester_id": "h", "site_name": "Q1", "status": "started"}
    async with caller(parts, authority, "user", "cms", name="mallory") as mallory:
        answer = await mallory.post("/api/v1/pilot/update_worker_status", json=said)
        assert answer.status_code == 403 and "needs the role pilot or production" in answer.text
        old = await by_curl(
            mallory, "updateWorkerPilotStatus", workerID=77, harvesterID="h", site="Q1", status="started"
        )
        assert old.json()["StatusCode"] == 60
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT count(*) FROM workers") == 0


@pytest.mark.parametrize("right", ["submit", "cancel"])
async def test_a_token_that_is_limited_to_other_rights_is_no_pilots(
    rows: Rows, parts: Parts, authority: Authority, right: str
) -> None:
    (job_id,) = await rows.jobs(1)
    calls: list[tuple[str, dict[str, Any]]] = [
        (ACQUIRE, {"site_name": "Q1"}),
        (UPDATE, {"job_id": job_id, "job_status": "failed", "attempt_nr": 1}),
        ("/api/v1/pilot/update_jobs_bulk", {"job_list": [{"job_id": job_id, "job_status": "failed"}]}),
        ("/api/v1/event/acquire_event_ranges", {"job_id": job_id, "n_ranges": 1}),
        ("/api/v1/event/update_event_ranges", {"event_ranges": []}),
    ]
    async with caller(parts, authority, "user", "atlas", name="alice", rights=[right]) as limited:
        for path, body in calls:
            answer = await limited.post(path, json=body)
            assert answer.status_code == 403 and "needs the right modify" in answer.text, path
        assert (await by_curl(limited, "getJob", siteName="Q1")).json()["StatusCode"] != 0
    assert (await rows.row(job_id))["status"] == "activated"
