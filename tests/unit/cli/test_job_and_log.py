"""One job as people see it, and its log as it is fetched."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from services.cli.failures import WrongUsage
from services.cli.job_log import log_of

LOG = "user.ada.7._000001.log.tgz"
#: as a dispatcher answers for a job that the published pilot ended, without what is not read
DESCRIBED: dict[str, Any] = {
    "job_id": 12, "task_id": 7, "status": "failed", "queue": "CERN", "resource_type": "SCORE", "job_type": "normal",
    "attempt_number": 2, "current_priority": 999, "core_count": 1, "gshare": "User Analysis", "owner": "ada",
    "vo": "atlas", "worker": "node1", "error_source": "pilot", "error_code": 1305,
    "error_dialog": "payload exited with 65",
    "state_change_time": "2026-01-01T00:00:00+00:00", "heartbeat_at": None, "command": None,
    "spec": {
        "transformation": "http://x/runGen-00-00-02", "jobPars": "-j '' -p 'run.sh' -i \"['in.1']\"",
        "inFiles": "in.1,in.2", "fsize": "10,20", "prodDBlocks": "data.1,data.1", "ddmEndPointIn": "CERN_DATADISK",
        "outFiles": f"out.1,{LOG}", "destinationDblock": "d.out,d.log", "ddmEndPointOut": "CERN_SCRATCH,CERN_SCRATCH",
        "logFile": LOG, "scopeLog": "user.ada",
    },
    "report": {"outputs": {LOG: {"fsize": 99, "adler32": "ad01", "endpoint": "CERN_SCRATCH"}}, "node": "node1",
               "pilot_timing": "1|2|30|4|5"},
    "reported_at": "2026-01-01T00:00:00+00:00",
}  # fmt: skip
HISTORY = [{"at": "2026-01-01T00:00:00+00:00", "from_status": "running", "to_status": "failed", "actor": "job-dispatch",
            "reason": "reported by the pilot"}]  # fmt: skip
#: of "user.ada:" and the name, as Rucio and the published pilot make paths (MD5, two folders of two digits)
BELOW = f"user/ada/55/bb/{LOG}"


def endpoint(url: str, path: str) -> dict[str, Any]:
    return {"is_deterministic": True, "arprotocols": {"read_wan": [{"endpoint": url, "path": path}]}}


@pytest.fixture
def described(services):
    services.says("job/get_description_incl_archive", [DESCRIBED])
    services.says("explain/job", {"history": HISTORY})
    services.answers["/cache/ddmendpoints.json"] = (200, {"CERN_SCRATCH": endpoint("root://eos.example", "/eos/")})
    services.answers["job/get_stdout"] = (404, {"success": False, "message": "nothing", "data": None})
    return services


def put_log(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (("tarball_PandaJob_12/pilotlog.txt", "one\n\x1b[2Jtwo\n"), ("payload.stdout", "out")):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def test_a_job_is_shown_with_its_command_line_files_states_error_and_log(described, orrery) -> None:
    out = orrery("job", "12").out
    assert out.startswith("job 12 of task 7: failed\n")
    for said in (
        "pilot 1305 payload exited with 65", "-j '' -p 'run.sh' -i \"['in.1']\"", "running -> failed",
        "get job 1 s, stage in 2 s, payload 30 s, stage out 4 s, setup 5 s",
        f"log: user.ada:{LOG}, at CERN_SCRATCH", f"root://eos.example/eos/{BELOW}", "`orrery logs 12` fetches it",
    ):  # fmt: skip
        assert said in out, said
    rows = [line.split() for line in out.splitlines()]
    assert ["in.2", "20", "data.1", "CERN_DATADISK"] in rows and [LOG, "99", "ad01", "d.log", "CERN_SCRATCH"] in rows
    told = json.loads(orrery("job", "12", "--json").out)
    assert told["log"]["urls"] == [f"root://eos.example/eos/{BELOW}"] and told["history"] == HISTORY


def test_of_a_job_of_others_the_state_alone_is_shown(services, orrery) -> None:
    withheld = {"job_id": 12, "task_id": 7, "status": "running", "spec": None, "report": None, "withheld": "told to x"}
    services.says("job/get_description_incl_archive", [withheld])
    outcome = orrery("job", "12")
    assert outcome.code == 0 and "job 12 of task 7: running" in outcome.out and "told to x" in outcome.out
    assert services.asked("explain/job") == []
    assert orrery("logs", "12").code == 1


def test_a_log_is_fetched_listed_and_read_without_a_storage_the_second_time(described, orrery, tmp_path) -> None:
    put_log(tmp_path / "disk" / BELOW)
    storages = {"CERN_SCRATCH": endpoint("file://localhost", f"{tmp_path}/disk/")}
    described.answers["/cache/ddmendpoints.json"] = (200, storages)
    to = ("--to", str(tmp_path))
    outcome = orrery("logs", "12", *to)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[0] == str(tmp_path / LOG) and "tarball_PandaJob_12/pilotlog.txt" in outcome.out
    (tmp_path / "disk" / BELOW).unlink()
    assert orrery("logs", "12", "pilotlog.txt", *to).out == "one\n\\x1b[2Jtwo\n"
    wrong = orrery("logs", "12", "nothing.txt", *to)
    assert wrong.code == WrongUsage.exit_code and "payload.stdout" in wrong.err


def test_a_log_that_cannot_be_fetched_is_told_with_its_place_and_who_fetches_it(described, orrery, tmp_path) -> None:
    outcome = orrery("logs", "12", "--to", str(tmp_path))
    assert outcome.code == 1 and list(tmp_path.glob("*.tgz")) == []
    assert f"root://eos.example/eos/{BELOW}: xrdcp fetches it" in outcome.err
    assert f"rucio download user.ada:{LOG}" in outcome.err
    described.says("job/get_stdout", {"stdout": "the end", "reported_at": "2026-01-01T00:00:00+00:00"})
    assert orrery("logs", "12", "--to", str(tmp_path)).out.startswith("the end\n")


@pytest.mark.parametrize("surl", ["file:///etc/passwd", "/etc/passwd", "file://localhost/disk/../etc/passwd"])
def test_no_pilot_names_a_file_of_the_readers_machine(surl: str) -> None:
    report = {"outputs": {LOG: {"surl": surl, "endpoint": "D"}}}
    found = log_of({**DESCRIBED, "report": report}, {"D": endpoint("file://localhost", "/disk/")})
    assert found is not None and surl not in found.urls


def test_the_address_that_the_pilot_reported_is_asked_first() -> None:
    report = {"outputs": {LOG: {"surl": "davs://dav.example/x/log", "endpoint": "D"}}}
    found = log_of({**DESCRIBED, "report": report}, {"D": endpoint("root://d", "/p")})
    assert found is not None and found.urls == ["davs://dav.example/x/log", f"root://d/p/{BELOW}"]
