"""Each task parameter changes what its reader decides: a task with it and one without it are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.job_brokerage.policy.request import TaskHistory, analysis_input
from services.job_generation.kinds.merge.job import MERGE
from services.job_generation.policy.order_facts import task_queue_of, user_priority_of
from services.job_generation.specification.job_fields import base_fields, task_texts
from services.job_generation.specification.kind_of_job import NORMAL
from services.task_brokerage.policy.request import task_request
from services.task_definition.desk.policy.work_queues import WorkQueue
from services.task_definition.tasks.policy.definition_plan import DefinitionFacts, Refined
from services.task_definition.tasks.policy.input_wishes import wish_for
from services.task_definition.tasks.policy.outputs import command_lines, plan_outputs
from services.task_definition.tasks.policy.refine import refine
from services.task_definition.tasks.policy.resubmission import merged
from services.task_definition.tasks.policy.shares import ShareNode, resource_type_for, share_for
from services.task_definition.tasks.policy.task_parameters.table import FACTS
from services.task_definition.tasks.policy.task_spec import TaskSpec, parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.policy.work_queue_of_task import work_queue_for
from services.task_definition.tasks.submitting.rights import owner_of, rights_missing
from shared.auth import Caller
from shared.brokerage.limits import TaskLimits
from shared.brokerage.request_of_task import request_of_task
from shared.brokerage.usage import OwnUsage, Usage
from shared.catalogue.port import DatasetFacts
from shared.config.parameters import Parameters
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES
from shared.task.in_effect import rules_of
from shared.task.needs import needs_of_merge_job, needs_of_task
from tests.handlers.task_definition.world import an_input, log, output, production
from tests.unit.job_generation.made import a_queue, a_task

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[3]
INPUT = {
    "mc.evnt": DatasetFacts("mc.evnt", "mc", "dataset", "frozen", 20, 20_000, 20_000),
    "mc.minbias": DatasetFacts("mc.minbias", "mc", "dataset", "frozen", 40, 40_000, 40_000),
}
SHARES = tuple(
    ShareNode(name, None, expressions)
    for name, expressions in (
        ("named", {"prod_source_label": "never"}), ("group", {"working_group": "higgs"}),
        ("campaign", {"campaign": "MC23"}), ("kind", {"processing_type": "reco"}), ("rest", {}),
    )
)  # fmt: skip
QUEUES = (WorkQueue(1, "first", "managed", "demo"), WorkQueue(2, "second", "managed", "demo"))
BUILD = {"archiveName": "sources.1.tar.gz", "jobParameters": "-i ${IN} -o ${OUT}"}
MERGED = {"mergeOutput": True}
BY_SIZE: dict[str, Any] = {"nFilesPerJob": None}
#: a value that the task has not otherwise, and what the task needs besides for the value to count
SAMPLES: dict[str, Any] = {
    "taskName": "another", "userName": "ada", "vo": "other", "prodSourceLabel": "test", "taskType": "anal",
    "allowTaskDuplication": True, "taskPriority": 900, "currentPriority": 900, "userPriority": 7, "gshare": "named",
    "workQueueName": "second", "workingGroup": "higgs", "campaign": "MC23", "processingType": "reco", "reqID": 77,
    "architecture": "x86_64-el9-gcc13-opt", "transUses": "Athena-24.0.1", "transHome": "Athena-24.0.1",
    "transPath": "Reco_tf.py", "container_name": "docker://image", "noExecStrCnv": True, "sourceURL": "http://s",
    "transferType": "fax", "useSecrets": True, "debugMode": True, "noLoopingCheck": True, "official": True,
    "jobParameters": [an_input(), output("other")], "log": log("other"), "mergeOutput": True,
    "log_merge": log("merges"), "mergeSpec": {"transPath": "Merge_tf.py"}, "umNameAtEnd": True, "buildSpec": BUILD,
    "site": "ALPHA", "nucleus": "ALPHA", "includedSite": ["ALPHA"], "excludedSite": ["BETA"],
    "samStations": ["station"], "requirements": "TARGET.x == 1", "tags": ["GPU"], "ipConnectivity": "http",
    "ipStack": "IPv6", "t1Weight": 5, "avoidVP": True, "fullChain": "only", "onlyTagsForFC": True,
    "altStageOut": "on", "taskBrokerOnMaster": True, "coreCount": 4, "mergeCoreCount": 4, "maxCoreCount": 16,
    "ramCount": 3000, "ramUnit": "MBPerCore", "ramCountUnit": "MBPerCore", "baseRamCount": 700, "mergeRamCount": 900,
    "mergeRamUnit": "MBPerCore", "cpuTime": 50, "cpuTimeUnit": "mHS06sPerEvent", "cpuEfficiency": 50,
    "baseWalltime": 7, "walltime": 70, "outDiskCount": 50, "outDiskUnit": "MB", "workDiskCount": 500,
    "workDiskUnit": "GB", "ioIntensity": 50, "diskIO": 40,
    "nFiles": 5, "nEvents": 5000, "nFilesPerJob": 3, "nEventsPerJob": 500, "tgtNumEventsPerJob": 500,
    "nEventsPerInputFile": 100, "nEventsPerFile": 100, "nGBPerJob": 5, "nMaxFilesPerJob": 9, "maxEventsPerJob": 900,
    "minGranularity": 100, "nEventsPerRange": 100, "maxWalltime": 5, "tgtMaxOutputForNG": 5, "skipFilesUsedBy": [3],
    "useRealNumEvents": True, "respectLB": True, "orderByLB": True, "groupBoundaryID": 1, "nFilesPerMergeJob": 5,
    "nMaxFilesPerMergeJob": 5, "nGBPerMergeJob": 5, "nEventsPerMergeJob": 5, "onSiteMerging": True, "goal": 90.5,
    "maxAttempt": 7, "maxFailure": 7, "disableAutoRetry": True, "minCpuEfficiency": 50, "retryRamOffset": 100,
    "retryRamStep": 100, "retryRamMax": 100, "skipScout": True, "scoutSuccessRate": 7, "respectSplitRule": True,
    "noThrottle": True, "inputPreStaging": True, "noWaitParent": True,
    "ignoreMissingInDS": True, "runUntilClosed": True, "useLocalIO": True,
    "allowInputLAN": "only", "parent_tid": 5, "fixedSandbox": "jobO.2.tar.gz", "forceStaged": True,
    "usePrefetcher": True, "putLogToOS": True, "stayOutputOnSite": True, "nChunksToWait": 3, "allowPartialFinish": True,
    "cloudAsVO": True,
}  # fmt: skip
_BESIDES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("log_merge", "mergeSpec", "umNameAtEnd", "nFilesPerMergeJob", "nMaxFilesPerMergeJob"), MERGED),
    **dict.fromkeys(("nGBPerMergeJob", "nEventsPerMergeJob", "onSiteMerging"), MERGED),
    **dict.fromkeys(("nGBPerJob", "tgtNumEventsPerJob", "tgtMaxOutputForNG"), BY_SIZE),
    **dict.fromkeys(("minGranularity", "nEventsPerRange", "maxEventsPerJob"), BY_SIZE),
    "nEventsPerJob": {"nFilesPerJob": None, "nEventsPerInputFile": 1000},
    "nEventsPerInputFile": {"nEventsPerJob": 500, "nFilesPerJob": None},
    "nEventsPerFile": {"nEventsPerJob": 500, "nFilesPerJob": None},
    "useRealNumEvents": {"nEventsPerInputFile": 77},
    "ramUnit": {"ramCount": 1000, "ramUnit": "MB"}, "ramCountUnit": {"ramCount": 1000, "ramUnit": None},
    "mergeRamUnit": {"mergeRamCount": 900, "mergeRamUnit": "MB", "mergeCoreCount": 4},
    "cpuTimeUnit": {"cpuTime": 50}, "outDiskUnit": {"outDiskCount": 50}, "workDiskUnit": {"workDiskCount": 500},
    "nEvents": {"nEventsPerJob": 500, "nFilesPerJob": None},
    "taskName": {"buildSpec": BUILD}, "cloudAsVO": {"cloud": "WORLD"},
}  # fmt: skip
#: read where a pure function would not show it: the test that does, as file::name
SHOWN_ELSEWHERE = {
    "uniqueTaskName": "tests/handlers/task_definition/test_submission.py::"
    "test_names_are_unique_only_where_a_task_asks_for_it",
    "termCondition": "tests/handlers/watchdog/test_sweep.py::task_with_a_condition",
    "failWhenGoalUnreached": "tests/handlers/task_definition/test_completion.py::"
    "test_a_goal_that_is_not_reached_asks_the_owner_or_fails",
    "intermediateTask": "tests/handlers/task_definition/outside/test_lifetimes_outside.py::"
    "test_outputs_of_an_intermediate_task_are_kept_by_no_rule",
    "useExhausted": "tests/handlers/task_definition/test_completion.py::"
    "test_a_goal_that_is_not_reached_asks_the_owner_or_fails",
    "disableAutoFinish": "tests/handlers/watchdog/test_sweep.py::long_exhausted_task",
    "disableReassign": "tests/handlers/watchdog/test_job_watch.py::"
    "test_jobs_of_a_task_that_disables_reassignment_wait_where_they_are",
    "allowEmptyInput": "tests/handlers/task_definition/test_definition.py::"
    "test_an_empty_input_that_is_allowed_lets_the_task_finish",
    "multiStepExec": "tests/unit/job_generation/test_job_specification.py::multiStepExec",
    "walltimeUnit": "tests/handlers/task_definition/test_commands.py::"
    "test_an_exhausted_task_whose_scouts_measured_goes_on_running",
    "cloud": "tests/unit/task_spec/test_task_parameters.py::test_a_cloud_other_than_world_is_refused_with_the_reason",
    "destination": "tests/unit/grid/test_storages_of_queues.py::"
    "test_the_token_and_the_destination_of_a_dataset_say_where_its_files_go",
    "diskIOUnit": "tests/unit/model/test_units_and_needs.py::test_an_unknown_unit_is_refused_with_what_is_allowed",
    "ioIntensityUnit": "tests/unit/model/test_units_and_needs.py::test_an_unknown_unit_is_refused_with_what_is_allowed",
    "noInput": "tests/unit/task_spec/test_task_spec.py::test_no_input_needs_a_number_of_events_or_files",
    "pfnList": "tests/handlers/task_definition/test_definition.py::"
    "test_files_by_physical_name_are_the_input_of_a_task_without_datasets",
    "reuseSecOnDemand": "tests/unit/task_definition/test_refine.py::"
    "test_secondary_input_is_reused_on_demand_only_where_its_files_are_too_few",
    "waitInput": "tests/unit/task_definition/test_refine.py::test_unknown_input_breaks_the_task_unless_it_waits_for_it",
}


def given(**changes: Any) -> dict[str, Any]:
    return production(**{"nFilesPerJob": 2, **changes})


def decided(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What the readers make of a task: a value for each of them."""
    spec = parse_task(parameters)
    refined = refine(spec, 7, DefinitionFacts(INPUT, "running" if spec.parameters.parent_task_id else None))
    row = row_of(spec, refined)
    needs = needs_of_task(row)
    job = request_of_task(row, needs, NOW)
    task = a_task(
        row["split_rule"], needs=needs, name=row["task_name"], vo=row["vo"], working_group=row["working_group"],
        processing_type=row["processing_type"], request_id=row["req_id"], architecture=row["architecture"],
        trans_path=row["trans_path"], trans_home=row["trans_home"], trans_uses=row["trans_uses"],
        container_name=row["container_name"], nucleus=row["nucleus"], parameters=spec.submitted,
        prod_source_label=row["prod_source_label"], task_type=row["task_type"],
    )  # fmt: skip
    caller = Caller("alice", frozenset({"user"}), frozenset({"higgs"}))
    producer = Caller("prodteam", frozenset({"production"}), frozenset())
    return {
        "refined": replace(refined, split_rule={}) if isinstance(refined, Refined) else refined,
        "wish": wish_of(row, refined),
        "rules": rules_of(row["split_rule"]),
        "needs": (needs, needs_of_merge_job(row)),
        "job brokerage": (job, analysis_input(row, TaskHistory(), Usage(), OwnUsage(), Parameters())),
        "task brokerage": task_request(row, job, (), {}, TaskLimits()),
        "job": [(base_fields(task, a_queue(reads_directly=True), 1, kind, trans_path=None), task_texts(task),
                 kind.copies_to_scratch(task)) for kind in (NORMAL, MERGE)],
        "order": (task_queue_of(task, 100, (1000,), is_bound=True), user_priority_of(task)),
        "outputs": (plan_outputs(spec, 7), command_lines(spec, 7)),
        "classes": (resource_type_for(spec, DEFAULT_RESOURCE_TYPES), share_for(spec, "SCORE", SHARES),
                    work_queue_for(spec, QUEUES, {"user_name": "ada"})),
        "rights": (owner_of(spec, caller), owner_of(spec, producer), rights_missing(spec, caller)),
        "again": merged(given(), spec)[0].get("fixedSandbox"),
        "end": (row["goal"], row["num_throttled"], row["max_attempt"], row["max_failure"], spec.allows_duplication),
    }  # fmt: skip


