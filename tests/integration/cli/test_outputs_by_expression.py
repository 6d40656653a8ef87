"""Outputs by expression from the submission to the dataset, with simulated pilots and the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.cli.demo.examples import renamed
from services.cli.simulated_pilots.profile import Fault
from tests.integration.cli.conftest import ROOT, Orrery
from tests.integration.cli.test_live_system import wait_for

pytestmark = [pytest.mark.usefixtures("world", "pilots"), pytest.mark.timeout(300)]
GENERATION = ROOT / "deploy" / "examples" / "tasks" / "2_generation.json"
ENDS = ("done", "finished", "failed", "broken", "exhausted", "aborted")


@pytest.fixture(scope="module")
def pilots(world: None, one_process: dict[str, str]) -> Iterator[None]:
    """Simulated ones, without failures of their own."""
    command = [sys.executable, "-m", "services.cli", "pilots", "--count", "20", "--json"]
    command += [f"--failure={kind}=0" for kind in Fault]
    process = subprocess.Popen(command, env=one_process, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield
    process.terminate()
    process.wait(30)


def task(name: str, expression: str, **of_output: Any) -> dict[str, Any]:
    """Two jobs that write files by an expression, and each one tries once."""
    given = renamed(json.loads(GENERATION.read_text()), name)
    [output] = [one for one in given["jobParameters"] if one.get("param_type") == "output"]
    output |= {"value": expression, "hidden": True, **of_output}
    return given | {"nEvents": 2000, "skipScout": True, "maxAttempt": 1}


def ended(orrery: Orrery, directory: Path, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The task at its end, and the name of its dataset for what matches."""
    path = directory / "task.json"
    path.write_text(json.dumps(given))
    outcome = orrery("submit", str(path), "--json")
    assert outcome.code == 0, outcome.err
    details = wait_for(orrery, int(outcome.json()[0]["task_id"]), *ENDS)
    [dataset] = [one["dataset"] for one in given["jobParameters"] if one.get("param_type") == "output"]
    return details, dataset


def errors_of(orrery: Orrery, task_id: int) -> list[tuple[str, int, str]]:
    jobs = orrery("jobs", "--task", str(task_id), "--json").json()
    told = [orrery("job", str(one["job_id"]), "--json").json() for one in jobs]
    return sorted((one["error_source"], one["error_code"], one["error_dialog"]) for one in told if one["error_code"])


def test_what_two_jobs_wrote_is_in_the_dataset_of_the_expression_and_breaks_no_promise(
    orrery: Orrery, tmp_path: Path
) -> None:
    details, dataset = ended(orrery, tmp_path, task("each", r"regex|^EVNT\..*\.pool\.root$"))
    assert details["status"] == "done"
    shown = orrery("catalogue", "show", dataset, "--files", "--json").json()
    jobs = [one["job_id"] for one in orrery("jobs", "--task", str(details["task_id"]), "--json").json()]
    assert len(jobs) == 2
    names = [one["lfn"] for one in shown["files"]]
    assert sorted(names) == sorted(f"EVNT.{job_id}{number}.pool.root" for job_id in jobs for number in (1, 2, 3))
    assert shown["n_files"] == 6 and shown["n_bytes"] == sum(one["size_bytes"] for one in shown["files"]) > 0
    check = orrery("check")
    assert check.code == 0, check.out


def test_jobs_of_which_no_file_matches_fail_and_say_what_was_expected(orrery: Orrery, tmp_path: Path) -> None:
    details, dataset = ended(orrery, tmp_path, task("none", "regex|a(b|c)d"))
    assert details["status"] == "failed"
    told = "expected output missing in the pilot's list: regex|a(b|c)d"
    assert errors_of(orrery, details["task_id"]) == [("pilot", 9001, told)] * 2
    assert orrery("catalogue", "show", dataset, "--files", "--json").json()["files"] == []


def test_jobs_of_which_no_file_matches_finish_where_that_is_allowed(orrery: Orrery, tmp_path: Path) -> None:
    details, dataset = ended(orrery, tmp_path, task("some", "regex|a(b|c)d", allowNoOutput=True))
    assert details["status"] == "done"
    assert orrery("catalogue", "show", dataset, "--files", "--json").json()["files"] == []


def test_a_second_job_that_writes_the_same_name_fails_and_the_first_keeps_its_file(
    orrery: Orrery, tmp_path: Path
) -> None:
    details, dataset = ended(orrery, tmp_path, task("same", r"regex|same\.root"))
    assert details["status"] == "finished"
    [(source, code, told)] = errors_of(orrery, details["task_id"])
    assert (source, code) == ("payload", 9003)
    assert told.startswith("names that other files of the task or its datasets have: same.root; allowed: names that")
    assert [one["lfn"] for one in orrery("catalogue", "show", dataset, "--files", "--json").json()["files"]] == [
        "same.root"
    ]
    check = orrery("check")
    assert check.code == 0, check.out
