"""Reports of pilots over HTTP, on a real database."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.policy.reports import Effect, Report
from shared.auth import Authority
from shared.events import OutputsRegistered
from shared.model.job_report import JobReport
from tests.handlers.job_dispatch.calls import update
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.rows import ARCHIVE


async def test_a_job_lives_from_sent_to_holding(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="sent")
    assert await update(pilot, str(job_id), "starting", attemptNr="1") == "NULL"
    assert await update(pilot, job_id, "running", attempt_nr=1) == "NULL"
    started = await rows.row(job_id)
    assert started["status"] == "running" and started["start_time"] is not None
    assert await update(pilot, job_id, "running") == "NULL"
    assert (await rows.row(job_id))["heartbeat_at"] > started["heartbeat_at"]
    outputs = {"out.1": {"guid": "a-b", "fsize": "1400", "adler32": "0123abcd", "endpoint": "SITE-A_DATADISK"}}
    command = await update(
        pilot,
        job_id,
        "finished",
        xml=orjson.dumps(outputs).decode(),
        maxPSS="123456.0",
        nEvents="100",
        cpuConsumptionTime="77",
        metaData='{"nEvents": 100}',
        pilotTiming="1|2|3|4|5|6",
        startTime=1.5e9,
    )
    assert command == "NULL"
    row = await rows.row(job_id)
    assert row["status"] == "holding" and row["end_time"] is not None
    started_events = await rows.events("jobs.started.v1")
    assert [event["moves"][0]["to_status"] for event in started_events] == ["starting", "running"]
    (event,) = await rows.events("outputs.produced.v1")
    assert event["job_ids"] == [job_id] and event["moves"][0]["from_status"] == "running"
    async with rows.database.read() as connection:
        stored = await connection.fetchrow("SELECT * FROM job_reports WHERE job_id = $1", job_id)
    report = JobReport.from_stored(stored["report"])
    assert stored["state"] == "finished" and report.max_pss_kb == 123456 and report.n_events == 100
    assert report.cpu_time_s == 77 and report.meta_data == {"nEvents": 100} and report.timing_s == (1, 2, 3, 4, 5, 6)
    (file,) = report.outputs
    assert (file.lfn, file.size_bytes, file.checksum, file.guid) == ("out.1", 1400, "ad:0123abcd", "a-b")


async def test_a_job_may_finish_before_it_was_seen_running(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="sent")
    assert await update(pilot, job_id, "finished") == "NULL"
    assert await rows.statuses([job_id]) == ["holding"]


async def test_the_same_final_report_twice_has_the_effect_of_one(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    answers = await asyncio.gather(*(update(pilot, job_id, "finished", n_events=1) for _ in range(5)))
    assert Counter(answers) == {"NULL": 1, "alreadydone": 4}
    assert len(await rows.events("outputs.produced.v1")) == 1


async def test_a_job_whose_row_is_held_delays_its_own_report_and_no_other(rows: Rows, pilot: httpx.AsyncClient) -> None:
    held, *others = await rows.jobs(5, status="running")
    async with rows.database.begin(reason="holds a row") as work:
        await work.connection.execute("SELECT FROM jobs WHERE job_id = $1 FOR UPDATE", held)
        waiting = [asyncio.create_task(update(pilot, held, "finished")) for _ in range(2)]
        answers = await asyncio.gather(*(update(pilot, one, "finished") for one in others))
        assert answers == ["NULL"] * 4 and not any(one.done() for one in waiting)
        assert await rows.statuses(others) == ["holding"] * 4
    assert await asyncio.gather(*waiting) == ["NULL", "alreadydone"]
    assert await rows.statuses([held]) == ["holding"]


async def test_of_two_different_final_reports_the_first_wins(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    assert await update(pilot, job_id, "failed", pilot_error_code=1099) == "NULL"
    assert await update(pilot, job_id, "finished") == "alreadydone"
    assert await rows.statuses([job_id]) == ["failed"]
    assert await rows.events("outputs.produced.v1") == []
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT state FROM job_reports WHERE job_id = $1", job_id) == "failed"


async def test_a_report_of_another_attempt_changes_nothing_and_stops_the_pilot(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running", attempt_number=2)
    before = await rows.row(job_id)
    for status in ("running", "finished", "failed"):
        assert await update(pilot, job_id, status, attempt_nr=1) == "tobekilled"
    assert dict(await rows.row(job_id)) == dict(before)


@pytest.mark.parametrize("status", ["failed", "cancelled", "closed", "activated", "defined"])
async def test_a_pilot_that_does_not_own_the_job_is_told_to_stop(
    rows: Rows, pilot: httpx.AsyncClient, status: str
) -> None:
    (job_id,) = await rows.jobs(1, status=status)
    before = await rows.row(job_id)
    for reported in ("starting", "running", "finished", "failed"):
        assert await update(pilot, job_id, reported) == "tobekilled"
    assert dict(await rows.row(job_id)) == dict(before)
    assert await update(pilot, 999_999, "running") == "tobekilled"


async def test_a_repeated_final_report_is_known_after_the_job_was_archived(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await update(pilot, job_id, "failed", trans_exit_code=3)
    async with rows.database.pool.acquire() as connection:
        await connection.execute(f"{ARCHIVE} WHERE job_id = $1", job_id)
        await connection.execute("DELETE FROM jobs WHERE job_id = $1", job_id)
    assert await update(pilot, job_id, "failed", trans_exit_code=3, attempt_nr=1) == "alreadydone"
    assert await update(pilot, job_id, "failed", trans_exit_code=3, attempt_nr=2) == "tobekilled"


async def test_a_late_starting_after_running_is_only_a_sign_of_life(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    for reported in ("starting", "holding", "transferring", "running"):
        assert await update(pilot, job_id, reported) == "NULL"
    assert await rows.statuses([job_id]) == ["running"]
    assert (await rows.row(job_id))["heartbeat_at"] is not None


async def test_a_waiting_command_is_told_and_never_null(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with client(parts, authority, "chief", "production") as chief:
        answer = await chief.post("/api/v1/job/set_command", json={"job_id": job_id, "command": "debug"})
        assert answer.json()["success"]
        refused = await chief.post("/api/v1/job/set_command", json={"job_id": job_id, "command": "rm -rf"})
        assert refused.json()["success"] is False
        assert await update(pilot, job_id, "running") == "debug"
        answer = await chief.post("/api/v1/job/set_command", json={"job_id": job_id, "command": "debugoff"})
        assert answer.json()["success"]
    assert await update(pilot, job_id, "running") == "NULL"


async def test_debugoff_is_never_told_to_a_pilot_and_takes_back_nothing_but_debug(
    rows: Rows, parts: Parts, authority: Authority, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    async with client(parts, authority, "chief", "production") as chief:
        for command in ("tobekilled", "debugoff"):
            answer = await chief.post("/api/v1/job/set_command", json={"job_id": job_id, "command": command})
            assert answer.json()["success"]
    assert await update(pilot, job_id, "running") == "tobekilled"


@pytest.mark.parametrize(
    ("fields", "source", "code"),
    [
        ({"trans_exit_code": 3, "pilot_error_code": 1368, "pilot_error_diag": "misleading"}, "payload", 3),
        ({"pilot_error_code": 1305}, "payload", 1305),
        ({"pilot_error_code": 1235, "trans_exit_code": 137}, "payload", 1235),
        ({"pilot_error_code": 1099, "pilot_error_diag": "stage-in failed"}, "pilot", 1099),
        ({"pilot_error_code": "1137"}, "pilot", 1137),
        ({}, "pilot", 0),
    ],
)
async def test_a_failure_is_blamed_on_the_payload_only_where_it_is_its_own(
    rows: Rows, pilot: httpx.AsyncClient, fields: dict[str, Any], source: str, code: int
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await update(pilot, job_id, "failed", **fields)
    row = await rows.row(job_id)
    assert (row["error_source"], row["error_code"]) == (source, code) and row["error_dialog"]
    (event,) = await rows.events("jobs.failed.v1")
    assert event["job_ids"] == [job_id] and event["moves"][0]["to_status"] == "failed"


async def test_many_reports_together_are_few_transactions_and_exact_moves(rows: Rows, pilot: httpx.AsyncClient) -> None:
    running = await rows.jobs(60, status="running")
    sent = await rows.jobs(40, status="sent", queue="Q2")
    await asyncio.gather(
        *(update(pilot, one, "finished") for one in running),
        *(update(pilot, one, "running") for one in sent),
    )
    assert Counter(await rows.statuses([*running, *sent])) == {"holding": 60, "running": 40}
    produced = await rows.events("outputs.produced.v1")
    started = await rows.events("jobs.started.v1")
    assert sum(move["n_jobs"] for event in produced for move in event["moves"]) == 60
    assert sum(move["n_jobs"] for event in started for move in event["moves"]) == 40
    assert sorted(one for event in produced for one in event["job_ids"]) == running
    assert len(produced) + len(started) <= 6


async def test_one_impossible_report_in_a_batch_harms_no_other(rows: Rows, parts: Parts) -> None:
    good, bad = await rows.jobs(2, status="running")
    reports = [Report(good, "running"), Report(bad, "finished", None, {"unstorable": "\x00"})]
    outcomes = await asyncio.gather(*(parts.reporting.report(one) for one in reports), return_exceptions=True)
    assert outcomes[0].effect is Effect.HEARTBEAT  # type: ignore[union-attr]
    assert isinstance(outcomes[1], Exception)
    assert await rows.statuses([good, bad]) == ["running", "running"]


async def test_reports_in_bulk_have_an_answer_each(rows: Rows, pilot: httpx.AsyncClient) -> None:
    first, second = await rows.jobs(2, status="sent")
    job_list = [
        {"job_id": first, "job_status": "running", "attempt_nr": 1},
        {"job_id": second, "job_status": "nonsense"},
        {"job_id": 424242, "job_status": "running"},
    ]
    answer = (await pilot.post("/api/v1/pilot/update_jobs_bulk", json={"job_list": job_list})).json()
    assert [one["success"] for one in answer["data"]] == [True, False, True]
    assert answer["data"][0]["data"]["command"] == "NULL" and answer["data"][2]["data"]["command"] == "tobekilled"
    refused = (await pilot.post("/api/v1/pilot/update_jobs_bulk", json={"job_list": "x"})).json()
    assert refused["success"] is False and refused["data"]["StatusCode"] == 30


async def test_status_is_told_for_live_archived_and_unknown_jobs(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (live,) = await rows.jobs(1, status="running", attempt_number=3)
    answer = (await pilot.get("/api/v1/pilot/get_job_status", params={"job_ids": [live, 777]})).json()
    assert answer["data"] == [
        {"job_id": live, "status": "running", "attempt_number": 3},
        {"job_id": 777, "status": "not found", "attempt_number": 0},
    ]
    bad = (await pilot.get("/api/v1/pilot/get_job_status", params={"job_ids": "seven"})).json()
    assert bad["success"] is False and bad["data"]["StatusCode"] == 50


@pytest.mark.parametrize(
    ("listed", "status", "missing"),
    [
        (None, "failed", "out.1, log.1"), ({}, "failed", "out.1, log.1"), ({"log.1": {"fsize": 1}}, "holding", "out.1"),
        ({"out.1": {"fsize": 1}}, "failed", "log.1"), ({"out.1": {"fsize": 0}, "log.1": {"fsize": 9}}, "holding", None),
    ],
)  # fmt: skip
async def test_success_without_an_expected_output_is_a_failure_of_the_pilot_that_names_the_file(
    rows: Rows, pilot: httpx.AsyncClient, listed: Any, status: str, missing: str | None
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await rows.output(job_id, "out.1")
    await rows.output(job_id, "may.1", allowNoOutput=True)
    await rows.output(job_id, "log.1", kind="log")
    assert await update(pilot, job_id, "finished", job_output_report=listed) == "NULL"
    row = await rows.row(job_id)
    found = (row["status"], row["error_source"], row["error_code"])
    assert found == ((status, "pilot", 9001) if missing else (status, None, None))
    assert missing is None or row["error_dialog"].endswith(f"missing in the pilot's list: {missing}")
    async with rows.database.read() as connection:
        state = await connection.fetchval("SELECT state FROM job_reports WHERE job_id = $1", job_id)
    assert state == ("failed" if missing else "finished")


@pytest.mark.parametrize(
    ("code", "source", "command"),
    # 1144: the pilot was told tobekilled by the command of its job, 1201: the batch system ended it by a signal
    [(1305, "payload", None), (1144, "pilot", "tobekilled"), (1201, "pilot", None)],
)
async def test_a_failed_or_killed_job_with_its_log_in_the_list_fails_once_the_log_is_registered(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, code: int, source: str, command: str | None
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await rows.output(job_id, "log.1", kind="log")
    async with rows.database.begin(reason="test") as work:
        await work.connection.execute("UPDATE jobs SET command = $2 WHERE job_id = $1", job_id, command)
    told = await update(pilot, job_id, "failed", pilot_error_code=code, xml={"log.1": {"fsize": 7}})
    assert told == (command or "NULL")
    assert await rows.statuses([job_id]) == ["holding"]
    assert [event["job_ids"] for event in await rows.events("outputs.produced.v1")] == [[job_id]]
    async with rows.database.begin(reason="test") as work:
        await parts.handlers.on_outputs_registered(OutputsRegistered(job_ids=(job_id,)), work)
    row = await rows.row(job_id)
    assert (row["status"], row["error_source"], row["error_code"]) == ("failed", source, code)
    (event,) = await rows.events("jobs.failed.v1")
    assert [(one["from_status"], one["to_status"]) for one in event["moves"]] == [("holding", "failed")]