def row_of(spec: TaskSpec, refined: Any) -> dict[str, Any]:
    """As a row of the table of tasks."""
    rule = refined.split_rule if isinstance(refined, Refined) else spec.split_rule()
    more = {"gshare": "rest", "resource_type": "SCORE", "split_rule": rule, "user_name": "alice", "task_id": 7}
    return {**spec.columns(), **more}


def wish_of(row: Mapping[str, Any], refined: Any) -> Any:
    """What is wanted of the master input; None where there is none yet."""
    if not isinstance(refined, Refined) or not refined.inputs:
        return None
    limits = {"max_attempt": row["max_attempt"], "max_failure": row["max_failure"], "used": (0, 0)}
    return wish_for(refined, refined.inputs[0], **limits, parent_works=False, is_new=True)


def plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


READ = sorted(name for name, about in FACTS.items() if about.reader)
SHOWN_HERE = [name for name in READ if name in SAMPLES or name in SHOWN_ELSEWHERE]


@pytest.mark.parametrize("name", SHOWN_HERE)
def test_what_is_decided_depends_on_a_parameter_that_is_read(name: str) -> None:
    if name in SHOWN_ELSEWHERE:
        assert name not in SAMPLES
        path, _, test = SHOWN_ELSEWHERE[name].partition("::")
        assert test in (ROOT / path).read_text(), f"the test of {name} is gone"
        return
    without = {**given(), **_BESIDES.get(name, {})}
    before = {key: value for key, value in without.items() if value is not None}
    after = {**before, name: SAMPLES[name]}
    assert before.get(name) != SAMPLES[name], "the sample is no change"
    one, other = decided(before), decided(after)
    assert [key for key in one if repr(plain(one[key])) != repr(plain(other[key]))], f"nothing depends on {name}"


