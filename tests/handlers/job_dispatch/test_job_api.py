"""What people ask about jobs, and the kill."""

from __future__ import annotations

import httpx
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests import rows as table
from tests.applications import application_of
from tests.handlers.job_dispatch.calls import update
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.rows import ARCHIVE


async def test_jobs_are_listed_newest_first_by_filter_and_page(rows: Rows, parts: Parts, authority: Authority) -> None:
    await rows.task(2)
    first = await rows.jobs(3)
    second = await rows.jobs(2, task_id=2, queue="Q2", status="running")
    async with rows.database.pool.acquire() as connection:
        await connection.execute(f"{ARCHIVE} WHERE job_id = $1", first[0])
        await connection.execute("DELETE FROM jobs WHERE job_id = $1", first[0])
    async with client(parts, authority, "alice", "user") as alice:

        async def listed(**query: object) -> list[int]:
            answer = (await alice.get("/api/v1/job/list", params=query)).json()
            assert answer["success"], answer
            return [row["job_id"] for row in answer["data"]]

        assert await listed() == [*reversed(second), *reversed(first)]
        assert await listed(task_id=1) == list(reversed(first))
        assert await listed(queue="Q2", status="running") == list(reversed(second))
        assert await listed(limit=2) == list(reversed(second))
        assert await listed(before_id=second[0]) == list(reversed(first))
        assert await listed(job_ids=[first[0], second[1]]) == [second[1], first[0]]
        assert await listed(user_name="nobody", task_id="None") == []
        bad = (await alice.get("/api/v1/job/list", params={"status": "sleeping"})).json()
        assert bad["success"] is False and bad["data"]["problems"][0]["field"] == "status"


async def test_jobs_that_failed_of_the_same_as_one_are_listed_to_who_may_read_that(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    await rows.task(2)
    died = [*await rows.jobs(5, status="failed"), *await rows.jobs(1, task_id=2, status="failed")]
    (running,) = await rows.jobs(1, status="running")
    missing = "file {} is missing".format
    texts = [missing(7), missing(8), "file 9 is broken", missing(6), None, missing(5)]
    async with rows.database.pool.acquire() as connection:
        for job_id, dialog in zip(died, texts, strict=True):
            code, queue = (65 if job_id == died[3] else 64), "Q2" if job_id == died[1] else "Q1"
            statement = "UPDATE jobs SET error_code = $2, error_dialog = $3, queue = $4 WHERE job_id = $1"
            await connection.execute(statement, job_id, code, dialog, queue)
        await connection.execute(f"{ARCHIVE} WHERE job_id = $1", died[0])
        await connection.execute("DELETE FROM jobs WHERE job_id = $1", died[0])

    async def listed(who: str, **query: object) -> list[int]:
        async with client(parts, authority, who, "user") as caller:
            answer = (await caller.get("/api/v1/job/list", params=query)).json()
            assert answer["success"], answer
            return [row["job_id"] for row in answer["data"]]

    assert await listed("alice", like=died[0]) == await listed("alice", like=died[1]) == [died[1], died[0]]
    assert await listed("alice", like=died[0], queue="Q2") == [died[1]]
    assert [await listed("alice", like=one) for one in died[2:5]] == [[one] for one in died[2:5]]
    assert await listed("alice", like=died[0], task_id=2) == await listed("alice", like=running) == []
    assert await listed("bob", like=died[0]) == await listed("alice", like=10**12) == []


async def test_a_path_or_method_that_does_not_exist_is_told_in_the_envelope(pilot: httpx.AsyncClient) -> None:
    for status, data, answer in (
        (404, {"StatusCode": 30}, await pilot.post("/api/v1/pilot/nothing")),
        (405, {"StatusCode": 30}, await pilot.get("/api/v1/pilot/acquire_jobs")),
        (405, None, await pilot.post("/api/v1/job/list")),
    ):
        assert answer.status_code == status and ("allow" in answer.headers) is (status == 405)
        assert answer.json()["success"] is False and answer.json()["data"] == data


async def test_status_and_description_tell_all_that_is_known(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await update(pilot, job_id, "failed", trans_exit_code=9)
    (state,) = (await pilot.get("/api/v1/job/get_status", params={"job_ids": job_id})).json()["data"]
    assert state["status"] == "failed"
    async with client(parts, authority, "alice", "user") as alice:
        (described,) = (await alice.get("/api/v1/job/get_description", params={"job_ids": job_id})).json()["data"]
    assert described["spec"]["PandaID"] == job_id and described["report"]["trans_exit_code"] == 9
    assert described["status"] == "failed" and described["error_source"] == "payload"


async def test_a_job_is_killed_by_its_owner_or_production_and_by_nobody_else(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    mine, running, ended = await rows.jobs(1), await rows.jobs(1, status="running"), await rows.jobs(1, status="failed")
    body = {"job_ids": [*mine, *ended, 4711]}
    async with client(parts, authority, "mallory", "user") as mallory:
        answer = (await mallory.post("/api/v1/job/kill", json=body)).json()
        assert answer["data"] == [False, False, False] and "may kill it" in answer["message"]
        assert "alice" not in answer["message"]
    answer = (await pilot.post("/api/v1/job/kill", json=body)).json()
    assert answer["data"] == [False, False, False]
    assert await rows.statuses(mine) == ["activated"]
    async with client(parts, authority, "alice", "user") as alice:
        answer = (await alice.post("/api/v1/job/kill", json=body)).json()
        assert answer["data"] == [True, False, False] and "not found" in answer["message"]
    async with client(parts, authority, "chief", "production") as chief:
        assert (await chief.post("/api/v1/job/kill", json={"job_ids": running})).json()["data"] == [True]
        bad = (await chief.post("/api/v1/job/kill", json={"job_ids": []})).json()
        assert bad["success"] is False
    assert await rows.statuses([*mine, *running, *ended]) == ["cancelled", "cancelled", "failed"]
    async with rows.database.read() as connection:
        audit = await connection.fetch("SELECT caller, verb FROM audit_log ORDER BY audit_id")
    assert [row["caller"] for row in audit] == ["mallory", "pilot-1", "alice", "chief"]
    assert await update(pilot, running[0], "running") == "tobekilled"


async def test_reads_need_a_token(parts: Parts, authority: Authority) -> None:
    web = application_of(parts.service, authority)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=web), base_url="http://dispatch") as nobody:
        answer = await nobody.get("/api/v1/job/list")
        assert answer.status_code == 401 and answer.json()["success"] is False


async def test_factories_see_the_jobs_of_each_queue(rows: Rows, parts: Parts, pilot: httpx.AsyncClient) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO queue_statistics VALUES ('Q1', 'SCORE', 'MC', 'alice', 'activated', 5, 5),"
            " ('Q1', 'SCORE', 'MC', 'bob', 'activated', 2, 2), ('Q1', 'MCORE', 'MC', 'bob', 'running', 1, 8)"
        )
    found = (await pilot.get("/api/v1/statistics/active_job_stats_by_site")).json()["data"]
    assert found == {"Q1": {"SCORE": {"activated": 7}, "MCORE": {"running": 1}}}


