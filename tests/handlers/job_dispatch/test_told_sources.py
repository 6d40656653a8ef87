"""Who gets a job is told a source URL that opens the archives of its task; nobody else ever sees it."""

from __future__ import annotations

import re
import time

import httpx
import pytest

from services.job_dispatch.app import Parts, build_parts
from shared.auth import Authority
from shared.runtime.service import Context
from shared.signed_sources.parameters import PERMISSION_HOURS, SIGNED_SOURCES
from shared.signed_sources.places import spots_of
from tests.handlers.job_dispatch.calls import acquire
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import by_curl

URL = "https://orrery.example:25443"
PLAIN = f'-j "" --sourceURL {URL} -r . -a jobO.1.tar.gz'


@pytest.fixture(params=[True, False], ids=["with places", "without places"])
async def job_ids(rows: Rows, request: pytest.FixtureRequest) -> list[int]:
    """Jobs as they are generated for PanDA's client."""
    found = await rows.jobs(3)
    specs = [{"PandaID": one, "taskID": 1, "jobPars": PLAIN, "sourceURL": URL} for one in found]
    async with rows.database.pool.acquire() as connection:
        await connection.executemany(
            "UPDATE job_specs SET spec = $2, source_spots = $3 WHERE job_id = $1",
            [(one["PandaID"], one, spots_of(one) if request.param else None) for one in specs],
        )
    return found


async def test_the_permission_is_made_when_the_job_is_handed_out(
    job_ids: list[int], pilot: httpx.AsyncClient, context: Context
) -> None:
    for job in (
        (await acquire(pilot))["jobs"][0],  # type: ignore[index]
        (await by_curl(pilot, "getJob", siteName="Q1")).json(),
    ):
        found = re.fullmatch(rf'-j "" --sourceURL {URL}/signed/([^/ ]+) -r \. -a jobO\.1\.tar\.gz', job["jobPars"])
        assert found is not None and job["sourceURL"] == URL
        until = time.time() + PERMISSION_HOURS.default * 3600
        assert context.source_keys.task_of(found[1], until - 60) == 1
        assert context.source_keys.task_of(found[1], until + 60) is None


async def test_a_repeated_call_gets_a_permission_too(job_ids: list[int], pilot: httpx.AsyncClient) -> None:
    first, again = [(await acquire(pilot, key="k"))["jobs"][0] for _ in range(2)]  # type: ignore[index]
    assert first["PandaID"] == again["PandaID"] and "/signed/1." in again["jobPars"]


async def test_it_is_stored_nowhere_and_told_to_nobody_else(
    job_ids: list[int], rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    job_id = (await acquire(pilot))["jobs"][0]["PandaID"]  # type: ignore[index]
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT spec ->> 'jobPars' FROM job_specs WHERE job_id = $1", job_id) == PLAIN
    async with client(parts, authority, "operations", "operator") as operator:
        answer = await operator.post("/api/v1/job/get_description", json={"job_ids": [job_id]})
        assert answer.status_code == 200 and "/signed/" not in answer.text


async def test_where_source_urls_are_not_signed_jobs_are_told_what_they_were(
    job_ids: list[int], rows: Rows, context: Context, authority: Authority
) -> None:
    async with rows.database.pool.acquire() as connection:
        off = "INSERT INTO parameters (component, key, value, type) VALUES ($1, $2, 'false', 'bool')"
        await connection.execute(off, SIGNED_SOURCES.component, SIGNED_SOURCES.key)
    parts = build_parts(context)
    for action in parts.service.on_start:
        await action()
    async with client(parts, authority, "pilot-1", "pilot") as pilot:
        assert (await acquire(pilot))["jobs"][0]["jobPars"] == PLAIN  # type: ignore[index]
    await parts.close()
