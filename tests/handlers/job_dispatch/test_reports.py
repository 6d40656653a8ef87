"""Reports of pilots over HTTP, on a real database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.policy.reports import Effect, Report
from shared.auth import Authority
from shared.events import OutputsRegistered
from shared.model.job_report import JobReport
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows

UPDATE = "/api/v1/pilot/update_job"


async def update(pilot: httpx.AsyncClient, job_id: Any, status: str, **fields: Any) -> str:
    response = await pilot.post(UPDATE, json={"job_id": job_id, "job_status": status, **fields})
    assert response.status_code == 200, response.text
    answer = response.json()
    assert answer["success"] and answer["data"]["StatusCode"] == 0, answer
    return str(answer["data"]["command"])


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
        pilot, job_id, "finished", xml=orjson.dumps(outputs).decode(), maxPSS="123456.0", nEvents="100",
        cpuConsumptionTime="77", metaData='{"nEvents": 100}', pilotTiming="1|2|3|4|5|6", startTime=1.5e9,
    )  # fmt: skip
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
        await connection.execute("INSERT INTO jobs_archive SELECT * FROM jobs WHERE job_id = $1", job_id)
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


async def test_reports_that_cannot_be_understood_change_nothing(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    before = dict(await rows.row(job_id))
    for fields, code in (
        ({"job_id": job_id, "job_status": "exploded"}, 50),
        ({"job_id": job_id}, 50),
        ({"job_status": "running"}, 50),
        ({"job_id": "NULL", "job_status": "running"}, 50),
        ({"job_id": -1, "job_status": "running"}, 50),
        ({"job_id": 2**70, "job_status": "running"}, 50),
        ({"job_id": job_id, "job_status": "finished", "attempt_nr": "first"}, 50),
    ):
        answer = (await pilot.post(UPDATE, json=fields)).json()
        assert answer["success"] is False and answer["data"]["StatusCode"] == code, (fields, answer)
        assert answer["data"]["problems"][0]["field"]
    assert dict(await rows.row(job_id)) == before


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
        {"job_id": first, "job_status": "running"},
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


async def test_workers_and_the_last_pilot_of_a_queue_are_noted(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    worker = {"workerID": "12", "harvesterID": "H1", "site": "Q1", "status": "started"}
    assert (await pilot.post("/api/v1/pilot/update_worker_status", data=worker)).json()["data"] == {"StatusCode": 0}
    await pilot.post("/api/v1/pilot/update_worker_status", json={**worker, "status": "finished"})
    await pilot.post("/api/v1/pilot/update_worker_status", json={**worker, "status": "started"})  # late
    bad = (await pilot.post("/api/v1/pilot/update_worker_status", json={**worker, "site": "NOWHERE"})).json()
    assert bad["success"] is False
    await pilot.post("/api/v1/pilot/acquire_jobs", json={"site_name": "Q1"})
    async with rows.database.begin(reason="test") as work:
        await parts.activity.flush(work)
    async with rows.database.read() as connection:
        workers = await connection.fetch("SELECT worker_id, queue, status FROM workers")
        seen = await connection.fetch("SELECT queue FROM queue_activity WHERE last_pilot_at IS NOT NULL")
    assert [tuple(row) for row in workers] == [(12, "Q1", "finished")]
    assert [row["queue"] for row in seen] == ["Q1"]


async def test_a_worker_is_reported_by_whom_began_it_by_those_named_for_its_queue_and_by_production(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, authority: Authority
) -> None:
    worker = {"workerID": 12, "harvesterID": "H1", "site": "Q2"}

    async def tell(caller: httpx.AsyncClient, status: str, **fields: Any) -> bool:
        answer = await caller.post("/api/v1/pilot/update_worker_status", json={**worker, "status": status, **fields})
        assert answer.json()["data"]["StatusCode"] == (0 if answer.json()["success"] else 60)
        return bool(answer.json()["success"])

    async def status() -> list[tuple[Any, ...]]:
        async with rows.database.read() as connection:
            return [tuple(row) for row in await connection.fetch("SELECT queue, status FROM workers")]

    async with (
        client(parts, authority, "stranger", "pilot") as stranger,
        client(parts, authority, "pusher", "pilot") as pusher,
        client(parts, authority, "boss", "production") as boss,
    ):
        assert await tell(pilot, "started") and await tell(pilot, "started")
        assert not await tell(stranger, "finished") and not await tell(stranger, "started", site="Q1")
        assert not await tell(stranger, "finished", site="Q1") and await status() == [("Q2", "started")]
        assert await tell(pusher, "started") and await tell(boss, "started")
        assert await tell(pilot, "finished") and await status() == [("Q2", "finished")]
        assert await tell(boss, "started", workerID=13) and not await tell(pilot, "finished", workerID=13)


async def test_the_character_nul_in_a_log_does_not_cost_the_report(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    outputs = orjson.dumps({"out.1": {"guid": "a\x00b", "fsize": 5}}).decode()
    command = await update(
        pilot, job_id, "finished", xml=outputs, pilotLog="killed\x00by", metaData={"a\x00": ["\x00"]}, node="n\x00"
    )
    assert command == "NULL"
    async with rows.database.read() as connection:
        report = await connection.fetchval("SELECT report FROM job_reports WHERE job_id = $1", job_id)
    assert report["pilot_log"] == "killedby" and report["meta_data"] == {"a": [""]}
    assert report["outputs"]["out.1"]["guid"] == "ab"


async def test_a_file_of_an_impossible_size_has_none_so_that_no_sum_can_overflow(
    rows: Rows, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    assert await update(pilot, job_id, "finished", xml={"out.1": {"fsize": 2**63 - 1}}) == "NULL"
    report = await rows.report(job_id)
    assert report["outputs"] == {"out.1": {}} and report["lost_fields"] == {"fsize of out.1": str(2**63 - 1)}


@pytest.mark.parametrize(
    ("listed", "status", "missing"),
    [
        (None, "failed", "out.1, log.1"), ({}, "failed", "out.1, log.1"), ({"log.1": {"fsize": 1}}, "holding", "out.1"),
        ({"out.1": {"fsize": 1}}, "failed", "log.1"), ({"out.1": {}, "log.1": {}}, "holding", None),
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


async def test_a_failed_job_with_its_log_in_the_list_fails_once_the_log_is_registered(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await rows.output(job_id, "log.1", kind="log")
    assert await update(pilot, job_id, "failed", pilot_error_code=1305, xml={"log.1": {"fsize": 7}}) == "NULL"
    assert await rows.statuses([job_id]) == ["holding"]
    assert [event["job_ids"] for event in await rows.events("outputs.produced.v1")] == [[job_id]]
    async with rows.database.begin(reason="test") as work:
        await parts.handlers.on_outputs_registered(OutputsRegistered(job_ids=(job_id,)), work)
    row = await rows.row(job_id)
    assert (row["status"], row["error_source"], row["error_code"]) == ("failed", "payload", 1305)
    (event,) = await rows.events("jobs.failed.v1")
    assert [(one["from_status"], one["to_status"]) for one in event["moves"]] == [("holding", "failed")]


ODD = {
    "n_events": -1, "maxRSS": "n/a", "transExitCode": "SIGTERM", "coreCount": "-1", "cpuConsumptionTime": "nan",
    "max_pss": "lots", "metaData": "x" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("bulk", [False, True])
async def test_odd_values_cost_their_fields_and_never_the_final_report(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, bulk: bool
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    final = {"jobId": job_id, "state": "finished", "attemptNr": 1, "nInputFiles": 3, **ODD}
    if bulk:
        answer = (await pilot.post("/api/v1/pilot/update_jobs_bulk", json={"job_list": [final]})).json()
        assert answer["success"] and answer["data"][0]["data"] == {"StatusCode": 0, "command": "NULL"}
    else:
        answer = (await pilot.post(UPDATE, json=final)).json()
        assert answer["data"] == {"StatusCode": 0, "command": "NULL"}
    assert await rows.statuses([job_id]) == ["holding"]
    report = await rows.report(job_id)
    names = {"n_events", "max_rss", "trans_exit_code", "core_count", "cpu_consumption_time", "max_pss", "meta_data"}
    assert set(report["lost_fields"]) == names and report["lost_fields"]["max_rss"] == "n/a"
    assert report["n_input_files"] == 3 and not names & set(report) - {"meta_data"}
    counted = parts.reporting.metrics.lost_fields
    assert {name: counted.labels(name)._value.get() for name in names} == dict.fromkeys(names, 1)


def deep(n_levels: int) -> Any:
    value: Any = 1
    for _ in range(n_levels):
        value = {"a": value}
    return value


TOO_LARGE: dict[str, tuple[str, Any, str]] = {
    "a text of 5 MB": ("metaData", "x" * 5_000_000, "500001"),
    "an object of 5 MB": ("metaData", {"steps": ["abcdefgh"] * 455_000}, "50050"),
    "values": ("metaData", {"steps": [0] * 60_000}, "values in lists and objects; at most 25000 are read"),
    "nested": ("metaData", deep(200), "lists and objects nested 200 deep"),
    "a log": ("pilotLog", "\\" * 3_000_000, "60000"),
    "many outputs": ("xml", {f"file{number}": {} for number in range(300_000)}, "bytes; at most 983040 are read"),
}
FIELDS = {"metaData": "meta_data", "pilotLog": "pilot_log", "xml": "job_output_report"}


@pytest.mark.parametrize("how", ["json", "form", "bulk", "bulk in a text"])
@pytest.mark.parametrize("kind", TOO_LARGE)
async def test_a_field_that_is_too_large_or_too_deep_costs_itself_and_never_the_final_report(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, kind: str, how: str
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    name, value, said = TOO_LARGE[kind]
    final = {"jobId": job_id, "state": "finished", "attemptNr": 1, name: value, "nInputFiles": 3}
    if how == "json":
        answer = await pilot.post(UPDATE, json=final)
    elif how == "form":
        as_text = value if isinstance(value, str) else orjson.dumps(value).decode()
        answer = await pilot.post(UPDATE, data={**final, name: as_text})
    elif how == "bulk":
        answer = await pilot.post("/api/v1/pilot/update_jobs_bulk", json={"job_list": [final]})
    else:
        reports = orjson.dumps([final]).decode()
        answer = await pilot.post("/api/v1/pilot/update_jobs_bulk", data={"job_list": reports})
    assert answer.json()["success"], answer.text[:300]
    assert await rows.statuses([job_id]) == ["holding"]
    report = await rows.report(job_id)
    assert report["n_input_files"] == 3
    if how != "form" or len(as_text) > 1_000_000:
        assert parts.reporting.metrics.lost_fields.labels(FIELDS[name])._value.get() == 1
        assert said in report["lost_fields"][FIELDS[name]] or how == "form"


async def test_a_failed_job_tells_what_of_its_report_was_not_understood(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await update(pilot, job_id, "failed", pilotErrorCode="1305, 1307", pilotErrorDiag="payload failed")
    row = await rows.row(job_id)
    assert (row["status"], row["error_source"], row["error_code"]) == ("failed", "pilot", 0)
    assert row["error_dialog"] == "payload failed; pilot_error_code '1305, 1307' was not understood"


async def test_a_body_without_a_length_may_not_fill_the_memory(rows: Rows, pilot: httpx.AsyncClient) -> None:
    n_sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal n_sent
        while n_sent < 64:
            n_sent += 1
            yield b" " * 2**20

    answer = (await pilot.post(UPDATE, content=endless())).json()
    assert not answer["success"] and "bytes" in answer["message"]


@pytest.mark.parametrize("ids", ["\u00b2", "9" * 5000, "1,-2", str(2**63), "1.5"])
async def test_ids_that_cannot_be_are_refused(rows: Rows, pilot: httpx.AsyncClient, ids: str) -> None:
    answer = (await pilot.post("/api/v1/pilot/get_job_status", json={"job_ids": ids})).json()
    assert not answer["success"] and answer["data"]["StatusCode"] == 50


async def claimed_by(rows: Rows, job_id: int, subject: str) -> None:
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO job_claims (request_key, job_id, subject) VALUES ($1, $2, $3)",
                                 f"key-{job_id}", job_id, subject)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "role", "queue", "may"),
    [
        ("pilot-1", "pilot", "Q1", True), ("pilot-2", "pilot", "Q1", False), ("pusher", "pilot", "Q2", True),
        ("pusher", "pilot", "Q1", False), ("paul", "production", "Q1", True), ("olga", "operator", "Q1", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bulk", [False, True])
async def test_a_report_comes_from_who_acquired_the_job_whom_the_configuration_names_production_or_operators(
    rows: Rows, parts: Parts, authority: Authority, name: str, role: str, queue: str, may: bool, bulk: bool
) -> None:
    (job_id,) = await rows.jobs(1, status="running", queue=queue)
    await claimed_by(rows, job_id, "pilot-1")
    before = dict(await rows.row(job_id))
    report = {"job_id": job_id, "job_status": "failed"}
    async with client(parts, authority, name, role) as one:
        if bulk:
            url = "/api/v1/pilot/update_jobs_bulk"
            (answer,) = (await one.post(url, json={"job_list": [report]})).json()["data"]
        else:
            answer = (await one.post(UPDATE, json=report)).json()
    assert answer["success"] is may and answer["data"]["StatusCode"] == (0 if may else 60)
    assert (await rows.row(job_id))["status"] == ("failed" if may else "running")
    if not may:
        assert dict(await rows.row(job_id)) == before and answer["data"]["command"] == "tobekilled"
        assert answer["message"] == f"job {job_id} was acquired by pilot-1: {name} may not report for it"


async def test_the_subject_of_the_token_is_kept_with_the_claim(rows: Rows, pilot: httpx.AsyncClient) -> None:
    (job_id,) = await rows.jobs(1)
    data = (await pilot.post("/api/v1/pilot/acquire_jobs", json={"site_name": "Q1"})).json()["data"]
    assert data["jobs"][0]["PandaID"] == job_id
    async with rows.database.read() as connection:
        assert await connection.fetchval("SELECT subject FROM job_claims WHERE job_id = $1", job_id) == "pilot-1"