@pytest.mark.parametrize("name", [name for name in READ if name not in SHOWN_HERE])
def test_a_parameter_without_a_sample_here_is_in_a_test_of_its_own(name: str) -> None:
    assert any(
        f'"{name}"' in path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)
    )


MASTER, SECONDARY, NUMBER, OUTPUT = range(4)
#: field of an item of jobParameters -> which item gets it, and its value
FIELDS_OF_ITEMS: dict[str, tuple[int, Any]] = {
    "value": (MASTER, "--other=${IN}"), "dataset": (MASTER, "mc.minbias"), "files": (MASTER, ["EVNT._000001.root"]),
    "include": (MASTER, "EVNT.*"), "exclude": (MASTER, "EVNT.*"), "token": (OUTPUT, "DATADISK"),
    "destination": (OUTPUT, "ALPHA"), "container": (OUTPUT, "mc.container/"), "hidden": (MASTER, True),
    "padding": (MASTER, False), "es_only": (MASTER, True), "attributes": (SECONDARY, "nosplit,repeat"),
    "ratio": (SECONDARY, 2), "eventRatio": (SECONDARY, 0.5), "nFilesPerJob": (SECONDARY, 3),
    "usedup": (MASTER, True), "indexConsistent": (MASTER, True),
    "random": (SECONDARY, True), "reusable": (SECONDARY, True), "offset": (NUMBER, 500),
    "allowNoOutput": (OUTPUT, True), "mergeOnly": (OUTPUT, True), "param_type": (OUTPUT, "log"),
    "transient": (OUTPUT, True),
}  # fmt: skip
#: a container is always expanded, and datasets that are listed together are one input without being put into another
WITHOUT_CHOICE = {"expand": True, "consolidate": "user.ada.all/"}
#: fields of items that the field's documents list (JEDI: task parameters)
LISTED_FIELDS = """
type param_type value dataset container token destination offset hidden padding attributes ratio eventRatio nFilesPerJob
random reusable indexConsistent check usedup allowNoOutput mergeOnly transient num_records pseudo include exclude files
expand consolidate es_only
"""


