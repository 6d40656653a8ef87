"""Who may report on a job and on a worker, on a real database."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.handlers.job_dispatch.calls import UPDATE
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows


async def test_workers_and_the_last_pilot_of_a_queue_are_noted(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    worker = {"workerID": "12", "harvesterID": "H1", "site": "Q1", "status": "started"}
    assert (await pilot.post("/api/v1/pilot/update_worker_status", data=worker)).json()["data"] == {"StatusCode": 0}
    await pilot.post("/api/v1/pilot/update_worker_status", json={**worker, "status": "finished"})
    await pilot.post("/api/v1/pilot/update_worker_status", json={**worker, "status": "started"})  # late
    bad = (await pilot.post("/api/v1/pilot/update_worker_status", json={**worker, "site": "NOWHERE"})).json()
    assert bad["success"] is False
    await pilot.post("/api/v1/pilot/acquire_jobs", json={"site_name": "Q1"})
    async with rows.database.begin(reason="test") as work:
        await parts.activity.flush(work)
    async with rows.database.read() as connection:
        workers = await connection.fetch("SELECT worker_id, queue, status FROM workers")
        seen = await connection.fetch("SELECT queue FROM queue_activity WHERE last_pilot_at IS NOT NULL")
    assert [tuple(row) for row in workers] == [(12, "Q1", "finished")]
    assert [row["queue"] for row in seen] == ["Q1"]


async def test_a_worker_is_reported_by_whom_began_it_by_those_named_for_its_queue_and_by_production(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, authority: Authority
) -> None:
    worker = {"workerID": 12, "harvesterID": "H1", "site": "Q2"}

    async def tell(caller: httpx.AsyncClient, status: str, **fields: Any) -> bool:
        answer = await caller.post("/api/v1/pilot/update_worker_status", json={**worker, "status": status, **fields})
        assert answer.json()["data"]["StatusCode"] == (0 if answer.json()["success"] else 60)
        return bool(answer.json()["success"])

    async def status() -> list[tuple[Any, ...]]:
        async with rows.database.read() as connection:
            return [tuple(row) for row in await connection.fetch("SELECT queue, status FROM workers")]

    async with (
        client(parts, authority, "stranger", "pilot") as stranger,
        client(parts, authority, "pusher", "pilot") as pusher,
        client(parts, authority, "boss", "production") as boss,
    ):
        assert await tell(pilot, "started") and await tell(pilot, "started")
        assert not await tell(stranger, "finished") and not await tell(stranger, "started", site="Q1")
        assert not await tell(stranger, "finished", site="Q1") and await status() == [("Q2", "started")]
        assert await tell(pusher, "started") and await tell(boss, "started")
        assert await tell(pilot, "finished") and await status() == [("Q2", "finished")]
        assert await tell(boss, "started", workerID=13) and not await tell(pilot, "finished", workerID=13)


async def test_a_factory_tells_of_its_workers_until_their_pilots_do(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, authority: Authority
) -> None:
    path = "/api/v1/harvester/update_workers"

    def told(worker_id: Any, status: str, **more: Any) -> dict[str, Any]:
        return {"workerID": worker_id, "computingSite": "Q2", "status": status, "batchID": "b7", "nCore": 8, **more}

    async def stored() -> list[tuple[Any, ...]]:
        async with rows.database.read() as connection:
            found = await connection.fetch("SELECT worker_id, status, subject, n_cores FROM workers ORDER BY worker_id")
        return [tuple(row) for row in found]

    async with client(parts, authority, "pusher", "pilot") as harvester:
        odd = [told(4, "submitted", computingSite="Q1"), told(5, "running", computingSite="Q9"), told(6, "asleep"), 7]
        workers = [told(1, "submitted"), told(2, "running"), told(3, "failed"), *odd, told("8", "idle", nCore=None)]
        answer = (await harvester.post(path, json={"harvester_id": "H1", "workers": workers})).json()
        assert answer["data"] == [True, True, True, False, False, False, False, True]
        for part in ("REPORTERS does not name", "there is no queue 'Q9'", "status cannot be"):
            assert part in answer["message"]
        noted = [(1, "submitted", None, 8), (2, "running", None, 8), (3, "finished", None, 8), (8, "running", None, 1)]
        assert await stored() == noted
        started = {"workerID": 1, "harvesterID": "H1", "site": "Q2", "status": "started"}
        assert (await pilot.post("/api/v1/pilot/update_worker_status", json=started)).json()["success"]
        text = orjson.dumps([told(1, "submitted"), told(2, "submitted"), told(1, "submitted")]).decode()
        late = await harvester.post(path, data={"harvester_id": "H1", "workers": text})
        assert late.json()["data"] == [True, True, True]
        assert [row[1:3] for row in await stored()][:2] == [("started", "pilot-1"), ("running", None)]
        await harvester.post(path, json={"harvester_id": "H1", "workers": [told(1, "cancelled")]})
        assert (await stored())[0][1:3] == ("finished", "pilot-1")
        odd = [told(9, "running", nCore=cores) for cores in (-5, 10**9, "many")]
        answer = (await harvester.post(path, json={"harvester_id": "H1", "workers": odd})).json()
        assert answer["data"] == [True] * 3 and answer["message"].count("is not allowed; allowed: 1 to 100000") == 3
        assert "worker 9: nCore: value -5" in answer["message"] and (9, "running", None, 1) in await stored()
        for wrong in ("x", [{}] * 1001, None):
            refused = (await harvester.post(path, json={"harvester_id": "H1", "workers": wrong})).json()
            assert not refused["success"] and "workers" in refused["message"]


async def claimed_by(rows: Rows, job_id: int, subject: str) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO job_claims (request_key, job_id, subject) VALUES ($1, $2, $3)",
            f"key-{job_id}",
            job_id,
            subject,
        )


@pytest.mark.parametrize(
    ("name", "role", "queue", "may"),
    [
        ("pilot-1", "pilot", "Q1", True), ("pilot-2", "pilot", "Q1", False), ("pusher", "pilot", "Q2", True),
        ("pusher", "pilot", "Q1", False), ("paul", "production", "Q1", True), ("olga", "operator", "Q1", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bulk", [False, True])
async def test_a_report_comes_from_who_acquired_the_job_whom_the_configuration_names_production_or_operators(
    rows: Rows, parts: Parts, authority: Authority, name: str, role: str, queue: str, may: bool, bulk: bool
) -> None:
    (job_id,) = await rows.jobs(1, status="running", queue=queue)
    await claimed_by(rows, job_id, "pilot-1")
    before = dict(await rows.row(job_id))
    report = {"job_id": job_id, "job_status": "failed"}
    async with client(parts, authority, name, role) as one:
        if bulk:
            url = "/api/v1/pilot/update_jobs_bulk"
            (answer,) = (await one.post(url, json={"job_list": [report]})).json()["data"]
        else:
            answer = (await one.post(UPDATE, json=report)).json()
    assert answer["success"] is may and answer["data"]["StatusCode"] == (0 if may else 60)
    assert (await rows.row(job_id))["status"] == ("failed" if may else "running")
    if not may:
        assert dict(await rows.row(job_id)) == before and answer["data"]["command"] == "tobekilled"
        assert answer["message"] == f"job {job_id} was acquired by pilot-1: {name} may not report for it"


async def test_the_subject_of_the_token_is_kept_with_the_claim(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1)
    data = (await pilot.post("/api/v1/pilot/acquire_jobs", json={"site_name": "Q1"})).json()["data"]
    assert data["jobs"][0]["PandaID"] == job_id
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT subject FROM job_claims WHERE job_id = $1", job_id) == "pilot-1"
