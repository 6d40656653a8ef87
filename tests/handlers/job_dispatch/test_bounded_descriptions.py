"""A description of jobs has so many jobs and so many bytes, and says which are left out."""

from __future__ import annotations

import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.store import job_reads
from shared.auth import Authority
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows

GET, POST = "/api/v1/job/get_description", "/api/v1/job/get_description_incl_archive"


async def test_more_ids_than_one_answer_describes_are_refused_with_what_is_allowed(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    ids = list(range(1, 1002))
    async with client(parts, authority, "alice", "user") as alice:
        for answer in (await alice.get(GET, params={"job_ids": ids}), await alice.post(POST, json={"job_ids": ids})):
            body = answer.json()
            assert body["success"] is False and "job_ids: 1001 ids are not allowed; 1 to 1000 are" in body["message"]
        assert (await alice.get(GET, params={"job_ids": ids[:1000]})).json()["success"]


async def test_jobs_that_have_no_room_are_named_and_the_first_is_always_told(
    rows: Rows, parts: Parts, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_reads, "MOST_DESCRIBED_BYTES", 2**20)
    monkeypatch.setattr(job_reads, "READ_TOGETHER", 2)
    ids = await rows.jobs(40)
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "UPDATE job_specs SET spec = jsonb_build_object('jobPars', repeat('x', 300000)) WHERE job_id <> $1", ids[0]
        )
    async with client(parts, authority, "alice", "user") as alice:
        got = (await alice.get(GET, params={"job_ids": ids})).json()
        assert [one["job_id"] for one in got["data"]] == ids[:4]
        assert got["message"].startswith(f"left out: jobs {', '.join(map(str, ids[4:24]))} and 16 more; an answer has ")
        posted = (await alice.post(POST, json={"job_ids": ids})).json()
        assert [one["PandaID"] for one in posted["data"]] == ids[:4] and "left out" in posted["message"]
        monkeypatch.setattr(job_reads, "MOST_DESCRIBED_BYTES", 10)
        (alone,) = (await alice.get(GET, params={"job_ids": ids[1]})).json()["data"]
        assert len(alone["spec"]["jobPars"]) == 300_000


async def test_a_report_of_a_job_whose_specification_is_forgotten_is_still_for_its_readers_alone(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    (job_id,) = await rows.jobs(1, status="failed", specs=False)
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE tasks SET vo = 'cms'")
        await connection.execute(
            "INSERT INTO job_reports (job_id, attempt_number, state, report) VALUES ($1, 1, 'failed', $2)",
            job_id,
            {"pilot_error_diag": "boom"},
        )
    for name, groups, may in (("chief", ["atlas"], False), ("chief", ["cms"], True)):
        async with client(parts, authority, name, "production") as chief:
            chief.headers["Authorization"] = f"Bearer {authority.issue(name, ['production'], groups)}"
            answer = await chief.get(GET, params={"job_ids": job_id})
            assert ("boom" in answer.text) is may and answer.json()["data"][0]["status"] == "failed"
