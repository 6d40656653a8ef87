"""Ranges of events as published pilots take and report them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx
import orjson
import pytest
from prometheus_client import CollectorRegistry

from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.store.event_ranges import SQL
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.runtime.service import Context
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.published_pilot import LEGACY, by_curl, by_urllib
from tests.handlers.job_dispatch.ranges import add_ranges, statuses, stored


async def get(pilot: httpx.AsyncClient, job_id: int, n_ranges: int = 10, **fields: Any) -> dict[str, Any]:
    asked = {"pandaID": job_id, "jobsetID": 1, "taskID": 1, "nRanges": n_ranges, **fields}
    answer = await by_curl(pilot, "getEventRanges", **asked)
    assert answer.status_code == 200
    return dict(answer.json())


async def update(pilot: httpx.AsyncClient, ranges: list[Any], version: int = 0, call: Any = by_curl) -> dict[str, Any]:
    answer = await call(pilot, "updateEventRanges", eventRanges=orjson.dumps(ranges).decode(), version=version)
    assert answer.status_code == 200
    return dict(answer.json())


def said(ids: list[str], state: str, **more: Any) -> list[dict[str, Any]]:
    return [{"eventRangeID": one, "eventStatus": state, **more} for one in ids]


@pytest.fixture
async def job_id(rows: Rows) -> int:
    return (await rows.jobs(1, status="running"))[0]


async def test_a_job_gets_the_ranges_of_its_files_in_order_until_there_are_no_more(
    rows: Rows, pilot: httpx.AsyncClient, job_id: int
) -> None:
    file_id = await add_ranges(rows, [job_id], 3)
    (other,) = await rows.jobs(1, status="running")
    await add_ranges(rows, [other], 5)
    first = await get(pilot, job_id, 2)
    assert first == {
        "StatusCode": 0,
        "eventRanges": [
            {"eventRangeID": f"1-{job_id}-{file_id}-{n}-10", "LFN": "EVNT.1", "GUID": "a-b", "scope": "mc",
             "startEvent": (n - 1) * 10 + 1, "lastEvent": n * 10}
            for n in (1, 2)
        ],
    }  # fmt: skip
    second = await get(pilot, job_id)
    assert [one["startEvent"] for one in second["eventRanges"]] == [21]
    assert await get(pilot, job_id) == {"StatusCode": 0, "eventRanges": []}
    assert {row["status"] for row in await stored(rows, file_id)} == {"sent"}


async def test_a_range_without_attempts_is_not_given_out(rows: Rows, pilot: httpx.AsyncClient, job_id: int) -> None:
    await add_ranges(rows, [job_id], 2, attempts=0)
    assert (await get(pilot, job_id))["eventRanges"] == []


async def test_ranges_are_for_who_has_the_job_while_it_is_with_a_pilot(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient, job_id: int
) -> None:
    file_id = await add_ranges(rows, [job_id], 2)
    (unclaimed,) = await rows.jobs(1, status="running")
    await add_ranges(rows, [unclaimed], 1, claimed_by=None)
    assert "nobody acquired" in (await get(pilot, unclaimed))["errorDialog"]
    (taken,) = (await get(pilot, job_id, 1))["eventRanges"]
    async with client(parts, authority, "somebody", "pilot") as somebody:
        refused = await get(somebody, job_id)
        assert refused["StatusCode"] == 50 and "was acquired by somebody else" in refused["errorDialog"]
        assert (await update(somebody, said([taken["eventRangeID"]], "finished")))["Returns"] == [False]
    assert (await get(pilot, job_id, taskID=2))["StatusCode"] == 50
    assert (await get(pilot, 12345))["StatusCode"] == 50
    await rows.becomes(job_id, "holding")
    assert (await get(pilot, job_id))["StatusCode"] == 50
    late = await update(pilot, said([taken["eventRangeID"]], "finished"))
    assert late == {"StatusCode": 0, "Returns": [False], "Command": {str(job_id): "tobekilled"}}
    assert await statuses(rows, file_id) == [(1, 10, "sent"), (2, 10, "ready")]


async def test_reports_are_answered_one_by_one_and_the_attempts_of_failed_ranges_count_down(
    rows: Rows, pilot: httpx.AsyncClient, job_id: int
) -> None:
    file_id = await add_ranges(rows, [job_id], 5, attempts=2)
    ids = [one["eventRangeID"] for one in (await get(pilot, job_id))["eventRanges"]]
    report = [
        *said(ids[:1], "running"), *said(ids[1:2], "finished"), *said(ids[2:3], "failed", errorCode=1305),
        *said(ids[3:4], "fatal", errorCode=1366, errorDiag="broken event"), *said(["7-8-9"], "finished"),
        *said(ids[1:2], "running"), *said(ids[4:], "sleeping"),
    ]  # fmt: skip
    assert await update(pilot, report) == {
        "StatusCode": 0, "Returns": [True, True, True, True, False, None, False], "Command": {},
    }  # fmt: skip
    assert await statuses(rows, file_id) == [
        (1, 2, "running"), (2, 2, "finished"), (3, 2, "failed"), (3, 1, "ready"), (4, 2, "fatal"), (5, 2, "sent"),
    ]  # fmt: skip
    by_state = {row["status"]: row for row in await stored(rows, file_id)}
    assert by_state["failed"]["error_code"] == 1305
    assert (by_state["fatal"]["error_code"], by_state["fatal"]["error_diag"]) == (1366, "broken event")
    assert (by_state["finished"]["processed_up_to_event_id"], by_state["ready"]["job_id"]) == (20, None)
    assert (await update(pilot, report))["Returns"] == [True, True, True, True, False, None, False]
    (again,) = (await get(pilot, job_id))["eventRanges"]
    assert again["eventRangeID"] == f"1-{job_id}-{file_id}-3-1"
    assert (await update(pilot, said([again["eventRangeID"]], "failed")))["Returns"] == [True]
    assert (3, 0, "ready") in await statuses(rows, file_id)
    assert (await get(pilot, job_id))["eventRanges"] == []


async def test_one_report_may_begin_and_end_a_range_and_every_step_is_logged(
    rows: Rows, pilot: httpx.AsyncClient, job_id: int
) -> None:
    await add_ranges(rows, [job_id], 2)
    ids = [one["eventRangeID"] for one in (await get(pilot, job_id))["eventRanges"]]
    assert (await update(pilot, [*said(ids, "running"), *said(ids, "fatal")]))["Returns"] == [True] * 4
    async with rows.database.read() as connection:
        steps = await connection.fetch(
            "SELECT from_status, to_status, cardinality(entity_ids) AS n FROM transition_log"
            " WHERE entity = 'event_range' ORDER BY at, to_status"
        )
    assert sorted(tuple(step) for step in steps) == [
        ("ready", "sent", 2), ("running", "fatal", 2), ("sent", "running", 2),
    ]  # fmt: skip


async def test_zip_files_and_outputs_of_ranges_are_recorded_once(
    rows: Rows, pilot: httpx.AsyncClient, job_id: int
) -> None:
    file_id = await add_ranges(rows, [job_id], 4)
    ids = [one["eventRangeID"] for one in (await get(pilot, job_id))["eventRanges"]]
    zip_file = {
        "numEvents": 20,
        "objstoreID": 117,
        "lfn": "ES.zip",
        "fsize": 5,
        "pathConvention": 1000,
        "adler32": "0a",
    }
    groups = [
        {"zipFile": zip_file, "eventRanges": said(ids[:2], "finished")},
        {"esOutput": {"numEvents": 1}, "eventRanges": said(ids[2:3], "finished", pfn="/tmp/x.json", fsize=3)},
    ]
    for _ in range(2):
        assert (await update(pilot, groups, 1))["Returns"] == [True] * 3
    async with rows.database.read() as connection:
        files = [dict(row) for row in await connection.fetch("SELECT * FROM event_range_files ORDER BY lfn")]
    assert [(one["kind"], one["lfn"], one["size_bytes"], one["n_events"]) for one in files] == [
        ("zip", "ES.zip", 5, 20), ("output", "x.json", 3, 1),
    ]  # fmt: skip
    assert (files[0]["obj_store_id"], files[0]["adler32"], files[0]["path_convention"]) == (117, "0a", 1000)
    found = await stored(rows, file_id)
    assert [row["zip_row_id"] for row in found] == [files[0]["zip_row_id"]] * 2 + [files[1]["zip_row_id"], None]
    assert [row["obj_store_id"] for row in found[:2]] == [117, 117]


async def test_fine_grained_processing_reports_ranges_that_nobody_gave_out(
    rows: Rows, pilot: httpx.AsyncClient, job_id: int
) -> None:
    file_id = await add_ranges(rows, [job_id], 2)
    (other,) = await rows.jobs(1, status="running")
    await add_ranges(rows, [other], 1)
    ids = [f"1-{job_id}-{file_id}-1-10", f"1-{other}-{file_id}-2-10"]
    assert (await update(pilot, said(ids, "finished")))["Returns"] == [False, False]
    assert (await update(pilot, said(ids, "finished"), 2))["Returns"] == [True, False]
    assert await statuses(rows, file_id) == [(1, 10, "finished"), (2, 10, "ready")]


@pytest.mark.parametrize("call", [by_curl, by_urllib])
async def test_forms_and_json_are_read_alike_and_the_command_of_a_job_comes_with_the_answer(
    rows: Rows, pilot: httpx.AsyncClient, job_id: int, call: Any
) -> None:
    file_id = await add_ranges(rows, [job_id], 1)
    await get(pilot, job_id)
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE jobs SET command = 'softkill' WHERE job_id = $1", job_id)
    report: Any = said([f"1-{job_id}-{file_id}-1-10"], "finished")
    text = orjson.dumps(report).decode()
    answer = await call(pilot, "updateEventRanges", eventRanges=text if call is by_curl else report, version="0")
    if call is by_curl:
        assert answer.json() == {"StatusCode": 0, "Returns": [True], "Command": {str(job_id): "softkill"}}
    else:
        assert httpx.QueryParams(answer.text)["Returns"] == "[true]"


async def test_what_is_passing_is_no_json_for_reports_and_has_a_status_code_for_requests(
    rows: Rows, pilot: httpx.AsyncClient, job_id: int, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ConnectionError("PostgreSQL is away")

    await add_ranges(rows, [job_id], 1)
    monkeypatch.setattr("services.job_dispatch.lifecycle.event_ranges.named_ranges", fail)
    monkeypatch.setattr("services.job_dispatch.lifecycle.event_ranges.take_ranges", fail)
    report = await pilot.post(f"{LEGACY}/updateEventRanges", data={"eventRanges": "[]"})
    assert (report.status_code, report.headers["content-type"].partition(";")[0]) == (503, "text/plain")
    assert (await get(pilot, job_id))["StatusCode"] == 10
    wrong = await pilot.post(f"{LEGACY}/updateEventRanges", data={"eventRanges": "x", "version": "7"})
    assert wrong.json()["StatusCode"] == 30 and "version" in wrong.json()["errorDialog"]


async def test_two_replicas_never_give_one_range_to_two_jobs(
    rows: Rows, database: Database, database_url: str, authority: Authority
) -> None:
    jobs = await rows.jobs(8, status="running")
    file_id = await add_ranges(rows, jobs, 200)
    pair = [
        build_parts(
            Context(database, NullCache(), authority, random.Random(seed), Settings(database_url=database_url),
                    CollectorRegistry())
        )
        for seed in (1, 2)
    ]  # fmt: skip
    given: list[tuple[int, int]] = []

    async def work_off(number: int, job_id: int) -> None:
        async with client(pair[number % 2], authority, "pilot-1", "pilot") as pilot:
            while found := (await get(pilot, job_id, 7))["eventRanges"]:
                given.extend((one["startEvent"], job_id) for one in found)

    await asyncio.gather(*(work_off(number, job_id) for number, job_id in enumerate(jobs)))
    for one in pair:
        await one.close()
    assert sorted(first for first, _ in given) == [n * 10 + 1 for n in range(200)]
    assert {(row["def_min_event_id"], row["job_id"]) for row in await stored(rows, file_id)} == set(given)
    assert len({job_id for _, job_id in given}) > 1


async def test_taking_ranges_reads_no_more_of_a_file_than_it_takes(rows: Rows, job_id: int) -> None:
    file_id = await add_ranges(rows, [job_id], 1)
    async with rows.database.pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO event_ranges (task_id, dataset_id, file_id, job_process_id, def_min_event_id)"
            " SELECT r.task_id, r.dataset_id, r.file_id, n, n * 10 + 1"
            " FROM event_ranges r, generate_series(2, 20000) n WHERE r.file_id = $1",
            file_id,
        )
        await connection.execute("ANALYZE event_ranges, job_files")
        await connection.execute(f"PREPARE take AS {SQL.text('take_ranges')}")
        plan = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT TEXT) EXECUTE take (1, 10, {job_id}, 1, '{{0}}')")
    text = "\n".join(row[0] for row in plan)
    assert "event_ranges_ready" in text and "Seq Scan on event_ranges" not in text, text
    assert "Sort Key: e.job_process_id" not in text, text


async def test_the_counters_of_a_job_set_follow_what_pilots_take_and_report(
    rows: Rows, pilot: httpx.AsyncClient, job_id: int
) -> None:
    file_id = await add_ranges(rows, [job_id], 4, attempts=1)
    async with rows.database.pool.acquire() as connection:
        set_id = await connection.fetchval(
            "INSERT INTO job_sets (task_id, chunk_id, status, kind, n_files, n_ranges, n_consumers, serials, queues)"
            " VALUES (1, 1, 'open', 'normal', 1, 4, 1, '{}', '[]') RETURNING job_set_id"
        )
        member = (
            "INSERT INTO job_set_jobs (job_id, job_set_id, task_id, role, attempt) VALUES ($1, $2, 1, 'consumer', 1)"
        )
        await connection.execute(member, job_id, set_id)
        await connection.execute("UPDATE event_ranges SET job_set_id = $1 WHERE file_id = $2", set_id, file_id)

    async def counters() -> tuple[int, ...]:
        async with rows.database.read() as connection:
            row = await connection.fetchrow(
                "SELECT n_ready, n_exhausted, n_processing, n_finished, n_fatal FROM job_sets WHERE job_set_id = $1",
                set_id,
            )
        return tuple(row)

    assert await counters() == (4, 0, 0, 0, 0)
    ids = [one["eventRangeID"] for one in (await get(pilot, job_id, 3))["eventRanges"]]
    assert await counters() == (1, 0, 3, 0, 0)
    await update(pilot, [*said(ids[:1], "finished"), *said(ids[1:2], "failed"), *said(ids[2:], "fatal")])
    assert await counters() == (1, 1, 0, 1, 1)


async def test_a_user_s_own_pilot_takes_and_reports_the_ranges_of_its_job_and_of_no_other(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    own, hers, foreign = await rows.jobs(3, status="running")
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE tasks SET vo = 'atlas'")
        await connection.execute("UPDATE jobs SET user_name = 'bob' WHERE job_id = $1", foreign)
    file_id = await add_ranges(rows, [own], 2, claimed_by="alice")
    await add_ranges(rows, [hers], 1)
    await add_ranges(rows, [foreign], 1, claimed_by="bob")
    async with client(parts, authority, "alice", "user") as alice:
        (first, second) = (await get(alice, own))["eventRanges"]
        ids = [first["eventRangeID"], second["eventRangeID"]]
        assert (await update(alice, said(ids, "finished")))["Returns"] == [True, True]
        assert [row["status"] for row in await stored(rows, file_id)] == ["finished"] * 2
        told = f"job {hers} was acquired by somebody else: alice may not report for it"
        assert await get(alice, hers) == {"StatusCode": 50, "errorDialog": told, "eventRanges": []}
        for one in (foreign, 987_654):
            hidden = f"job {one} is not with a pilot"
            assert await get(alice, one) == {"StatusCode": 50, "errorDialog": hidden, "eventRanges": []}
            count = await alice.get("/api/v1/event/get_available_event_range_count", params={"job_id": one})
            assert (count.json()["success"], count.json()["message"]) == (False, hidden)
        assert (await update(alice, said([f"1-{foreign}-{file_id}-1-10"], "failed")))["Returns"] == [False]
    async with client(parts, authority, "nobody", "user") as nobody:
        nobody.headers["Origin"] = "cms"
        assert (await get(nobody, own))["errorDialog"] == f"job {own} is not with a pilot"
        one = {"event_range_id": ids[0], "event_range_status": "failed"}
        assert not (await nobody.post("/api/v1/event/update_single_event_range", json=one)).json()["success"]
    assert [row["status"] for row in await stored(rows, file_id)] == ["finished"] * 2
