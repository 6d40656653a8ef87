"""A pilot that learns late that its job was killed still has the log, and says where it put it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.handlers.job_dispatch.calls import UPDATE, acquire, update
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.rows import ARCHIVE

FILES = {"log.1": {"fsize": 7, "guid": "g", "adler32": "0123abcd"}, "out.1": {"fsize": 9}}
LOG_ALONE = {"log.1": FILES["log.1"]}


async def killed(rows: Rows, pilot: httpx.AsyncClient, how: str = "cancelled", *, is_archived: bool = False) -> int:
    """A job with an output and a log that ended after the pilot had acquired it."""
    await rows.jobs(1)
    data: Any = await acquire(pilot)
    job_id = int(data["jobs"][0]["PandaID"])
    await rows.output(job_id, "out.1")
    await rows.output(job_id, "log.1", kind="log")
    await rows.becomes(job_id, how)
    if is_archived:
        async with rows.database.begin(reason="test") as work:
            await work.connection.execute(f"{ARCHIVE} WHERE job_id = $1", job_id)
            await work.connection.execute("DELETE FROM jobs WHERE job_id = $1", job_id)
    return job_id


async def kept(rows: Rows, job_id: int) -> tuple[str, dict[str, Any]] | None:
    """The state and the files of the report that is stored."""
    async with rows.database.read() as connection:
        found = await connection.fetchrow("SELECT state, report FROM job_reports WHERE job_id = $1", job_id)
    return None if found is None else (found["state"], found["report"]["outputs"])


async def announced(rows: Rows) -> list[dict[str, Any]]:
    return [{"job_ids": one["job_ids"], "moves": one["moves"]} for one in await rows.events("outputs.produced.v1")]


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("how", ["cancelled", "closed", "failed"])
async def test_the_log_of_a_job_that_ended_before_its_pilot_reported_is_to_be_registered_once(
    rows: Rows, pilot: httpx.AsyncClient, how: str, is_archived: bool
) -> None:
    job_id = await killed(rows, pilot, how, is_archived=is_archived)
    told = [await update(pilot, job_id, "failed", pilot_error_code=1144, xml=FILES) for _ in range(3)]
    assert told == ["tobekilled", "alreadydone", "alreadydone"]
    assert await kept(rows, job_id) == ("late", LOG_ALONE)
    assert await announced(rows) == [{"job_ids": [job_id], "moves": []}]
    (job,) = (await pilot.get("/api/v1/job/get_status", params={"job_ids": job_id})).json()["data"]
    assert job["status"] == how


async def test_of_a_killed_job_that_finished_all_the_same_the_log_alone_is_kept(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    job_id = await killed(rows, pilot)
    assert await update(pilot, job_id, "running", xml=FILES) == "tobekilled"
    assert await kept(rows, job_id) is None
    await update(pilot, job_id, "finished", xml=FILES)
    assert await kept(rows, job_id) == ("late", LOG_ALONE) and await rows.statuses([job_id]) == ["cancelled"]


@pytest.mark.parametrize(
    ("who", "fields"),
    [
        ("pilot-2", {"xml": FILES}),  # somebody else
        ("pilot-1", {"xml": FILES, "attempt_nr": 2}),  # another attempt
        ("pilot-1", {"xml": {"out.1": {"fsize": 9}}}),  # no log
        ("pilot-1", {"xml": {"log.2": {"fsize": 9}}}),  # a file that is not its log
        ("pilot-1", {}),
    ],
)
async def test_nothing_is_kept_of_whoever_did_not_acquire_the_job_or_of_other_files(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, authority: Authority, who: str, fields: dict[str, Any]
) -> None:
    job_id = await killed(rows, pilot)
    async with client(parts, authority, who, "pilot", "production", "operator") as caller:
        await caller.post(UPDATE, json={"job_id": job_id, "attempt_nr": 1, "job_status": "failed", **fields})
    assert await kept(rows, job_id) is None and await announced(rows) == []


async def test_a_claim_outlives_its_job_by_as_long_as_a_pilot_tries_to_report(rows: Rows, parts: Parts) -> None:
    lately, long_ago, archived = await rows.jobs(3, status="cancelled")
    async with rows.database.begin(reason="test") as work:
        await work.connection.execute(
            "UPDATE jobs SET end_time = orrery_now() - CASE job_id WHEN $1 THEN interval '1 hour'"
            " ELSE interval '4 hours' END",
            lately,
        )
        await work.connection.execute(f"{ARCHIVE} WHERE job_id = $1", archived)
        await work.connection.execute("DELETE FROM jobs WHERE job_id = $1", archived)
        for job_id in (lately, long_ago, archived):
            statement = "INSERT INTO job_claims VALUES ($1, $2, orrery_now() - interval '2 days', 'pilot-1')"
            await work.connection.execute(statement, str(job_id), job_id)
        await parts.upkeep.forget(work)
        rest = await work.connection.fetch("SELECT job_id FROM job_claims ORDER BY job_id")
    assert [row["job_id"] for row in rest] == [lately, archived]
