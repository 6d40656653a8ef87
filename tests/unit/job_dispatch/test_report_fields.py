"""What is kept of a pilot's report: odd values cost their fields, and everything has a largest size."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.job_dispatch.api.body import REPORT, BadBody, parse_body
from services.job_dispatch.api.report_fields import LARGEST_META_DATA_BYTES, UpdateJob, read_report
from services.job_dispatch.api.reported_files import MOST_FILES
from services.job_dispatch.api.requests import BadRequest

FINAL = {"job_id": 1, "job_status": "finished", "attempt_nr": 1}


def stored(**fields: Any) -> dict[str, Any]:
    return read_report({**FINAL, **fields}).stored


@pytest.mark.parametrize(
    ("field", "value", "noted"),
    [
        ("nEvents", -1, "n_events"), ("nEvents", "12|3", "n_events"), ("maxRSS", "n/a", "max_rss"),
        ("transExitCode", "SIGTERM", "trans_exit_code"), ("pilotErrorCode", "1305, 1307", "pilot_error_code"),
        ("coreCount", -1, "core_count"), ("cpuConsumptionTime", float("inf"), "cpu_consumption_time"),
        ("totRBYTES", 10**40, "tot_rbytes"), ("metaData", "x" * 10**6, "meta_data"),
        ("metaData", "[" * 500 + "]" * 500, None), ("xml", "{broken", "job_output_report"),
        ("xml", "[]", "job_output_report"), ("xml", 5, "job_output_report"),
        ("jobMetrics", {"a": [[[0] * 9] * 9]}, None), ("node", ["a"], None), ("pilotLog", "x" * 10**6, None),
    ],
)  # fmt: skip
def test_an_odd_value_costs_its_field(field: str, value: Any, noted: str | None) -> None:
    report = read_report({**FINAL, "nInputFiles": 2, field: value})
    assert report.job_status == "finished" and report.stored["n_input_files"] == 2
    assert set(report.stored.get("lost_fields", {})) == ({noted} if noted else set())
    assert report.lost == ((noted,) if noted else ())
    assert noted is None or not report.stored.get(noted)


SOON, LONG_AGO = str(time.time() + 2 * 86_400), "1985-01-01 00:00:00"


@pytest.mark.parametrize(
    ("field", "noted"),
    [
        ("nEvents", "n_events"), ("nInputFiles", "n_input_files"), ("coreCount", "core_count"),
        ("meanCoreCount", "mean_core_count"), ("cpuConsumptionTime", "cpu_consumption_time"),
        ("cpuConversionFactor", "cpu_conversion_factor"),
        *((f"{most}{what}", f"{most}_{what.lower()}") for most in ("max", "avg")
          for what in ("RSS", "VMEM", "SWAP", "PSS")),
        *((f"{of}{what}", f"{of}_{what.lower()}") for of in ("tot", "rate")
          for what in ("RCHAR", "WCHAR", "RBYTES", "WBYTES")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [-1, "-1", -(2**62), 2**62, "1e18", float("nan"), 10**400, "9" * 5000])
def test_a_negative_or_absurd_measurement_costs_its_field_and_is_counted(field: str, noted: str, value: Any) -> None:
    for state in ("finished", "running"):
        report = read_report({**FINAL, "job_status": state, "pilotErrorCode": 7, field: value})
        assert report.lost == (noted,) and noted not in report.stored and noted not in report.progress
    assert read_report({**FINAL, field: value}).stored["lost_fields"].keys() == {noted}
    assert stored(**{field: 1})[noted] == 1 and stored(**{field: 0})[noted] == 0


@pytest.mark.parametrize("field", ["startTime", "endTime"])
@pytest.mark.parametrize(
    "value",
    [SOON, LONG_AGO, "-1", "1e400", "nan", "yesterday", "9999-12-31", {"a": 1}],
    ids=["soon", "long ago", "negative", "infinite", "nan", "word", "last year of all", "object"],
)
def test_a_time_that_is_none_or_cannot_be_yet_costs_its_field(field: str, value: Any) -> None:
    report = read_report({**FINAL, field: value})
    assert len(report.lost) == 1 and not {"start_time", "end_time"} & report.stored.keys()
    for good in (1.5e9, "1500000000.25", "2026-01-02 03:04:05", "2026-01-02T03:04:05Z"):
        assert list(stored(**{field: good}).values()).count(str(good)) == 1


def test_of_the_metrics_each_has_its_own_bounds() -> None:
    sent = "nEvents=-5 nEventsW=7 workDirSize=1e300 leak=-0.25 chi2=-1 actualCoreCount=8 hs06=nan x=-1 y dbTime="
    report = read_report({**FINAL, "jobMetrics": sent})
    assert report.stored["job_metrics"] == "nEventsW=7 leak=-0.25 actualCoreCount=8 x=-1 y dbTime="
    assert report.lost == ("job_metrics",) * 4
    assert report.stored["lost_fields"] == {
        "job_metrics of nEvents": "-5", "job_metrics of workDirSize": "1e300", "job_metrics of chi2": "-1",
        "job_metrics of hs06": "nan",
    }  # fmt: skip
    assert stored(jobMetrics="nEvents=5  leak=-1")["job_metrics"] == "nEvents=5  leak=-1"
    assert "job_metrics" not in stored(jobMetrics="nEvents=-5")


def test_times_of_the_phases_of_a_job_are_not_negative() -> None:
    assert stored(pilotTiming="1|2|300|4|5|6")["pilot_timing"] == "1|2|300|4|5|6"
    assert read_report({**FINAL, "pilotTiming": "1|2|-300|4"}).lost == ("pilot_timing",)


def test_codes_may_be_negative_and_are_no_larger_than_codes_are() -> None:
    assert stored(exeErrorCode=-9, transExitCode=65)["exe_error_code"] == -9
    assert read_report({**FINAL, "exeErrorCode": 2**40, "pilotErrorCode": -(2**40)}).lost == (
        "exe_error_code", "pilot_error_code")  # fmt: skip


MD5 = "d41d8cd98f00b204e9800998ecf8427e"
SIZED = {"fsize": 1}


@pytest.mark.parametrize(
    ("entry", "kept", "lost"),
    [
        ({"fsize": "5", "adler32": "0A1b", "guid": "g"}, {"fsize": 5, "adler32": "0A1b", "guid": "g"}, ()),
        ({"adler32": MD5}, {"md5sum": MD5}, ()), ({"md5sum": MD5}, {"md5sum": MD5}, ()),
        ({"fsize": 0}, {"fsize": 0}, ()), ({"guid": "NULL", "unknown": 1}, {}, ()),
        ({"surl": "s" * 5000}, {}, ("surl",)), ({"guid": "g" * 65}, {}, ("guid",)),
        ({"endpoint": ["D"]}, {}, ("endpoint",)),
    ],
)  # fmt: skip
def test_an_odd_place_or_guid_of_a_file_costs_that_value(
    entry: dict[str, Any], kept: dict[str, Any], lost: Any
) -> None:
    report = read_report({**FINAL, "job_output_report": orjson.dumps({"f": SIZED | entry}).decode()})
    assert report.stored["outputs"] == {"f": SIZED | kept} and report.lost == lost
    assert set(report.stored.get("lost_fields", {})) == {f"{name} of f" for name in lost}
    assert "unusable_outputs" not in report.stored


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"fsize": -1}, "fsize -1"), ({"fsize": 2**51}, f"fsize {2**51}"), ({"fsize": "big"}, "fsize big"),
        ({"fsize": True}, "fsize True"), ({"adler32": "0a1b"}, "no fsize"), ({}, "no fsize"),
        (SIZED | {"adler32": 7}, "adler32 7"), (SIZED | {"adler32": "zz"}, "adler32 zz"),
        (SIZED | {"adler32": "123456789"}, "adler32 123456789"), (SIZED | {"md5sum": "odd"}, "md5sum odd"),
    ],
)  # fmt: skip
def test_a_file_with_an_odd_size_or_checksum_is_told_apart_from_those_that_can_be_registered(
    entry: dict[str, Any], why: str
) -> None:
    report = read_report({**FINAL, "job_output_report": {"f": entry, "g": SIZED}})
    assert report.stored["outputs"] == {"g": SIZED} and report.stored["unusable_outputs"] == {"f": why}
    assert report.lost == (("fsize",) if "fsize" in why else (why.split(maxsplit=1)[0],))


def test_what_is_not_a_file_is_not_listed() -> None:
    outputs = {"": {}, "a" * 257: {}, "b": 5, "c": None, "d": SIZED}
    report = read_report({**FINAL, "xml": outputs})
    assert report.stored["outputs"] == {"d": SIZED} and report.lost == ("job_output_report",) * 3


@pytest.mark.parametrize("value", [None, "", " ", "NULL", "None", "null", {}, "{}", {"f": None}, {"f": "None"}])
def test_no_list_is_an_empty_one_and_nothing_is_noted(value: Any) -> None:
    report = read_report({**FINAL, "job_output_report": value})
    assert report.stored["outputs"] == {} and report.lost == () and "lost_fields" not in report.stored


@pytest.mark.parametrize("text", ['{"broken": {"guid": "', "no JSON"])
def test_a_list_that_cannot_be_read_is_noted_as_it_was_sent(text: str) -> None:
    assert stored(job_output_report=text)["lost_fields"] == {"job_output_report": text}


@pytest.mark.parametrize("as_text", [True, False])
def test_a_list_of_too_many_files_is_not_read(as_text: bool) -> None:
    files = {f"f{number}": {"fsize": 1} for number in range(MOST_FILES + 1)}
    report = read_report({**FINAL, "xml": orjson.dumps(files).decode() if as_text else files})
    assert report.stored["outputs"] == {} and report.lost == ("job_output_report",)
    assert str(MOST_FILES) in report.stored["lost_fields"]["job_output_report"]
    files.popitem()
    assert len(stored(xml=orjson.dumps(files).decode())["outputs"]) == MOST_FILES


def test_what_is_stored_of_the_largest_report_is_bounded() -> None:
    long = "x" * 10**6
    fields = {name: long for name in UpdateJob.model_fields if name not in FINAL}
    entry = {"guid": "g" * 64, "surl": "s" * 100, "endpoint": "e" * 200, "adler32": "z", "fsize": -1}
    files = {f"{number:0256}": entry for number in range(MOST_FILES)}
    found = read_report({**FINAL, **fields, "job_output_report": files, "meta_data": {"k": "v" * 10**6}}).stored
    assert len(orjson.dumps({**found, "unusable_outputs": {}})) < 50_000
    assert len(orjson.dumps(found["unusable_outputs"])) < 2_000_000 and len(found["lost_fields"]) <= 20


def test_the_payload_s_report_is_kept_up_to_its_largest_size() -> None:
    fits = orjson.dumps({"k": "v" * (LARGEST_META_DATA_BYTES - 8)}).decode()
    assert stored(meta_data=fits)["meta_data"]["k"] and stored(meta_data=fits + " ")["meta_data"] == {}
    assert stored(meta_data="not json")["meta_data"] == {"text": "not json"}
    assert stored(meta_data="[1]")["meta_data"] == {"value": [1]}


@pytest.mark.parametrize(
    "fields",
    [{"job_id": "x"}, {"job_status": "exploded"}, {"attempt_nr": "first"}, {"job_id": None}, {"job_id": 2**70}],
)
def test_an_identity_that_cannot_be_refuses_with_its_field(fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as caught:
        read_report({**FINAL, "n_events": -1, **fields})
    assert caught.value.code == 50 and [one.field for one in caught.value.problems] == list(fields)


FIELDS = [name for name in UpdateJob.model_fields if name not in FINAL]
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=9)
VALUES = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=3), PLAIN, max_size=2)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(FIELDS), VALUES)
def test_no_value_of_any_other_field_refuses_a_final_report(field: str, value: Any) -> None:
    report = read_report({**FINAL, field: value})
    assert (report.job_id, report.job_status, report.attempt_number) == (1, "finished", 1)
    assert orjson.loads(orjson.dumps(report.stored))["job_status"] == "finished"
    assert (report.lost == ()) == ("lost_fields" not in report.stored)


ODD_TEXTS = [
    (b'"cpuConsumptionTime": NaN', "cpu_consumption_time"),
    (b'"cpuConversionFactor": -Infinity', "cpu_conversion_factor"),
    (b'"meanCoreCount": 1e400', "mean_core_count"),
    (b'"pilotErrorDiag": "broken \\udc80 name"', None),
    (b'"pilotErrorDiag": "\xff\xfe"', None), (b'"pilotLog": "two\nlines"', None),
    (b'"metaData": {"rate": NaN, "name": "\\ud800"}', None),
    (b'"metaData": "{\\"rate\\": NaN}"', None),
]  # fmt: skip


@pytest.mark.parametrize(("odd", "noted"), ODD_TEXTS)
async def test_what_only_a_pilot_s_own_writer_takes_for_json_does_not_refuse_its_final_report(
    odd: bytes, noted: str | None
) -> None:
    xml = b'"xml": "{\\"f\\": {\\"fsize\\": 5, \\"more\\": NaN}}"'
    body = b'{"jobId": 1, "state": "finished", "attemptNr": 1, ' + xml + b", " + odd + b"}"
    report = read_report(await parse_body(body, "application/json", REPORT))
    assert (report.job_id, report.job_status) == (1, "finished") and report.stored["outputs"] == {"f": {"fsize": 5}}
    assert report.lost == ((noted,) if noted else ())
    assert orjson.dumps(report.stored)


@pytest.mark.parametrize("body", [b'{"jobId": 1,', b"{1: 2}", b"\xff", b'{"a": "\xff" b}', b'{"a": NaN' + b" " * 2**20])
async def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadBody):
        await parse_body(body, "application/json", REPORT)


@pytest.mark.parametrize("n_bytes", [1000, 600_000])
@pytest.mark.parametrize(("odd", "noted"), ODD_TEXTS)
async def test_odd_values_cost_the_same_in_a_small_and_in_a_large_report(
    odd: bytes, noted: str | None, n_bytes: int
) -> None:
    files = b",".join(b'"%060d": {"fsize": 5}' % n for n in range(n_bytes // 80))
    large = b'"unknown": {"part": {' + files + b'}, "also \xff": [' + b"NaN," * (n_bytes // 100) + b"1]}"
    body = b'{"jobId": 1, "state": "finished", "attemptNr": 1, ' + odd + b", " + large + b', "nEvents": 7}'
    report = read_report(await parse_body(body, "application/json", REPORT))
    assert report.lost == ((noted,) if noted else ()) and report.stored["n_events"] == 7


async def test_a_text_of_a_large_report_with_bytes_that_are_no_utf_8_is_kept_readable() -> None:
    body = b'{"jobId": 1, "state": "finished", "attemptNr": 1, "pilotErrorDiag": "' + b"\xff" * 700_000 + b'"}'
    report = read_report(await parse_body(body, "application/json", REPORT))
    assert report.stored["pilot_error_diag"] == "\ufffd" * 1024
