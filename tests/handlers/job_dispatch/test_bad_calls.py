"""Bad input of pilots: the protocol's code, counted, and nothing changed."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows

V1 = "/api/v1/pilot/"
DEEP: Any = 1
for _ in range(12):
    DEEP = [DEEP]


def n_refused(parts: Parts, code: int) -> float:
    found = parts.reporting.metrics.bad_calls.labels(code)._value.get()
    return float(found)


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("acquire_jobs", {"site_name": "Q1", "node": "n" * 16_384}, 30),
        ("acquire_jobs", {"site_name": "Q1", "more": DEEP}, 30),
        ("acquire_jobs", {"site_name": "Q1", "more": list(range(600))}, 30),
        ("acquire_jobs", {}, 30),
        ("acquire_jobs", {"site_name": "Q1", "memory": -1}, 30),
        ("acquire_jobs", {"site_name": "Q1", "n_jobs": 101}, 30),
        ("update_job", {"job_id": "x", "job_status": "running"}, 50),
        ("update_job", {"job_id": -1, "job_status": "running"}, 50),
        ("update_job", {"job_id": 1, "job_status": "activated"}, 50),
        ("update_job", {"job_id": 1, "job_status": "done"}, 50),
        ("update_job", {"job_id": 1, "job_status": "running", "attempt_nr": "second"}, 50),
        ("update_jobs_bulk", {"job_list": [{"job_id": 1, "job_status": "running"}] * 1001}, 30),
        ("update_jobs_bulk", {"job_list": 7}, 30),
        ("get_job_status", {"job_ids": ["x"]}, 50),
        ("get_job_status", {"job_ids": list(range(1, 10_002))}, 50),
        ("update_worker_status", {"site": "Q1", "workerID": -1, "harvesterID": "h", "status": "started"}, 30),
        ("update_worker_node", {"site": "Q1", "host_name": "", "cpu_model": "c", "total_memory": -1}, 30),
    ],
)
async def test_what_cannot_be_is_refused_with_its_code_counted_and_changes_nothing(
    parts: Parts, pilot: httpx.AsyncClient, rows: Rows, path: str, body: dict[str, Any], code: int
) -> None:
    await rows.jobs(2)
    await rows.becomes(1, "sent")
    before = [dict(await rows.row(one)) for one in (1, 2)]
    n_before = n_refused(parts, code)
    answer = await pilot.post(f"{V1}{path}", json=body)
    said = answer.json()
    assert (answer.status_code, said["success"], said["data"]["StatusCode"]) == (200, False, code), said
    assert said["message"] and n_refused(parts, code) == n_before + 1
    assert [dict(await rows.row(one)) for one in (1, 2)] == before


async def test_jobs_that_are_unknown_or_of_others_and_finals_that_come_again_change_nothing(
    parts: Parts, authority: Authority, pilot: httpx.AsyncClient, rows: Rows
) -> None:
    await rows.jobs(2)
    got = (await pilot.post(f"{V1}acquire_jobs", json={"site_name": "Q1"})).json()["data"]["jobs"]
    final = {"job_id": got[0]["PandaID"], "job_status": "failed", "attempt_nr": 1, "pilot_error_code": 1305}

    async def told(who: httpx.AsyncClient, **report: Any) -> tuple[int, str]:
        data = (await who.post(f"{V1}update_job", json={**final, **report})).json()["data"]
        return data["StatusCode"], data["command"]

    assert await told(pilot, job_id=4711) == (0, "tobekilled")
    async with client(parts, authority, "pilot-2", "pilot") as other:
        assert await told(other) == (60, "tobekilled")
    assert await rows.statuses([1, 2]) == ["sent", "activated"]
    assert await told(pilot) == (0, "NULL")
    after = dict(await rows.row(1))
    assert await told(pilot) == (0, "alreadydone") and await told(pilot, job_status="finished") == (0, "alreadydone")
    assert await told(pilot, job_status="running") == (0, "alreadydone")
    assert dict(await rows.row(1)) == after and await rows.statuses([2]) == ["activated"]
