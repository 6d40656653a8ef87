"""Whose jobs a pilot gets and reports: those of its VO; without the role of production or pilots its user's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.applications import application_of
from tests.handlers.job_dispatch.calls import acquire, update
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import LEGACY, by_curl, by_urllib


def pilot_of(
    parts: Parts, authority: Authority, *groups: str, name: str = "pilot-1", role: str = "pilot", origin: str = ""
) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {authority.issue(name, [role], groups)}"}
    headers |= {"Origin": origin} if origin else {}
    transport = httpx.ASGITransport(app=application_of(parts.service, authority))
    return httpx.AsyncClient(transport=transport, base_url="http://dispatch", headers=headers)


@pytest.fixture
async def jobs_of_vos(rows: Rows) -> dict[str, list[int]]:
    """Two jobs of each VO, those of cms before those of atlas, and one of none behind them."""
    found = {}
    for vo, priority in (("cms", 900), ("atlas", 500)):
        found[vo] = await rows.jobs(2, shape=await rows.shape_of_vo(vo), priority=priority)
    return {**found, "": await rows.jobs(1, priority=1)}


async def test_a_pilot_gets_jobs_of_its_vo_only_and_hears_that_others_wait(
    parts: Parts, authority: Authority, jobs_of_vos: dict[str, list[int]]
) -> None:
    async with pilot_of(parts, authority, "atlas/pilot") as pilot:
        got = [(await acquire(pilot))["jobs"][0]["PandaID"] for _ in range(3)]  # type: ignore[index]
        assert got == [*jobs_of_vos["atlas"], *jobs_of_vos[""]]
        nothing = await acquire(pilot)
        assert (nothing["StatusCode"], nothing["why"]) == (20, "vo")
        assert "of another VO: the pilot runs jobs of atlas" in str(nothing["reason"])


async def test_the_vo_that_a_pilot_claims_is_the_one_whose_jobs_it_gets(
    parts: Parts, authority: Authority, jobs_of_vos: dict[str, list[int]]
) -> None:
    for origin, vo in (("atlas.pilot", "atlas"), ("cms", "cms")):
        async with pilot_of(parts, authority, "atlas", "cms", origin=origin) as pilot:
            assert (await by_curl(pilot, "getJob", siteName="Q1")).json()["PandaID"] == jobs_of_vos[vo][0]
    async with pilot_of(parts, authority, origin="cms.pilot") as of_every_vo:
        assert (await by_curl(of_every_vo, "getJob", siteName="Q1")).json()["PandaID"] == jobs_of_vos["cms"][1]
    async with pilot_of(parts, authority) as anybody:
        assert (await by_curl(anybody, "getJob", siteName="Q1")).json()["PandaID"] == jobs_of_vos["atlas"][1]


async def test_a_pilot_of_another_vo_reports_nothing_whatever_its_role(
    parts: Parts, authority: Authority, rows: Rows, jobs_of_vos: dict[str, list[int]]
) -> None:
    job_id = jobs_of_vos["cms"][0]
    async with pilot_of(parts, authority, "cms") as owner:
        assert (await by_curl(owner, "getJob", siteName="Q1")).json()["PandaID"] == job_id
        for name, role in (("pilot-1", "pilot"), ("prod", "production")):
            async with pilot_of(parts, authority, "atlas", name=name, role=role) as other:
                for call in (by_curl, by_urllib):
                    answer = await call(other, "updateJob", jobId=job_id, state="failed")
                    assert "60" in answer.text and "VO cms" in answer.text.replace("+", " ")
        assert (await rows.row(job_id))["status"] == "sent"
        async with pilot_of(parts, authority, "cms", name="prod", role="production") as trusted:
            assert await update(trusted, job_id, "running") == "NULL"
        assert await update(owner, job_id, "failed") == "NULL"


@pytest.fixture
async def user(parts: Parts, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    async with client(parts, authority, "bob", "user") as found:
        yield found


async def jobs_of_users(rows: Rows) -> tuple[int, int, int]:
    """An analysis job of bob, one of alice before it, and a production job of bob before both."""
    async with rows.database.pool.acquire() as connection:
        await rows.task(2)
        await connection.execute("UPDATE tasks SET user_name = 'bob' WHERE task_id = 2")
    [produced] = await rows.jobs(1, task_id=2, user_name="bob", priority=900)
    [others] = await rows.jobs(1, shape="user", priority=800)
    [own] = await rows.jobs(1, task_id=2, shape="user", user_name="bob", priority=100)
    return own, others, produced


async def test_a_users_own_pilot_gets_the_users_analysis_jobs_and_ends_them(
    user: httpx.AsyncClient, rows: Rows
) -> None:
    own, others, produced = await jobs_of_users(rows)
    for label in ({}, {"prodSourceLabel": "user"}):
        answer = (await by_curl(user, "getJob", siteName="Q1", **label)).json()
        assert (answer["StatusCode"], answer.get("PandaID")) == ((0, own) if not label else (20, None))
    assert await update(user, own, "running") == "NULL"
    assert await update(user, own, "failed") == "NULL"
    assert await rows.statuses([own, others, produced]) == ["failed", "activated", "activated"]


async def test_a_users_own_pilot_gets_no_job_of_another_user_by_naming_its_task(
    user: httpx.AsyncClient, rows: Rows
) -> None:
    own, others, produced = await jobs_of_users(rows)
    assert (await by_curl(user, "getJob", siteName="Q1", taskID=1)).json()["StatusCode"] == 20
    assert (await by_curl(user, "getJob", siteName="Q1", taskID=2)).json()["PandaID"] == own
    assert await rows.statuses([others, produced]) == ["activated"] * 2


@pytest.mark.parametrize(
    "asked",
    [{"prodSourceLabel": "managed"}, {"prodUserID": "alice"}, {"prodSourceLabel": "any"}, {"workingGroup": "higgs"}],
)
async def test_a_users_own_pilot_that_asks_for_more_is_told_the_code_for_roles(
    user: httpx.AsyncClient, rows: Rows, asked: dict[str, str]
) -> None:
    ids = await jobs_of_users(rows)
    answer = (await by_curl(user, "getJob", siteName="Q1", **asked)).json()
    assert answer["StatusCode"] == 60 and "without the role pilot or production" in answer["errorDialog"]
    assert await rows.statuses(ids) == ["activated"] * 3


async def test_a_users_own_pilot_reports_no_job_of_others_also_where_nobody_knows_who_took_it(
    user: httpx.AsyncClient, rows: Rows
) -> None:
    _, others, produced = await jobs_of_users(rows)
    for status in ("sent", "running"):
        await rows.becomes(others, status)
    told = (await by_curl(user, "updateJob", jobId=others, state="failed")).json()
    assert told["StatusCode"] == 60 and "own jobs only" in told["errorDialog"]
    bulk = {"job_list": [{"job_id": others, "job_status": "failed", "attempt_nr": 1}]}
    answer = (await user.post("/api/v1/pilot/update_jobs_bulk", json=bulk)).json()
    assert answer["data"][0]["data"]["StatusCode"] == 60
    assert await rows.statuses([others, produced]) == ["running", "activated"]


async def test_a_proxy_is_for_users_whom_the_configuration_names_alone(user: httpx.AsyncClient) -> None:
    assert (await user.post(f"{LEGACY}/getProxy", data={"role": "x"})).json()["StatusCode"] == 70
