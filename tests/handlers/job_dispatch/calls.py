"""Calls of a pilot that tests of several subjects make."""

from __future__ import annotations

from typing import Any

import httpx

ACQUIRE = "/api/v1/pilot/acquire_jobs"
UPDATE = "/api/v1/pilot/update_job"


async def acquire(pilot: httpx.AsyncClient, key: str | None = None, **fields: object) -> dict[str, object]:
    headers = {"Idempotency-Key": key} if key else {}
    response = await pilot.post(ACQUIRE, json={"site_name": "Q1", **fields}, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()["data"]


async def update(pilot: httpx.AsyncClient, job_id: Any, status: str, **fields: Any) -> str:
    response = await pilot.post(UPDATE, json={"job_id": job_id, "job_status": status, "attempt_nr": 1, **fields})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["success"] and answer["data"]["StatusCode"] == 0, answer
    return str(answer["data"]["command"])
