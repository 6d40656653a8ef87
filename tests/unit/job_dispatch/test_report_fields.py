"""What is kept of a pilot's report: odd values cost their fields, and everything has a largest size."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.job_dispatch.api.body import REPORT, BadBody, parse_body
from services.job_dispatch.api.report_fields import LARGEST_META_DATA_BYTES, MOST_FILES, UpdateJob, read_report
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


@pytest.mark.parametrize(
    ("entry", "kept", "lost"),
    [
        ({"fsize": "5", "adler32": "0A1b", "guid": "g"}, {"fsize": 5, "adler32": "0A1b", "guid": "g"}, ()),
        ({"fsize": -1}, {}, ("fsize",)), ({"fsize": "big"}, {}, ("fsize",)), ({"fsize": True}, {}, ("fsize",)),
        ({"adler32": "d41d8cd98f00b204e9800998ecf8427e"}, {}, ("adler32",)), ({"adler32": 7}, {}, ("adler32",)),
        ({"surl": "s" * 5000, "fsize": 1}, {"fsize": 1}, ("surl",)), ({"guid": "g" * 65}, {}, ("guid",)),
        ({"endpoint": ["D"]}, {}, ("endpoint",)), ({"guid": "NULL", "unknown": 1}, {}, ()),
    ],
)  # fmt: skip
def test_an_odd_value_of_a_file_costs_that_value(entry: dict[str, Any], kept: dict[str, Any], lost: Any) -> None:
    report = read_report({**FINAL, "job_output_report": orjson.dumps({"f": entry}).decode()})
    assert report.stored["outputs"] == {"f": kept} and report.lost == lost
    assert set(report.stored.get("lost_fields", {})) == {f"{name} of f" for name in lost}


def test_what_is_not_a_file_is_not_listed() -> None:
    outputs = {"": {}, "a" * 257: {}, "b": 5, "c": None, "d": {}}
    report = read_report({**FINAL, "xml": outputs})
    assert report.stored["outputs"] == {"d": {}} and report.lost == ("job_output_report",) * 3


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
    assert len(orjson.dumps({**found, "outputs": {}})) < 50_000
    assert len(orjson.dumps(found["outputs"])) < 2_000_000 and len(found["lost_fields"]) <= 20


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
