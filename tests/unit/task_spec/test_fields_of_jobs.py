"""What a task says of its jobs: steps, merging, physical names, fields of input names, logs."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy.outputs import plan_outputs
from services.task_definition.tasks.policy.task_spec import parse_task
from shared.task.in_effect import rules_of
from tests.handlers.task_definition.world import an_input, log, output, production
from tests.unit.task_spec.refusals import problems_of

MIDDLE = output("x", value="--out=x.$JEDITASKID${MIDDLENAME}._${SN/P}.root")


def test_the_steps_of_a_payload_are_kept_as_they_were_submitted_and_their_fields_are_checked() -> None:
    steps = {"preprocess": {"command": "${TRF}", "args": "-p ${TRF_ARGS}"}, "containerOptions": {"containerExec": "x"}}
    spec = parse_task(production(multiStepExec=steps))
    assert spec.submitted["multiStepExec"] == steps and "multiStepExec" not in spec.split_rule()
    assert list(problems_of(production(multiStepExec={"preprocess": {"args": "-p"}}))) == [
        "multiStepExec.preprocess.command"
    ]
    assert list(problems_of(production(multiStepExec={"midprocess": {}}))) == ["multiStepExec.midprocess"]


@pytest.mark.parametrize(
    ("merge_spec", "rule"), [({"useLocalIO": 1}, True), ({"useLocalIO": False}, False), ({"transPath": "M"}, None)]
)
def test_merge_spec_says_whether_merge_jobs_copy_their_input(merge_spec: dict[str, Any], rule: bool | None) -> None:
    task = production(mergeOutput=True, useLocalIO=True, mergeSpec=merge_spec)
    assert parse_task(task).split_rule().get("mergeUseLocalIO") is rule


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"pfnList": ["a", "b", "a"]}, "pfnList"),
        ({"pfnList": ["a^many"]}, "pfnList.0"),
        ({"pfnList": []}, "pfnList"),
        ({"pfnList": ["a"], "nFiles": 2}, "nFiles"),
        ({"pfnList": ["a"], "nEventsPerJob": 5}, "nEventsPerJob"),
        ({"pfnList": ["a"], "inputs": [an_input()]}, "pfnList"),
    ],
)
def test_physical_names_that_contradict_something_are_refused(changes: dict[str, Any], field: str) -> None:
    task = production(**{"inputs": [], "noInput": True, "nFilesPerJob": None, **changes})
    assert field in problems_of(task)


def test_physical_names_are_cut_at_n_files() -> None:
    task = production(inputs=[], noInput=True, pfnList=["a^5", "b", "c"], nFiles=2, nFilesPerJob=None)
    assert parse_task(task).physical_names == (("a", 5), ("b", None))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"addNthFieldToLFN": "0"}, "addNthFieldToLFN"),
        ({"addNthFieldToLFN": "2,x"}, "addNthFieldToLFN"),
        ({"useFileAsSourceLFN": True}, "useFileAsSourceLFN"),
        ({"addNthFieldToLFN": "2", "useFileAsSourceLFN": True, "groupBoundaryID": 3}, "useFileAsSourceLFN"),
    ],
)
def test_fields_of_input_names_that_contradict_something_are_refused(changes: dict[str, Any], field: str) -> None:
    task = production(**changes)
    assert field in problems_of({**task, "jobParameters": [*task["jobParameters"], MIDDLE]})


def test_outputs_with_fields_of_input_names_may_be_merged() -> None:
    task = production(addNthFieldToLFN="2", mergeOutput=True, mergeSpec={"jobParameters": "${TRN_OUTPUT0} ${OUTPUT0}"})
    spec = parse_task({**task, "jobParameters": [*task["jobParameters"], MIDDLE]})
    assert rules_of(spec.split_rule()).name_fields == (2,)


def test_fields_of_input_names_need_an_output_that_has_them() -> None:
    task = production(addNthFieldToLFN="2,4", useFileAsSourceLFN=True)
    assert "addNthFieldToLFN" in problems_of(task)
    rules = parse_task({**task, "jobParameters": [*task["jobParameters"], MIDDLE]}).split_rule()
    assert (rules_of(rules).name_fields, rules_of(rules).names_from_files) == ((2, 4), True)


@pytest.mark.parametrize("es_fraction", [0.0, 0.5, 1.0])
def test_a_log_of_merge_jobs_is_taken_whether_a_task_is_drawn_to_use_event_service_or_not(es_fraction: float) -> None:
    spec = parse_task(production(esFraction=es_fraction, nEventsPerWorker=10, log_merge=log("merges")))
    merge_logs = [one for one in plan_outputs(spec, 7).datasets if one.stream == "LOG_MERGE"]
    assert [one.name for one in merge_logs] == ["mc.merges.log"]


def test_esmerge_spec_says_whether_merge_jobs_of_events_copy_their_input() -> None:
    task = production(nEventsPerWorker=10, esmergeSpec={"transPath": "M", "useLocalIO": True})
    assert rules_of(parse_task(task).split_rule()).merges_from_scratch is True
