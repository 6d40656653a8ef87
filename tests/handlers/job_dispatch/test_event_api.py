"""/api/v1/event/*: ranges of events in the envelope."""

from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts
from shared.auth import Authority
from tests.applications import application_of
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.ranges import add_ranges, statuses

V1 = "/api/v1/event"


async def test_ranges_are_counted_taken_reported_and_shown(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    file_id = await add_ranges(rows, [job_id], 3)
    job: dict[str, Any] = {"job_id": job_id, "jobset_id": 1, "task_id": 1}

    async def n_available() -> int:
        answer = (await pilot.get(f"{V1}/get_available_event_range_count", params=job)).json()
        return int(answer["data"]) if answer["success"] else -1

    assert await n_available() == 3
    taken = (await pilot.post(f"{V1}/acquire_event_ranges", json={**job, "n_ranges": 2})).json()
    ids = [one["eventRangeID"] for one in taken["data"]]
    assert taken["success"] and ids == [f"1-{job_id}-{file_id}-{n}-10" for n in (1, 2)] and await n_available() == 1
    report = orjson.dumps([{"eventRangeID": ids[0], "eventStatus": "finished"}, {"eventRangeID": "x"}]).decode()
    told = (await pilot.post(f"{V1}/update_event_ranges", json={"event_ranges": report, "version": 0})).json()
    assert told["data"] == {"Returns": [True, False], "Commands": {}} and "there is no such id" in told["message"]
    wrong = orjson.dumps([5, {"eventRangeID": ids[1], "eventStatus": "cooked"}]).decode()
    refused = (await pilot.post(f"{V1}/update_event_ranges", json={"event_ranges": wrong, "version": 0})).json()
    assert "range 5 without eventRangeID: there is no such id; allowed: eventRangeID as it was" in refused["message"]
    states = "allowed: running, transferring, finished, failed, fatal"
    assert f"{ids[1]}: eventStatus 'cooked' is not allowed; {states}" in refused["message"]
    one = {"event_range_id": ids[1], "event_range_status": "failed", "core_count": 8, "cpu_consumption_time": 1.5}
    assert (await pilot.post(f"{V1}/update_single_event_range", json=one)).json()["data"] == {"Command": None}
    pairs = orjson.dumps([{"task_id": 1, "panda_id": job_id}]).decode()
    shown = (await pilot.get(f"{V1}/get_event_range_statuses", params={"job_task_ids": pairs})).json()["data"]
    assert shown == {
        str(job_id): {
            ids[0]: {"status": "finished", "error": None, "dialog": None},
            ids[1]: {"status": "failed", "error": None, "dialog": None},
        }
    }
    assert await statuses(rows, file_id) == [(1, 10, "finished"), (2, 10, "failed"), (2, 9, "ready"), (3, 10, "ready")]
    await rows.becomes(job_id, "cancelled")
    assert await n_available() == -1
    refused = (await pilot.post(f"{V1}/update_single_event_range", json={**one, "event_range_id": ids[0]})).json()
    assert not refused["success"] and refused["data"] == {"Command": "tobekilled"} and "not with" in refused["message"]


@pytest.mark.parametrize("name", ["acquire_event_ranges", "update_event_ranges", "update_single_event_range"])
async def test_people_neither_take_nor_report_nor_see_ranges_of_others(
    rows: Rows, parts: Parts, authority: Authority, name: str
) -> None:
    (job_id,) = await rows.jobs(1, status="running", user_name="bob")
    file_id = await add_ranges(rows, [job_id], 1)
    range_id = f"1-{job_id}-{file_id}-1-10"
    one = {"event_range_id": range_id, "event_range_status": "finished"}
    several = [{"eventRangeID": range_id, "eventStatus": "finished"}]
    async with client(parts, authority, "alice", "user") as alice:
        answer = (await alice.post(f"{V1}/{name}", json={"job_id": job_id, **one, "event_ranges": several})).json()
        is_refused = not answer["success"] or answer["data"]["Returns"] == [False]
        assert is_refused and f"job {job_id} is not with a pilot" in answer["message"], answer
        assert await statuses(rows, file_id) == [(1, 10, "ready")]
        pairs = f'[{{"task_id": 1, "job_id": {job_id}}}]'
        shown = await alice.get(f"{V1}/get_event_range_statuses", params={"job_task_ids": pairs})
        assert shown.json() == {"success": True, "message": "", "data": {}}


@pytest.mark.parametrize(
    ("name", "role", "groups", "seen"),
    [("alice", "user", ["atlas"], True), ("alice", "user", ["cms"], False), ("bob", "user", ["atlas"], False),
     ("paul", "production", ["atlas"], True), ("paul", "production", ["cms"], False),
     ("pilot-2", "pilot", ["atlas"], True), ("pilot-1", "pilot", ["cms"], False), ("olga", "operator", [], True)],
)  # fmt: skip
async def test_states_of_ranges_of_a_job_that_is_not_the_callers_are_told_like_those_of_a_job_that_is_not_there(
    rows: Rows, parts: Parts, authority: Authority, name: str, role: str, groups: list[str], seen: bool
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    file_id = await add_ranges(rows, [job_id], 1)
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE tasks SET vo = 'atlas'")
        await connection.execute("UPDATE event_ranges SET job_id = $1, error_diag = 'no heap'", job_id)
    in_full = role != "pilot"
    state = {"status": "ready", "error": None, "dialog": "no heap" if in_full else None}
    headers = {"Authorization": f"Bearer {authority.issue(name, [role], groups)}"}
    transport = httpx.ASGITransport(app=application_of(parts.service, authority))
    async with httpx.AsyncClient(transport=transport, base_url="http://dispatch", headers=headers) as caller:
        for job, is_there in ((job_id, True), (job_id + 1, False)):
            pairs = orjson.dumps([{"task_id": 1, "job_id": job}, {"task_id": 99, "job_id": job}]).decode()
            answer = (await caller.get(f"{V1}/get_event_range_statuses", params={"job_task_ids": pairs})).json()
            expected = {str(job): {f"1-{job}-{file_id}-1-10": state}} if seen and is_there else {}
            assert answer == {"success": True, "message": "", "data": expected}


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("acquire_event_ranges", {"job_id": 1, "n_ranges": 0}, "n_ranges"),
        ("acquire_event_ranges", {"job_id": "x"}, "job_id"),
        ("acquire_event_ranges", {"job_id": 1, "n_ranges": 10_001}, "n_ranges"),
        ("update_event_ranges", {"event_ranges": "{"}, "event_ranges"),
        ("update_event_ranges", {"event_ranges": [], "version": 3}, "version"),
        ("update_event_ranges", {}, "event_ranges"),
        ("update_single_event_range", {"event_range_id": "1-1-1-1-1"}, "event_range_status"),
    ],
)
async def test_bad_input_is_refused_naming_the_field(
    pilot: httpx.AsyncClient, name: str, body: dict[str, Any], field: str
) -> None:
    answer = (await pilot.post(f"{V1}/{name}", json=body)).json()
    assert not answer["success"] and field in answer["message"]
