"""The calls of the benchmarks' pilots are what the dispatcher reads of published pilots."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from services.job_dispatch.api.acquire_fields import read_acquire
from services.job_dispatch.api.body import ACQUIRE, REPORT, parse_body
from services.job_dispatch.api.report_fields import read_report
from services.job_dispatch.api.reported_files import Lost, read_outputs
from services.job_dispatch.policy.reports import Report
from tests.performance.field_calls import Call, Job, Kind

SPEC = {
    "PandaID": 71, "attemptNr": 2, "inFiles": "a.root", "outFiles": "b._1.root,b.log.tgz", "logFile": "b.log.tgz",
    "logGUID": "526b8843-a631-4fab-aa5f-ad65dceccfef", "ddmEndPointOut": "STORE-A,STORE-B",
}  # fmt: skip
KINDS = [6, 7]  # 3.7.0.36 and 3.11.5.1


async def fields_of(request: bytes, limits: Any = REPORT) -> dict[str, Any]:
    head, _, body = request.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert int(headers["Content-Length"]) == len(body)
    assert (body[:2] == b"\x1f\x8b") == ("Accept" not in headers) == ("json" in headers["Content-Type"])
    text = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    return await parse_body(text, headers["Content-Type"], limits)


async def report_of(call: Call, *more: bytes) -> Report:
    report = read_report(await fields_of(call.filled(b"71", b"QUEUE", b"2", *more)))
    assert report.lost == () and (report.job_id, report.attempt_number) == (71, 2)
    return report


@pytest.mark.parametrize("number", KINDS)
async def test_getjob_offers_what_makes_the_kind_differ(number: int) -> None:
    kind = Kind(number, "127.0.0.1", "token")
    request = kind.get_job.filled(b"QUEUE", b"QUEUE", b"user", b"12")
    assert request.startswith(b"POST /server/panda/getJob HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer token")
    offer = read_acquire(await fields_of(request, ACQUIRE), "pilots").offer
    assert (offer.queue, offer.worker, offer.kind.prod_source_label) == ("QUEUE", "factory-1:12", "user")
    assert (offer.kind.memory_mb, offer.kind.disk_mb) == (16_000 + 97 * number, (20_000 + 211 * number) // 100 * 100)


@pytest.mark.parametrize("number", KINDS)
async def test_reports_are_read_whole_with_their_metrics(number: int) -> None:
    kind = Kind(number, "127.0.0.1", "token")
    assert [(await report_of(one)).job_status for one in (kind.starting, kind.running)] == ["starting", "running"]
    heartbeat = await report_of(kind.heartbeat)
    assert heartbeat.progress["max_pss"] == 900_000 + 1_000 * number and heartbeat.progress["n_events"] == 10
    assert heartbeat.progress["job_metrics"].split()[-1] == "readbyterate=1.50"


@pytest.mark.parametrize("number", KINDS)
async def test_the_final_report_lists_the_files_that_the_job_was_to_write(number: int) -> None:
    kind, job = Kind(number, "127.0.0.1", "token"), Job.of(SPEC)
    assert job.has_input and (job.job_id, job.attempt) == (b"71", b"2")
    outputs = kind.outputs(job)
    fields = await fields_of(kind.final.filled(b"71", b"QUEUE", b"2", outputs))
    report = await report_of(kind.final, outputs)
    assert report.job_status == "finished" and report.stored["cpu_consumption_time"] == 3_000 + number
    files, unusable = read_outputs(fields["xml"], Lost())
    assert unusable == {} and list(files) == ["b._1.root", "b.log.tgz"]
    log = files["b.log.tgz"]
    assert log["guid"] == SPEC["logGUID"] and log["fsize"] == 1_000_071 and len(log["adler32"]) == 8
    assert log.get("endpoint") == ("STORE-B" if number % 2 else None)