def with_items(place: int | None = None, **changes: Any) -> dict[str, Any]:
    numbers = {"type": "template", "param_type": "number", "value": "--seed=${RNDMSEED}"}
    items = [an_input(), an_input("mc.minbias", "MORE"), numbers, output("x")]
    if place is not None:
        items[place] = {key: one for key, one in {**items[place], **changes}.items() if one is not None}
    return given(jobParameters=items)


@pytest.mark.parametrize("name", sorted(FIELDS_OF_ITEMS))
def test_what_is_decided_depends_on_a_field_of_an_item(name: str) -> None:
    place, value = FIELDS_OF_ITEMS[name]
    one, other = decided(with_items()), decided(with_items(place, **{name: value}))
    assert [key for key in one if repr(plain(one[key])) != repr(plain(other[key]))], f"nothing depends on {name}"


@pytest.mark.parametrize("name", LISTED_FIELDS.split())
def test_a_listed_field_of_an_item_is_carried_out_or_refused_by_name(name: str) -> None:
    if name in FIELDS_OF_ITEMS:
        return
    if name == "check":
        assert "test_check_needs_a_parent" in (ROOT / "tests/handlers/task_definition/test_chains.py").read_text()
        return
    if name in WITHOUT_CHOICE:
        assert repr(decided(with_items())) == repr(decided(with_items(MASTER, **{name: WITHOUT_CHOICE[name]})))
        return
    place, value, told = (
        (OUTPUT, "variable", "allowed: 'constant' or 'template'")
        if name == "type"
        else (SECONDARY, 1, f"attribute {name}: allowed: with param_type pseudo_input only")
        if name == "num_records"
        else (SECONDARY, 1, f"attribute {name} is not")
    )
    with pytest.raises(InvalidTask) as refused:
        parse_task(with_items(place, **{name: value}))
    assert told in str(refused.value)


