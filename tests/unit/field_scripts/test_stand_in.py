"""The stand-in for the field's scripts writes, of the field's own command lines, what the field expects of its jobs."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.cli.simulated_pilots.command_line import named_files
from tests.field_scripts import stand_in

CORPUS = Path(__file__).parents[2] / "data" / "conformance" / "jobs_visible.json.gz"
SCRIPTS = {"runGen": 120, "runAthena": 60, "runMerge": 5, "buildGen": 3, "buildJob": 40}
#: options that the client passes on and the scripts do not know: they end there
UNKNOWN = ("--allowNoOutput", "--overwriteQueuedata")


def jobs(script: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Jobs of the corpus that a script runs, with the name of their case."""
    for case in json.loads(gzip.decompress(CORPUS.read_bytes()))["cases"]:
        for job in (*(case["out"] or {}).get("jobs", ()), *(case["out"] or {}).get("merge_jobs", ())):
            if stand_in.script_of(job["transformation"]) == script:
                yield case["in"]["name"], job


def read_by(job: dict[str, Any]) -> list[str]:
    return [lfn for group in job["inputs"] for lfn in group["lfns"]]


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_writes_what_the_command_lines_of_the_field_name(script: str, tmp_path: Path) -> None:
    n_jobs = 0
    for number, (name, job) in enumerate(jobs(script)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for lfn in read_by(job):
            (folder / lfn.rpartition(":")[2]).write_text(f"{lfn}\n")
        before = {one.name for one in folder.iterdir()}
        code = stand_in.run(script, shlex.split(job["job_parameters"]), folder)
        is_known = not any(one in job["job_parameters"] for one in UNKNOWN)
        assert code == (0 if is_known else stand_in.NOT_UNDERSTOOD), (name, job["job_parameters"])
        if code != 0:
            continue
        written = {one.name for one in folder.iterdir()} - before
        expected = {lfn for kind, lfn in outputs_of(job) if kind == "output"}
        logs = {lfn for kind, lfn in outputs_of(job) if kind == "log"}
        by_expression = {one for one in expected if one.startswith("regex|")}
        found = {one for one in written if any(re.search(some.removeprefix("regex|"), one) for some in by_expression)}
        assert len(found) == 3 * len(by_expression), name
        assert expected - by_expression <= written - found <= expected | logs, name
        assert written - found <= named_files({"jobPars": job["job_parameters"]}), name
        n_jobs += 1
    assert n_jobs >= SCRIPTS[script]


def outputs_of(job: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["type"], lfn) for one in job["outputs"] for lfn in one.get("lfns") or [one["lfn"]]]


def test_a_merge_of_files_that_are_not_there_fails_and_an_unknown_option_too(tmp_path: Path) -> None:
    assert stand_in.run("runMerge", ["a,b:c"], tmp_path) == stand_in.NO_INPUT and not list(tmp_path.iterdir())
    assert stand_in.run("runGen", ["--nonsense"], tmp_path) == stand_in.NOT_UNDERSTOOD
    for name in "ab":
        (tmp_path / name).write_text(name)
    assert stand_in.run("runMerge", ["-r", ".", "a,b:c"], tmp_path) == 0 and (tmp_path / "c").read_text() == "ab"
    (tmp_path / "log").write_bytes(b"\x1f\x8b")
    assert stand_in.run("runMerge", ["log:merged"], tmp_path) == 0
    assert (tmp_path / "merged").read_bytes() == b"\x1f\x8b", "a log is an archive"


def test_a_pilot_runs_it_under_the_name_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "runGen-00-00-02"
    script.write_text(Path(stand_in.__file__).read_text())
    line = [sys.executable, str(script), "-o", "{'out.root': 'user.a.1.out.root'}", "-p", "true"]
    subprocess.run(line, cwd=tmp_path, check=True)
    assert (tmp_path / "user.a.1.out.root").exists()
