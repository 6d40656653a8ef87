"""Reports with values that are odd, too large or impossible, on a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from services.job_dispatch.app import Parts
from tests.handlers.job_dispatch.calls import UPDATE, update
from tests.handlers.job_dispatch.grid_of_jobs import Rows


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


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"fsize": -1, "adler32": "0a"}, "fsize -1"), ({"fsize": 2**63 - 1}, f"fsize {2**63 - 1}"),
        ({"adler32": "0a"}, "no fsize"), ({"fsize": 5, "adler32": "n/a"}, "adler32 n/a"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("may_be_absent", [False, True])
async def test_an_output_whose_size_or_checksum_cannot_be_is_made_again(
    rows: Rows, pilot: httpx.AsyncClient, entry: dict[str, Any], why: str, may_be_absent: bool
) -> None:
    (job_id,) = await rows.jobs(1, status="running")
    await rows.output(job_id, "out.1", allowNoOutput=may_be_absent)
    await rows.output(job_id, "log.1", kind="log")
    files = {"out.1": entry, "log.1": {"fsize": 7, "adler32": "0b"}}
    assert await update(pilot, job_id, "finished", xml=files) == "NULL"
    row = await rows.row(job_id)
    assert (row["status"], row["error_source"], row["error_code"]) == ("holding", "pilot", 9002)
    assert row["error_dialog"] == f"size or checksum that cannot be in the pilot's list: out.1 ({why})"
    assert set((await rows.report(job_id))["outputs"]) == {"log.1"}


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