def refined_records(counter: dict[str, Any]) -> int:
    """Rows of the pseudo input of a task that says their number by the item alone."""
    refined = refine(parse_task(given(jobParameters=[counter, output("x")])), 7, DefinitionFacts())
    assert isinstance(refined, Refined) and refined.pseudo is not None
    return refined.pseudo.n_rows


@pytest.mark.parametrize(
    ("changes", "attributes", "field"),
    [
        ({"nFiles": 3}, "nr=5", "nFiles"),
        ({"nEvents": 30, "nEventsPerJob": 10}, "nr=5", "nEvents"),
        ({"nFiles": 3}, "nr=0", "jobParameters.0.attributes"),
        ({"nFiles": 3}, "nr=1.5", "jobParameters.0.attributes"),
    ],
)
def test_records_of_a_pseudo_input_are_a_whole_number_that_nothing_else_contradicts(
    changes: dict[str, Any], attributes: str, field: str
) -> None:
    counter = {"type": "template", "param_type": "pseudo_input", "value": "-n ${SEQNUMBER}", "attributes": attributes}
    with pytest.raises(InvalidTask) as refused:
        parse_task(given(jobParameters=[counter, output("x")], **changes))
    assert [one.field for one in refused.value.problems] == [field]


def test_pseudo_input_counts_jobs_and_beside_other_input_it_numbers_them_only() -> None:
    counter = {"type": "template", "param_type": "pseudo_input", "value": "-n ${SEQNUMBER}", "dataset": "seq_number"}
    alone = refine(parse_task(given(jobParameters=[counter, output("x")], nFiles=3)), 7, DefinitionFacts())
    assert isinstance(alone, Refined) and alone.pseudo is not None and alone.pseudo.n_rows == 3
    assert refined_records({**counter, "num_records": 5}) == refined_records({**counter, "attributes": "nr=5"}) == 5
    beside = parse_task(given(jobParameters=[an_input(), {**counter, "offset": 100}, output("x")]))
    numbered = refine(beside, 7, DefinitionFacts(INPUT))
    assert isinstance(numbered, Refined) and numbered.pseudo is None and numbered.sequence_offset == 100
    with pytest.raises(InvalidTask) as refused:
        parse_task(given(jobParameters=[an_input(), {**counter, "num_records": 5}, output("x")]))
    assert [one.field for one in refused.value.problems] == ["jobParameters.1.num_records"]
