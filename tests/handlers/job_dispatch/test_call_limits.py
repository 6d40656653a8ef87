"""Limits on the calls of pilots, told in the form of each method; a final report has none."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.job_dispatch.app import Parts, build_parts
from shared.auth import Authority
from shared.runtime.service import Context
from tests.handlers.job_dispatch.calls import ACQUIRE
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import LEGACY, by_curl, by_urllib


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["SUBJECT", "ADDRESS"])
async def limited(
    request: pytest.FixtureRequest, context: Context, rows: Rows, clock: Clock
) -> AsyncIterator[tuple[Parts, str]]:
    """A dispatcher that lets two calls of a subject, or from an address, come at once, and one in ten seconds."""
    limit = request.param
    async with rows.database.pool.acquire() as connection:
        await connection.executemany(
            "INSERT INTO parameters (component, key, value, type) VALUES ('job_dispatch', $1, $2, 'float')",
            [(f"CALLS_PER_{limit}_PER_S", "0.1"), ("CALL_BURST_S", "20")],
        )
    parts = build_parts(dataclasses.replace(context, metrics=CollectorRegistry()), clock=clock)
    for action in parts.service.on_start:
        await action()
    yield parts, limit.lower()
    await parts.close()


async def test_calls_over_the_limit_are_put_off_in_the_form_of_the_method_and_final_reports_never(
    limited: tuple[Parts, str], authority: Authority, rows: Rows, clock: Clock
) -> None:
    parts, limit = limited
    await rows.jobs(4)
    async with client(parts, authority, "pilot-1", "pilot") as pilot:
        for _ in range(2):
            assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["StatusCode"] == 0
        for call in (by_curl, by_urllib):
            answer = await call(pilot, "getJob", siteName="Q1")
            assert (answer.status_code, answer.json()["StatusCode"]) == (200, 10)
            told = await call(pilot, "updateJob", jobId=1, state="running")
            assert told.status_code == 429 and told.headers["content-type"].startswith("text/plain")
            assert told.headers["retry-after"] == "10"
        asked = await pilot.post(ACQUIRE, json={"site_name": "Q1"})
        assert (asked.status_code, asked.headers["retry-after"]) == (429, "10")
        assert asked.json()["data"] == {"StatusCode": 10}
        running = {"job_list": [{"job_id": 1, "job_status": "running", "attempt_nr": 1}]}
        assert (await pilot.post("/api/v1/pilot/update_jobs_bulk", json=running)).status_code == 429

        assert await rows.statuses([1, 2, 3, 4]) == ["sent", "sent", "activated", "activated"]
        ended = {"attemptNr": 1, "pilotErrorCode": 1305}
        assert (await by_curl(pilot, "updateJob", jobId=1, state="failed", **ended)).json()["StatusCode"] == 0
        final = {"job_id": 2, "job_status": "failed", "attempt_nr": 1}
        assert (await pilot.post("/api/v1/pilot/update_jobs_bulk", json={"job_list": [final]})).json()["success"]
        assert await rows.statuses([1, 2]) == ["failed", "failed"]
        clock.now += 10.0
        assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["StatusCode"] == 0
    async with client(parts, authority, "pilot-2", "pilot") as other:
        code = (await by_curl(other, "getJob", siteName="Q1")).json()["StatusCode"]
        assert code == (0 if limit == "subject" else 10), "another subject at the same address"
    counted = parts.claims.batches._metrics.over_limit.labels(limit)._value.get()
    assert counted and counted >= 5


async def test_without_a_parameter_there_is_no_limit(pilot: httpx.AsyncClient, rows: Rows) -> None:
    for _ in range(200):
        assert (await pilot.get(f"{LEGACY}/getStatus", params={"ids": "1"})).status_code == 200
        assert (await by_curl(pilot, "getJob", siteName="Q2")).json()["StatusCode"] == 20
