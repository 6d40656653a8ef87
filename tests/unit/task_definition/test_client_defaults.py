"""What PanDA's client leaves to the server."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.policy.client_defaults import with_client_defaults
from services.task_definition.policy.client_names import statuses_of

SCRIPTS = {
    "run": "runGen-00-00-02",
    "athena": "runAthena-00-00-12",
    "cont": "runcontainer",
    "build run": "buildGen-00-00-01",
    "merge run": "runMerge",
}
PRUN = {"prodSourceLabel": "user", "processingType": "panda-client-2.2.0-jedi-run"}


def filled(**given: Any) -> dict[str, Any]:
    return dict(with_client_defaults(given, "http://scripts/trf/user/", SCRIPTS))


def test_a_task_of_prun_is_analysis_of_priority_1000_run_by_its_script() -> None:
    added = {"taskType": "anal", "taskPriority": 1000, "transPath": "http://scripts/trf/user/runGen-00-00-02"}
    assert filled(**PRUN) == PRUN | added


@pytest.mark.parametrize(
    ("processing_type", "script"),
    [
        ("panda-client-2.2.0-jedi-run", "runGen-00-00-02"), ("panda-client-2.2.0-jedi-run-evp", "runGen-00-00-02"),
        ("panda-client-2.2.0-jedi-athena", "runAthena-00-00-12"), ("panda-client-2.2.0-jedi-cont", "runcontainer"),
        ("panda-client-2.2.0-jedi-other", None), ("jedi", None), ("simul", None), (None, None), (7, None),
    ],
)  # fmt: skip
def test_the_script_is_that_of_the_word_after_jedi(processing_type: Any, script: str | None) -> None:
    found = filled(prodSourceLabel="user", processingType=processing_type).get("transPath")
    assert found == (script and f"http://scripts/trf/user/{script}")


def test_build_and_merge_jobs_have_scripts_of_their_own() -> None:
    found = filled(**PRUN, buildSpec={"archiveName": "a"}, mergeSpec={"transPath": "http://mine/merge"})
    assert found["buildSpec"]["transPath"] == "http://scripts/trf/user/buildGen-00-00-01"
    assert found["mergeSpec"] == {"transPath": "http://mine/merge"} and found["buildSpec"]["archiveName"] == "a"
    assert filled(**PRUN, mergeSpec={})["mergeSpec"] == {"transPath": "http://scripts/trf/user/runMerge"}


def test_what_is_said_stays() -> None:
    said = {"taskType": "anal", "taskPriority": 900, "transPath": "http://mine/run"}
    assert filled(**PRUN, **said) == PRUN | said


@pytest.mark.parametrize(
    "task", [{}, {"prodSourceLabel": "managed"}, {"prodSourceLabel": 7}, {**PRUN, "taskType": "prod"}]
)
def test_production_says_everything_itself(task: dict[str, Any]) -> None:
    assert filled(**task) == task


@pytest.mark.parametrize("parameters", [None, 7, "text", [], [1]])
def test_what_is_no_object_is_left_for_the_check(parameters: Any) -> None:
    assert with_client_defaults(parameters, "http://scripts", SCRIPTS) == parameters


def test_every_state_is_under_one_name_of_the_client() -> None:
    assert statuses_of(["done"]) == ["done"] and statuses_of(["submitting"]) == []
    active, ended = (
        statuses_of(["running", "registered"]),
        statuses_of(["done", "finished", "failed", "broken", "aborted"]),
    )
    assert {"ready", "scouting", "running", "paused", "exhausted"} <= set(active)
    assert not set(active) & set(ended) and "finishing" in active
