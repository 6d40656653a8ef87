"""A job in the words of PanDA's client."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.model.job_of_client import short_description, whole_description

SPEC = {
    "PandaID": 7, "jobPars": "-p x", "transformation": "http://s/runGen", "inFiles": "a,b", "realDatasetsIn": "in,in",
    "GUID": "g1,g2", "fsize": "1,2", "checksum": "ad:1,ad:2", "scopeIn": "s,s", "ddmEndPointIn": "D,D",
    "outFiles": "o.txt,o.log.tgz", "realDatasets": "out,log", "destinationDblock": "out,log",
    "ddmEndPointOut": "D,E", "scopeOut": "user.ada", "scopeLog": "user.ada", "logFile": "o.log.tgz",
}  # fmt: skip
REPORT = {
    "pilot_error_code": 1305, "cpu_consumption_time": 12, "max_pss": 900, "meta_data": {"exitCode": 0},
    "outputs": {"o.txt": {"fsize": 5, "adler32": "0badcafe", "guid": "g3"}},
}  # fmt: skip
JOB = {
    "job_id": 7, "task_id": 3, "status": "failed", "queue": "CERN", "vo": "atlas", "user_name": "ada", "spec": SPEC,
    "start_time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "report": REPORT,
}  # fmt: skip


def test_names_are_those_of_the_client_and_times_are_text() -> None:
    found = whole_description(JOB)
    known = [found[name] for name in ("PandaID", "jediTaskID", "jobStatus", "computingSite")]
    assert tuple(known) == (
        7,
        3,
        "failed",
        "CERN",
    )
    assert (found["jobParameters"], found["VO"], found["prodUserName"]) == ("-p x", "atlas", "ada")
    assert found["startTime"] == "2026-01-02 03:04:05"
    assert (found["pilotErrorCode"], found["cpuConsumptionTime"], found["maxPSS"]) == (1305, 12, 900)
    assert found["metadata"] == {"exitCode": 0}


def test_files_are_told_one_by_one_with_what_was_reported_of_them() -> None:
    inputs, outputs = whole_description(JOB)["Files"][:2], whole_description(JOB)["Files"][2:]
    assert [(one["type"], one["lfn"], one["fsize"], one["scope"]) for one in inputs] == [
        ("input", "a", "1", "s"), ("input", "b", "2", "s"),
    ]  # fmt: skip
    assert [(one["type"], one["lfn"], one["fsize"], one["checksum"]) for one in outputs] == [
        ("output", "o.txt", 5, "ad:0badcafe"), ("log", "o.log.tgz", None, None),
    ]  # fmt: skip
    assert [one["status"] for one in outputs] == ["failed", "failed"]


def test_a_job_of_which_nothing_more_is_kept_is_told_without_files() -> None:
    gone = {"job_id": 7, "task_id": 3, "status": "finished", "vo": None, "spec": None, "report": None}
    assert whole_description(gone)["Files"] == [] and short_description(gone)["jobStatus"] == "finished"


def test_lists_that_are_not_aligned_cost_themselves_only() -> None:
    crooked = {**JOB, "spec": {**SPEC, "fsize": "1"}, "report": None}
    assert [one.get("fsize") for one in whole_description(crooked)["Files"]] == [None] * 4