@pytest.mark.parametrize(
    ("name", "role", "groups", "may"),
    [
        ("alice", "user", (), True), ("alice", "user", ("demo",), True), ("alice", "user", ("other",), False),
        ("bob", "user", ("demo",), False), ("bob", "user", ("demo/physics",), False), ("bob", "user", (), False),
        ("bob", "user", ("other",), False), ("pilot-1", "pilot", (), False), ("paul", "production", (), True),
        ("paul", "production", ("demo",), True), ("paul", "production", ("other",), False),
        ("olga", "operator", (), True),
    ],
)  # fmt: skip
async def test_a_specification_and_what_pilots_say_are_for_the_owner_production_of_the_vo_and_operators(
    rows: Rows, parts: Parts, authority: Authority, name: str, role: str, groups: tuple[str, ...], may: bool
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with rows.database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE tasks SET vo = 'demo'")
        await table.insert(connection, "job_progress", {"job_id": job_id, "progress": {"node": "node7"}})
    async with client(parts, authority, name, role) as one:
        one.headers["Authorization"] = f"Bearer {authority.issue(name, [role], groups)}"
        (found,) = (await one.get("/api/v1/job/get_description", params={"job_ids": job_id})).json()["data"]
    assert found["status"] == "running" and (found["spec"] is not None) is may
    assert found["progress"] == ({"node": "node7"} if may else None)
    if not may:
        assert found["withheld"].endswith("told to the owner, production of its VO (demo), and operators")
        assert (found["queue"], found["user_name"], found["worker"]) == (None, None, None)


async def test_the_document_describes_pilots_methods_and_peoples(parts: Parts, pilot: httpx.AsyncClient) -> None:
    document = (await pilot.get("/openapi.json")).json()
    for path in (
        "pilot/acquire_jobs",
        "pilot/update_job",
        "pilot/update_jobs_bulk",
        "pilot/get_job_status",
        "pilot/update_worker_status",
        "job/list",
        "job/kill",
        "job/get_description",
    ):
        assert f"/api/v1/{path}" in document["paths"], path
    for method in ("getJob", "updateJob", "updateWorkerPilotStatus", "getStatus", "setDebugMode", "getProxy"):
        assert f"/server/panda/{method}" in document["paths"], method
    legacy = document["components"]["schemas"]["LegacyUpdateJob"]
    assert {"jobId", "state", "xml", "maxPSS"} <= set(legacy["properties"]) and "jobId" in legacy["required"]
    fields = document["components"]["schemas"]["UpdateJob"]["properties"]
    assert {"job_id", "job_status", "max_pss", "job_output_report"} <= set(fields)


async def test_the_client_posts_ids_and_gets_what_its_caller_may_see(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await update(pilot, job_id, "failed", trans_exit_code=9, pilot_error_code=1305)
    path, body = "/api/v1/job/get_description_incl_archive", {"job_ids": [job_id, 4711]}
    async with client(parts, authority, "alice", "user") as alice:
        whole, unknown = (await alice.post(path, json=body)).json()["data"]
    assert (whole["PandaID"], whole["jobStatus"], whole["pilotErrorCode"], unknown) == (job_id, "failed", 1305, None)
    async with client(parts, authority, "mallory", "user") as mallory:
        state, _ = (await mallory.post(path, json=body)).json()["data"]
        assert state["jobStatus"] == "failed" and "pilotErrorCode" not in state and "jobParameters" not in state
        refused = (await mallory.post(path, json={"job_ids": []})).json()
        assert refused["success"] is False


async def test_metadata_of_a_task_of_others_are_not_there(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    finished, running = await rows.jobs(2, status="running")
    await update(pilot, finished, "finished", meta_data='{"exitCode": 0}')
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE jobs SET status = 'finished' WHERE job_id = $1", finished)
    path = "/api/v1/job/get_metadata_for_analysis_jobs"
    async with client(parts, authority, "alice", "user") as alice:
        (one,) = (await alice.get(path, params={"task_id": 1})).json()["data"]
        assert (one["PandaID"], one["metadata"]) == (finished, {"exitCode": 0}) and running != finished
        assert (await alice.get(path, params={"task_id": 99})).json()["data"] == 2
    async with client(parts, authority, "mallory", "user") as mallory:
        refused = (await mallory.get(path, params={"task_id": 1})).json()
        assert (refused["data"], refused["message"]) == (2, "task 1 not found")


async def test_jobs_are_listed_at_a_queue_and_at_the_part_of_it_that_serves_a_resource_type(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    first, second = await rows.jobs(2)
    (elsewhere,) = await rows.jobs(1, queue="Q2")
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE jobs SET resource_type = 'MCORE' WHERE job_id = $1", second)
        types = {one: await connection.fetchval("SELECT resource_type FROM jobs WHERE job_id = $1", one)
                 for one in (first, elsewhere)}  # fmt: skip
    for asked, found in (
        ("Q1", [second, first]), ("Q1/MCORE", [second]), (f"Q1/{types[first]}", [first]), ("Q2/MCORE", []),
        (f"Q2/{types[elsewhere]}", [elsewhere]), ("Q1/NONE", []),
    ):  # fmt: skip
        for name, seen in (("alice", found), ("bob", [])):
            async with client(parts, authority, name, "user") as caller:
                answer = (await caller.get("/api/v1/job/list", params={"queue": asked})).json()
                assert [one["job_id"] for one in answer["data"]] == seen, (name, asked)


async def test_a_job_without_a_queue_and_sub_statuses_are_listed_in_the_words_of_the_field(
    rows: Rows, parts: Parts, authority: Authority
) -> None:
    merging, waiting = await rows.jobs(2, status="merging")
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE jobs SET queue = NULL WHERE job_id = $1", waiting)
        job_set = {"task_id": 1, "chunk_id": 1, "status": "open", "kind": "normal", "n_files": 1, "n_ranges": 1,
                   "n_consumers": 1, "serials": {}, "queues": []}  # fmt: skip
        set_id = await table.insert(connection, "job_sets", job_set, "job_set_id")
        member = {"job_id": merging, "job_set_id": set_id, "task_id": 1, "role": "consumer", "attempt": 1}
        await table.insert(connection, "job_set_jobs", {**member, "sub_status": "es_wait"})
    async with client(parts, authority, "alice", "user") as alice:
        listed = (await alice.get("/api/v1/job/list", params={"queue": "WAITING_CO_JUMBO"})).json()["data"]
        assert [(row["job_id"], row["queue"]) for row in listed] == [(waiting, "WAITING_CO_JUMBO")]
        described = (await alice.get("/api/v1/job/get_description", params={"job_ids": merging})).json()["data"]
        assert described[0]["job_sub_status"] == "es_wait"
