"""Hyper-parameter optimisation: what phpo submits is taken, and what contradicts it is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy.definition_plan import DefinitionFacts, Refined
from services.task_definition.tasks.policy.refine import refine
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.submitting.rights import rights_missing
from shared.auth import Caller
from shared.catalogue.port import DatasetFacts
from shared.task.in_effect import rules_of
from tests.unit.brokerage.conformance import sample
from tests.unit.task_spec.refusals import problems_of

OUT_DS = "user.ada.hpo.first/"
TRAINING = DatasetFacts("mc.training", "mc", "dataset", "frozen", 20, 20_000, 20_000)


def phpo(**changes: Any) -> dict[str, Any]:
    """The parameters that the published client's phpo makes; None: left out."""
    log = OUT_DS.replace("/", ".log/")
    given = {
        "noInput": True, "nEventsPerJob": 1, "nEvents": 2, "maxNumJobs": 20, "totNumJobs": 10, "taskName": OUT_DS,
        "vo": "atlas", "architecture": "#&nvidia", "hpoWorkflow": True, "transUses": "", "transHome": "",
        "transPath": "http://pandaserver.cern.ch:25080/trf/user/runHPO-00-00-01",
        "processingType": "panda-client-1.5.70-jedi-hpo", "prodSourceLabel": "user", "taskType": "anal",
        "userName": "ada", "uniqueTaskName": True, "useLocalIO": 1, "cliParams": "phpo --outDS user.ada.hpo.first",
        "skipScout": True, "coreCount": 1, "container_name": "docker://example/evaluation:1",
        "multiStepExec": {
            "preprocess": {"command": "${TRF}", "args": "--preprocess ${TRF_ARGS}"},
            "postprocess": {"command": "${TRF}", "args": "--postprocess ${TRF_ARGS}"},
            "containerOptions": {"containerExec": "sh run.sh", "containerImage": "docker://example/evaluation:1"},
        },
        "log": {"dataset": log, "container": log, "type": "template", "param_type": "log",
                "value": f"{log[:-1]}.$JEDITASKID.${{SN}}.log.tgz"},
        "hpoRequestData": {"sandbox": None, "max_points": 10,
                           "output_json": "output.json", "num_points_per_generation": 4,
                           "min_unevaluated_points": 1, "opt_space": {"epochs": {"method": "uniformint"}}},
        "jobParameters": [
            {"type": "constant", "value": '-o output.json -j "" --inSampleFile input.json'},
            {"type": "constant", "value": "-a jobO.1.tar --sourceURL https://panda.example"},
            {"type": "constant", "value": '-p "', "padding": False},
            {"type": "constant", "value": "sh%20train.sh"},
            {"type": "constant", "value": '"'},
            {"type": "constant", "value": "--maxLoopCount=3"},
            {"type": "template", "param_type": "output", "value": "$JEDITASKID.metrics.${SN}.tgz", "dataset": OUT_DS,
             "hidden": True, "allowNoOutput": True},
            {"type": "constant", "value": "--outMetricsFile=${OUTPUT0}^metrics.tgz"},
        ],
        **changes,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def training(given: dict[str, Any]) -> dict[str, Any]:
    """The same with training data, as phpo --trainingDS adds them."""
    items = [
        {"type": "constant", "value": "--writeInputToTxt IN_DATA:input_ds.json"},
        {"type": "template", "param_type": "input", "value": '-i "${IN_DATA/T}"', "dataset": "mc.training",
         "attributes": "nosplit,repeat"},
        {"type": "constant", "value": "--inMap \"{'IN_DATA': ${IN_DATA/T}}\""},
    ]  # fmt: skip
    return {**given, "jobParameters": [*given["jobParameters"], *items]}


def test_the_search_of_phpo_is_refused_because_nobody_runs_its_steering_container() -> None:
    [task] = next(one["out"]["tasks"] for one in sample("client_visible")["cases"] if one["in"]["name"] == "ph_n")
    assert task["task_params"]["hpoRequestData"]["executable"] == "docker"
    with pytest.raises(InvalidTask) as refused:
        parse_task({**task["task_params"], "taskType": "anal"})
    assert str(refused.value) == (
        "hpoRequestData.executable = 'docker': the steering container, which proposes points by the losses of those "
        "before, is not run by this version: its jobs would wait for points; allowed: a payload that knows itself what "
        "point 1, 2, ... is"
    )


def test_a_search_without_steering_is_taken_and_says_how_points_are_searched() -> None:
    spec = parse_task(phpo())
    rules = rules_of(spec.split_rule(), event_service=spec.columns()["event_service"])
    assert spec.columns()["event_service"] == 0
    assert rules.evaluates_points and rules.uses_event_service and rules.events_per_range == 1
    assert (rules.n_points, rules.most_jobs, rules.n_consumers) == (10, 20, 2)
    assert (rules.points_per_generation, rules.min_unevaluated_points, rules.skip_scout) == (4, 1, True)


def test_a_user_may_skip_the_scouts_of_a_search_because_it_has_none() -> None:
    ada = Caller("ada", frozenset({"user"}), frozenset({"atlas"}), "atlas")
    assert rights_missing(parse_task(phpo()), ada) == []


@pytest.mark.parametrize(("of_training", "inputs"), [(False, []), (True, [("mc.training", False)])])
def test_a_search_has_one_unit_of_input_and_training_data_are_read_besides(of_training: bool, inputs: Any) -> None:
    given = training(phpo()) if of_training else phpo()
    plan = refine(parse_task(given), 7, DefinitionFacts({"mc.training": TRAINING}))
    assert isinstance(plan, Refined) and plan.pseudo is not None
    assert (plan.pseudo.n_rows, plan.pseudo.n_events) == (1, 1)
    assert [(one.name, one.is_master) for one in plan.inputs] == inputs


def test_fewer_points_of_two_numbers_count_and_jobs_are_twice_as_many_where_no_number_is_said() -> None:
    rules = rules_of(parse_task(phpo(totNumJobs=6, maxNumJobs=None)).split_rule())
    assert (rules.n_points, rules.most_jobs) == (6, 12)


REQUEST = {"max_points": 10, "num_points_per_generation": 2}


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"hpoWorkflow": None}, "hpoRequestData", "needs hpoWorkflow"),
        ({"hpoWorkflow": None, "hpoRequestData": None}, "maxNumJobs", "needs hpoWorkflow"),
        ({"hpoWorkflow": False, "hpoRequestData": None}, "totNumJobs", "needs hpoWorkflow"),
        ({"hpoWorkflow": "yes"}, "hpoWorkflow", "true or false"),
        ({"hpoRequestData": None}, "hpoRequestData", "is needed with hpoWorkflow"),
        ({"hpoRequestData": []}, "hpoRequestData", "object"),
        ({"hpoRequestData": {}}, "hpoRequestData.max_points", "needed"),
        ({"hpoRequestData": {**REQUEST, "max_points": 0}}, "hpoRequestData.max_points", "1 or more"),
        ({"hpoRequestData": {**REQUEST, "max_points": 1.5}}, "hpoRequestData.max_points", "whole number"),
        ({"hpoRequestData": {**REQUEST, "max_points": True}}, "hpoRequestData.max_points", "whole number"),
        ({"hpoRequestData": {**REQUEST, "max_points": 100_001}}, "hpoRequestData.max_points", "100000 or less"),
        ({"hpoRequestData": {**REQUEST, "num_points_per_generation": -1}},
         "hpoRequestData.num_points_per_generation", "1 or more"),
        ({"hpoRequestData": {**REQUEST, "min_unevaluated_points": 2}},
         "hpoRequestData.min_unevaluated_points", "less than num_points_per_generation (2)"),
        ({"hpoRequestData": {"max_points": 2, "min_unevaluated_points": 1}},
         "hpoRequestData.min_unevaluated_points", "needs num_points_per_generation"),
        ({"hpoRequestData": {**REQUEST, "maxpoints": 1}}, "hpoRequestData.maxpoints", "unknown field"),
        ({"maxNumJobs": 0}, "maxNumJobs", "1 or more"),
        ({"totNumJobs": "ten"}, "totNumJobs", "whole number"),
        ({"noInput": None}, "noInput", "hpoWorkflow needs noInput"),
        ({"nEvents": 101}, "nEvents", "more than 100 evaluations at once"),
        ({"mergeOutput": True}, "mergeOutput", "not allowed together with hpoWorkflow"),
        ({"nEventsPerWorker": 1}, "nEventsPerWorker", "its ranges are points"),
        ({"useJobCloning": "runonce"}, "useJobCloning", "hpoWorkflow"),
        ({"segmentedWork": True, "segmentSpecs": [{"name": "a", "files": ["f"]}]}, "segmentSpecs",
         "not known to this version"),
    ],
)  # fmt: skip
def test_what_contradicts_a_search_is_refused_by_name(changes: dict[str, Any], field: str, said: str) -> None:
    assert said in problems_of(phpo(**changes))[field]
