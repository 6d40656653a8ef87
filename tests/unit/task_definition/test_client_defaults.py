"""What PanDA's client leaves to the server."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy.client_defaults import allowed_to_users, with_client_defaults
from services.task_definition.tasks.policy.client_names import statuses_of
from services.task_definition.tasks.policy.definition_plan import DefinitionFacts, Refined
from services.task_definition.tasks.policy.outputs import command_lines
from services.task_definition.tasks.policy.refine import refine
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.catalogue.port import DatasetFacts
from shared.model.dataset_types import SOURCES_STREAM
from tests.handlers.task_definition.world import analysis
from tests.unit.brokerage.conformance import sample

SCRIPTS = {
    "run": "runGen-00-00-02",
    "athena": "runAthena-00-00-12",
    "cont": "runcontainer",
    "build run": "buildGen-00-00-01",
    "merge run": "runMerge",
    "prepare grl": "preGoodRunList",
}
PRUN = {"prodSourceLabel": "user", "processingType": "panda-client-2.2.0-jedi-run"}


def filled(**given: Any) -> dict[str, Any]:
    return dict(with_client_defaults(given, "http://scripts/trf/user/", SCRIPTS))


def test_a_task_of_prun_is_analysis_of_priority_1000_run_by_its_script() -> None:
    added = {"taskType": "anal", "taskPriority": 1000, "transPath": "http://scripts/trf/user/runGen-00-00-02"}
    assert filled(**PRUN) == PRUN | added | {"baseWalltime": 60}


@pytest.mark.parametrize("name", ["prun_psl", "pa_psl"])
def test_a_task_with_the_label_test_is_analysis(name: str) -> None:
    [task] = next(one["out"]["tasks"] for one in sample("client_visible")["cases"] if one["in"]["name"] == name)
    assert task["task_params"]["prodSourceLabel"] == "test" and "taskType" not in task["task_params"]
    assert (filled(**task["task_params"])["taskType"], filled(**task["task_params"])["taskPriority"]) == ("anal", 1000)


OURS = {**PRUN, "taskType": "anal"}


def test_a_priority_out_of_range_is_that_of_all_and_users_skip_no_scouts() -> None:
    assert allowed_to_users({**OURS, "currentPriority": 1050}) == ({**OURS, "currentPriority": 1050}, [])
    for priority in (899, 1101):
        found, told = allowed_to_users({**OURS, "currentPriority": priority})
        assert found["currentPriority"] == 1000
        assert told == [f"currentPriority = {priority} is taken as 1000; allowed: 900 to 1100"]
    found, told = allowed_to_users({**OURS, "skipScout": True})
    assert found == OURS and told == [
        "skipScout is taken and nothing is done for it: official tasks alone skip their scouts"
    ]
    official = {**OURS, "skipScout": True, "official": True}
    assert allowed_to_users(official) == (official, [])


def test_an_archive_in_a_dataset_goes_with_every_job_and_is_no_part_of_the_command_line() -> None:
    given = {**analysis(), "tarBallViaDDM": "user.alice.code:code.tgz"}
    spec = parse_task(filled(**given))
    known = ("data.all", "data", 37), ("user.alice.code", "user.alice", 1)
    facts = {name: DatasetFacts(name, scope, "dataset", "frozen", n, 0, 10) for name, scope, n in known}
    plan = refine(spec, 7, DefinitionFacts(facts))
    assert isinstance(plan, Refined)
    assert [(one.name, one.is_master, one.names) for one in plan.inputs] == [
        ("data.all", True, None), ("user.alice.code", False, ("code.tgz",)),
    ]  # fmt: skip
    assert plan.inputs[1].attributes == {"nosplit": True, "repeat": True}
    plain = parse_task(filled(**analysis()))
    assert command_lines(spec, 7)["normal"].strip() == command_lines(plain, 7)["normal"].strip()
    with pytest.raises(InvalidTask, match="allowed of analysis: DATASET:FILE, an archive that jobs read from a dat"):
        parse_task(filled(**{**given, "tarBallViaDDM": "code.tgz"}))


def test_an_archive_of_a_build_in_a_dataset_is_an_input_of_its_own() -> None:
    """As prun --tarBallViaDDM writes it with a build: in buildSpec, beside the name of the file."""
    build = {"archiveName": "code.tgz", "jobParameters": "-i ${IN} -o ${OUT}", "prodSourceLabel": "panda"}
    line = {"type": "constant", "value": "-l ${LIB}"}
    task = analysis()
    task["jobParameters"] = [*task["jobParameters"], line]
    spec = parse_task(filled(**task, buildSpec={**build, "tarBallViaDDM": "user.alice.code:code.tgz"}))
    known = ("data.all", "data", 37), ("user.alice.code", "user.alice", 1)
    facts = {name: DatasetFacts(name, scope, "dataset", "frozen", n, 0, 10) for name, scope, n in known}
    plan = refine(spec, 7, DefinitionFacts(facts))
    assert isinstance(plan, Refined)
    assert [(one.name, one.stream, one.names) for one in plan.inputs] == [
        ("data.all", "IN", None), ("user.alice.code", SOURCES_STREAM, ("code.tgz",)),
    ]  # fmt: skip
    plain = parse_task(filled(**task, buildSpec=build))
    assert command_lines(spec, 7) == command_lines(plain, 7)


def test_good_run_lists_are_read_by_a_script_of_their_own() -> None:
    given = {**PRUN, "processingType": "panda-client-2.2.0-jedi-run-grl", "preproSpec": {"jobParameters": "-x"}}
    assert filled(**given)["preproSpec"]["transPath"] == "http://scripts/trf/user/preGoodRunList"


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
