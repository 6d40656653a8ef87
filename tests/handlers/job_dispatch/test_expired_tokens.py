"""A token that expired while a job ran still tells what became of that job, for a while, and nothing else."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.handlers.job_dispatch.calls import UPDATE, acquire
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import by_curl, by_urllib

HOUR_S = 3600.0


def expired(parts: Parts, authority: Authority, *, ago_s: float, name: str = "pilot-1") -> httpx.AsyncClient:
    """A pilot whose token has expired so long ago."""
    found = client(parts, authority, name, "pilot")
    found.headers["Authorization"] = f"Bearer {authority.issue(name, ['pilot'], lifetime_s=-ago_s)}"
    return found


async def taken(pilot: httpx.AsyncClient) -> int:
    """A job that the pilot has."""
    data: Any = await acquire(pilot)
    return int(data["jobs"][0]["PandaID"])


@pytest.mark.parametrize("status", ["finished", "failed"])
@pytest.mark.parametrize("how", ["v1", "newest pilot", "oldest pilot"])
async def test_the_end_of_a_job_is_told_with_the_token_that_expired_meanwhile(
    rows: Rows, parts: Parts, authority: Authority, how: str, status: str
) -> None:
    await rows.jobs(1)
    async with (
        client(parts, authority, "pilot-1", "pilot") as good,
        expired(parts, authority, ago_s=1.5 * HOUR_S) as late,
    ):
        job_id = await taken(good)
        if how == "v1":
            answer = await late.post(UPDATE, json={"job_id": job_id, "attempt_nr": 1, "job_status": status})
            told = answer.json()["data"]
        else:
            send = by_urllib if how == "newest pilot" else by_curl
            answer = await send(late, "updateJob", jobId=job_id, state=status)
            told = answer.json() if how == "oldest pilot" else dict(one.split("=") for one in answer.text.split("&"))
    assert answer.status_code == 200 and (str(told["StatusCode"]), told["command"]) == ("0", "NULL")
    assert await rows.statuses([job_id]) == ["holding" if status == "finished" else "failed"]


async def test_it_does_nothing_but_tell_the_end_of_what_it_acquired(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    await rows.jobs(2)
    (unclaimed,) = await rows.jobs(1, status="running")
    async with (
        client(parts, authority, "pilot-2", "pilot") as other,
        expired(parts, authority, ago_s=HOUR_S) as late,
    ):
        job_id = await taken(other)
        final = {"attempt_nr": 1, "job_status": "finished"}
        for mine in (job_id, unclaimed):
            answer = (await late.post(UPDATE, json={"job_id": mine, **final})).json()
            assert answer["success"] is False and answer["data"]["StatusCode"] == 60
            assert "whose token has expired" in answer["message"]
        assert (await late.post(UPDATE, json={"job_id": job_id, **final, "job_status": "running"})).status_code == 401
        assert (await late.post("/api/v1/pilot/acquire_jobs", json={"site_name": "Q1"})).status_code == 401
        assert (await late.get("/api/v1/job/get_status", params={"job_ids": job_id})).status_code == 401
    assert await rows.statuses([job_id, unclaimed]) == ["sent", "running"]


async def test_one_that_expired_long_ago_or_was_revoked_tells_nothing(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    await rows.jobs(1)
    async with client(parts, authority, "pilot-1", "pilot") as good:
        job_id = await taken(good)
    final = {"job_id": job_id, "attempt_nr": 1, "job_status": "finished"}
    async with expired(parts, authority, ago_s=2.1 * HOUR_S) as late:
        assert (await late.post(UPDATE, json=final)).status_code == 401
    async with expired(parts, authority, ago_s=HOUR_S) as late:
        async with rows.database.begin(reason="test") as work:
            await work.connection.execute(
                "INSERT INTO revocations (kind, name, until, revoked_by, reason)"
                " VALUES ('subject', 'pilot-1', orrery_now() - interval '1 minute', 'op', 'test')"
            )
            await work.connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'revocations'")
            await late._transport.app.state.authentication.revocations.refresh(work.connection)  # type: ignore[attr-defined]
        answer = await late.post(UPDATE, json=final)
        assert answer.status_code == 401 and "revoked" in answer.json()["message"]
    assert await rows.statuses([job_id]) == ["sent"]
