"""Who acts for one VO kills, commands, reorders and reads no jobs of another one, whatever the role."""

from __future__ import annotations

import httpx
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.applications import application_of
from tests.handlers.job_dispatch.grid_of_jobs import Rows


def client_of(parts: Parts, authority: Authority, name: str, role: str, *groups: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(parts.service, authority)),
        base_url="http://dispatch",
        headers={"Authorization": f"Bearer {authority.issue(name, [role], groups)}"},
    )


@pytest.fixture
async def job_id(rows: Rows) -> int:
    """A waiting job of alice in the VO cms."""
    async with rows.database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE tasks SET vo = 'cms'")
    (found,) = await rows.jobs(1, shape=await rows.shape_of_vo("cms"))
    return found


CALLS = {
    "set_command": {"command": "tobekilled"},
    "set_debug_mode": {"mode": True},
    "change_priority": {"priority": 90},
}
OTHERS = pytest.mark.parametrize(("name", "role"), [("chief", "production"), ("alice", "user")])


@OTHERS
async def test_production_and_owners_that_act_for_another_vo_change_nothing_of_a_job(
    parts: Parts, authority: Authority, rows: Rows, job_id: int, name: str, role: str
) -> None:
    async with client_of(parts, authority, name, role, "atlas") as other:
        killed = (await other.post("/api/v1/job/kill", json={"job_ids": [job_id]})).json()
        assert killed["data"] == [False] and f"job {job_id}: is of the VO cms" in killed["message"]
        for verb, fields in CALLS.items():
            answer = (await other.post(f"/api/v1/job/{verb}", json={"job_id": job_id, **fields})).json()
            assert answer["success"] is False and "of the VO cms" in answer["message"], (verb, answer)
    row = await rows.row(job_id)
    assert (row["status"], row["command"], row["current_priority"]) == ("activated", None, 100)


@OTHERS
async def test_the_specification_of_a_job_is_not_for_those_that_act_for_another_vo(
    parts: Parts, authority: Authority, rows: Rows, job_id: int, name: str, role: str
) -> None:
    for group, is_told in (("atlas", False), ("cms", True)):
        async with client_of(parts, authority, name, role, group) as caller:
            described = await caller.get("/api/v1/job/get_description", params={"job_ids": job_id})
            assert (described.json()["data"][0]["spec"] is not None) is is_told, group


@pytest.mark.parametrize(("role", "group"), [("production", "cms"), ("operator", "atlas")])
async def test_production_of_the_vo_and_operators_do_all_that(
    parts: Parts, authority: Authority, rows: Rows, job_id: int, role: str, group: str
) -> None:
    async with client_of(parts, authority, "chief", role, group) as chief:
        for verb, fields in CALLS.items():
            answer = (await chief.post(f"/api/v1/job/{verb}", json={"job_id": job_id, **fields})).json()
            assert answer["success"], (verb, answer)
        assert (await chief.post("/api/v1/job/kill", json={"job_ids": [job_id]})).json()["data"] == [True]
