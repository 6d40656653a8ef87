from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.task_definition.data.policy.transfers import Speed, duration_s, fails, throughput_mb_s
from services.task_definition.tasks.policy.definition_plan import DefinitionFacts, DefinitionRefused, Postponed, Refined
from services.task_definition.tasks.policy.outputs import command_lines, plan_outputs
from services.task_definition.tasks.policy.refine import REFINERS, refine, refiner_for
from services.task_definition.tasks.policy.scouting import open_for_scouts
from services.task_definition.tasks.policy.shares import ShareNode, resource_type_for, share_for
from services.task_definition.tasks.policy.task_spec import TaskSpec, parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.catalogue.port import MOST_STOOD_FOR, DatasetFacts
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES
from shared.task.in_effect import rules_of
from tests.handlers.task_definition.world import an_input, analysis, log, output, production

EVNT = DatasetFacts("mc.evnt", "mc", "dataset", "frozen", 20, 20_000, 20_000)
KNOWN = {"mc.evnt": EVNT}


def spec_of(**changes: Any) -> TaskSpec:
    return parse_task(production(**changes))


@pytest.mark.parametrize("n_datasets", [MOST_STOOD_FOR, MOST_STOOD_FOR + 1])
def test_a_name_with_wildcards_that_stands_for_too_many_datasets_is_refused_and_not_cut(n_datasets: int) -> None:
    names = tuple(f"mc.ev{n}" for n in range(n_datasets))
    whole = DatasetFacts("mc.ev*", "mc", "container", "frozen", constituents=names)
    known = {name: replace(EVNT, name=name) for name in names}
    outcome = refine(spec_of(inputs=[an_input("mc.ev*")]), 7, DefinitionFacts({"mc.ev*": whole, **known}))
    if n_datasets > MOST_STOOD_FOR:
        assert outcome == DefinitionRefused("mc.ev* stands for more than 5000 datasets")
    else:
        assert isinstance(outcome, Refined) and len(outcome.inputs) == n_datasets


def plan_of(datasets: dict[str, DatasetFacts] = KNOWN, **changes: Any) -> Refined:
    outcome = refine(spec_of(**changes), 7, DefinitionFacts(datasets))
    assert isinstance(outcome, Refined), outcome
    return outcome


@pytest.mark.parametrize(
    ("changes", "status"),
    [({}, "assigning"), ({"cloud": "WORLD"}, "assigning"), ({"nucleus": "A"}, "ready"), ({"site": "A"}, "ready"),
     ({"taskType": "anal"}, "ready")],
)  # fmt: skip
def test_only_production_that_is_not_pre_assigned_needs_a_nucleus(changes: dict, status: str) -> None:
    assert plan_of(**changes).next_status == status


@pytest.mark.parametrize(
    ("changes", "unit", "files_per_job"),
    [
        ({"nFilesPerJob": 4}, None, 4),
        ({"nFilesPerJob": None, "nEventsPerJob": 250}, 250, None),
        ({"nFilesPerJob": None, "nEventsPerJob": 250, "nEventsPerInputFile": 100}, None, 2),
        ({"nFilesPerJob": None, "nEventsPerJob": 2000, "nEventsPerInputFile": 1000}, None, 2),
        ({"nFilesPerJob": None, "nEventsPerJob": 2000}, None, None),
        ({"nFilesPerJob": None, "tgtNumEventsPerJob": 300}, 300, None),
        ({"nFilesPerJob": None}, None, None),
    ],
)
def test_how_a_job_s_events_and_a_file_s_events_decide_the_unit(
    changes: dict, unit: int | None, files_per_job: int | None
) -> None:
    plan = plan_of(**changes)
    assert plan.inputs[0].events_per_unit == unit
    assert plan.split_rule.get("nFilesPerJob") == files_per_job


def test_events_per_job_without_known_events_is_refused_with_what_to_give() -> None:
    facts = {"mc.evnt": DatasetFacts("mc.evnt", "mc", "dataset", "frozen", 20, 20_000, 0)}
    outcome = refine(spec_of(nFilesPerJob=None, nEventsPerJob=10), 7, DefinitionFacts(facts))
    assert isinstance(outcome, DefinitionRefused) and "nEventsPerInputFile" in outcome.reason


def test_unknown_input_breaks_the_task_unless_it_waits_for_it() -> None:
    assert isinstance(refine(spec_of(), 7, DefinitionFacts({})), DefinitionRefused)
    outcome = refine(spec_of(waitInput=True), 7, DefinitionFacts({}))
    assert isinstance(outcome, Postponed) and "mc.evnt" in outcome.reason


@pytest.mark.parametrize(
    ("parent", "changes", "kind"),
    [("done", {}, Refined), ("finished", {}, Refined), ("running", {}, Postponed),
     ("running", {"noWaitParent": True}, Refined), ("failed", {}, DefinitionRefused),
     ("broken", {"noWaitParent": True}, DefinitionRefused)],
)  # fmt: skip
def test_a_child_follows_its_parent(parent: str, changes: dict, kind: type) -> None:
    assert isinstance(refine(spec_of(parent_tid=1, **changes), 7, DefinitionFacts(KNOWN, parent)), kind)


def test_a_vo_or_a_label_may_bring_rules_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(spec: TaskSpec, task_id: int, facts: DefinitionFacts) -> DefinitionRefused:
        return DefinitionRefused("own rules")

    monkeypatch.setitem(REFINERS, "any.managed", own)
    assert refiner_for("atlas", "managed") is own
    assert refiner_for("atlas", "user") is refine
    monkeypatch.setitem(REFINERS, "atlas.any", refine)
    assert refiner_for("atlas", "managed") is refine


def test_file_names_keep_their_serial_number_and_get_the_task_s_id() -> None:
    outputs = plan_outputs(spec_of(), 42)
    assert [one.file_name_template for one in outputs.templates] == [
        "simulation.42._${SN/P}.root.1",
        "log.simulation.42._${SN/P}.tgz.1",
    ]


def test_names_of_production_say_their_attempt_unless_they_do_already() -> None:
    def names(task: dict[str, Any]) -> list[str]:
        return [one.file_name_template for one in plan_outputs(parse_task(task), 42).templates]

    done = output("done", value="--out=done._${SN}.root.7")
    assert names(production(inputs=[an_input(), done]))[0] == "done._${SN}.root.7"
    merged = production(inputs=[an_input()], mergeOutput=True, umNameAtEnd=True, mergeSpec={"transPath": "M.py"})
    assert names(merged)[0] == "simulation.42._${SN/P}.root.1"
    assert names(merged)[-2:] == ["log.simulation.42._${SN/P}.tgz.1.panda.um", "simulation.42._${SN/P}.root.1.panda.um"]
    assert [name.rpartition(".")[2] for name in names(analysis())] == ["root", "tgz"]


def test_the_command_line_has_streams_in_place_of_file_names_and_leaves_hidden_items_out() -> None:
    items = [
        an_input(),
        {"type": "constant", "value": "--geometry=A", "padding": False},
        {"type": "constant", "value": ",B"},
        {"type": "template", "param_type": "number", "value": "--max=${MAXEVENTS}"},
        an_input("mc.evnt", "HIDDEN", hidden=True),
        output("first", value='--out="f.$JEDITASKID.${SN}.root"'),
        output("second"),
    ]
    task = production()
    task["jobParameters"] = items
    lines = command_lines(parse_task(task), 9)
    assert lines["normal"] == '--IN=${IN} --geometry=A,B --max=${MAXEVENTS} --out="${OUTPUT0}" --out=${OUTPUT1}'
    assert lines["merge"] is None


def test_constants_that_name_outputs_are_filled_in_with_what_each_job_writes() -> None:
    names = {"out.root": "user.a.$JEDITASKID._${SN/P}.out.root", "root": "user.a.$JEDITASKID._${SN/P}.out.root.idx"}
    hidden = [output("x", value=name, dataset=f"user.a.{key}", hidden=True) for key, name in names.items()]
    given = production(inputs=[an_input(), {"type": "constant", "value": f"-o {names}"}, *hidden])
    given["jobParameters"].pop()
    assert command_lines(parse_task(given), 9)["normal"] == (
        "--IN=${IN} -o {'out.root': '${OUTPUT0}', 'root': '${OUTPUT1}'}"
    )


def test_a_container_of_the_same_name_gets_a_dataset_with_the_task_s_id() -> None:
    task = production()
    task["jobParameters"] = [an_input(), output("ntuple", dataset="user.a.ntuple/", container="user.a.ntuple/")]
    [first, *_] = plan_outputs(parse_task(task), 5).datasets
    assert (first.name, first.container, first.scope) == ("user.a.ntuple.5", "user.a.ntuple", "user.a")


@pytest.mark.parametrize(
    ("rule", "units", "by_events", "opened"),
    [
        ({}, [100], False, [10]),
        ({"nFilesPerJob": 5}, [100], False, [50]),
        ({"nFilesPerJob": 5}, [30], False, [30]),
        ({"nFilesPerJob": 2}, [7, 30, 5], False, [7, 13, 0]),
        ({"nFilesPerJob": 5}, [100], True, [10]),
        ({"skipScout": True}, [100, 3], False, [100, 3]),
    ],
)
def test_ten_jobs_worth_is_opened_for_scouts(rule: dict, units: list, by_events: bool, opened: list) -> None:
    assert open_for_scouts(rules_of(rule), units, split_by_events=by_events) == opened


NODES = (
    ShareNode("All"),
    ShareNode("Express", "All", {"processing_type": "urgent"}),
    ShareNode("Group", "All", {"working_group": "(AP|GP)_.*", "prod_source_label": "managed"}),
    ShareNode("Nobody", "All", {"working_group": " $"}),
    ShareNode("Rest", "All", {}),
)


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({"processingType": "urgent", "workingGroup": "AP_X"}, "Express"),
        ({"workingGroup": "GP_X"}, "Group"),
        ({}, "Nobody"),
        ({"workingGroup": "XX"}, "Rest"),
        ({"gshare": "Rest", "processingType": "urgent"}, "Rest"),
        ({"gshare": "All"}, None),
    ],
)
def test_the_first_leaf_whose_expressions_all_match_is_the_share(changes: dict, share: str | None) -> None:
    assert share_for(spec_of(**changes), "MCORE", NODES) == share


def test_without_shares_every_task_is_in_one_and_without_a_match_in_none() -> None:
    assert share_for(spec_of(), "MCORE", ()) == "Undefined"
    assert share_for(spec_of(), "MCORE", (ShareNode("A", None, {"vo": "cms"}),)) is None


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"coreCount": 8, "ramCount": 2000}, "MCORE"),
        ({"coreCount": 8, "ramCount": 2300}, "MCORE_HIMEM"),
        ({"coreCount": 1, "ramCount": 2200, "ramUnit": "MB"}, "SCORE"),
        ({"coreCount": 1, "ramCount": 4000, "ramUnit": "MB"}, "SCORE_HIMEM"),
        ({"coreCount": None, "ramCount": 100, "ramUnit": "MB"}, "SCORE"),
        ({"coreCount": 0, "ramCount": 100}, "MCORE"),
    ],
)
def test_cores_and_memory_make_the_resource_type(changes: dict, name: str) -> None:
    assert resource_type_for(spec_of(**changes), DEFAULT_RESOURCE_TYPES) == name


def test_analysis_has_defaults_of_its_own() -> None:
    row = parse_task(analysis()).columns()
    assert (row["max_attempt"], row["max_failure"], row["ram_count"], row["out_disk_count"]) == (10, 3, 2000, 500)
    assert parse_task(analysis(disableAutoRetry=True)).columns()["max_attempt"] == 1


def test_the_newest_throughput_counts_and_closeness_stands_in_for_it() -> None:
    metrics = {"dashb_mbps_1h": 30.0, "dashb_mbps_1d": 10.0, "AGIS_closeness": 0.0}
    assert throughput_mb_s(metrics) == 30.0
    assert throughput_mb_s({"dashb_mbps_1w": 5.0}) == 5.0
    assert throughput_mb_s({"AGIS_closeness": 0.0}) == 100.0
    assert throughput_mb_s({"AGIS_closeness": 11.0}) < throughput_mb_s({}) < 100.0
    assert throughput_mb_s({}, same_site=True) > 100.0


def test_a_speed_up_shortens_waiting_and_moving() -> None:
    assert duration_s(100 * 1024**2, 10.0, Speed(1.0, 5.0)) == pytest.approx(15.0)
    assert duration_s(100 * 1024**2, 10.0, Speed(100.0, 5.0)) == pytest.approx(0.15)
    assert [fails(0.049, Speed(failure_percent=5)), fails(0.05, Speed(failure_percent=5))] == [True, False]


def test_unknown_input_is_left_out_where_the_task_ignores_what_is_missing_and_has_other_input() -> None:
    inputs = [an_input("mc.evnt,mc.gone")]
    assert isinstance(refine(spec_of(inputs=inputs), 7, DefinitionFacts(KNOWN)), DefinitionRefused)
    plan = plan_of(inputs=inputs, ignoreMissingInDS=True)
    assert [one.name for one in plan.inputs] == ["mc.evnt"]
    only_gone = spec_of(inputs=[an_input("mc.gone")], ignoreMissingInDS=True)
    assert isinstance(refine(only_gone, 7, DefinitionFacts(KNOWN)), DefinitionRefused)


@pytest.mark.parametrize(("n_files", "reused"), [(39, True), (40, False)])
def test_secondary_input_is_reused_on_demand_only_where_its_files_are_too_few(n_files: int, reused: bool) -> None:
    datasets = {**KNOWN, "mc.more": DatasetFacts("mc.more", "mc", "dataset", "frozen", n_files, 0, 0)}
    inputs = [an_input(), an_input("mc.more", "MORE", ratio=2.0)]
    plan = plan_of(datasets, inputs=inputs, reuseSecOnDemand=True)
    assert [one.attributes.get("reusable", False) for one in plan.inputs] == [False, reused]
    assert [one.files_per_master_file for one in plan.inputs] == [None, None if reused else 2.0]
    assert not plan_of(datasets, inputs=inputs).inputs[1].attributes.get("reusable")


def test_a_task_without_input_of_its_own_reads_secondaries_and_the_database_release_with_every_job() -> None:
    release = "ddo.000001.DBRelease.v1"
    facts = {**KNOWN, release: DatasetFacts(release, "ddo", "dataset", "frozen", 1, None, None)}
    items = [an_input("mc.evnt", "IN2"), an_input(release, "DBR")]
    plan = plan_of(facts, inputs=items, noInput=True, nFiles=4)
    assert plan.pseudo is not None and plan.pseudo.n_rows == 4
    assert [(one.stream, one.is_master, one.attributes) for one in plan.inputs] == [
        ("IN2", False, {}),
        ("DBR", False, {"repeat": True, "nosplit": True}),
    ]


def test_events_alone_without_input_are_those_of_one_job() -> None:
    alone = plan_of(inputs=[], noInput=True, nFilesPerJob=None, nEvents=500).pseudo
    assert alone is not None and (alone.n_rows, alone.events_per_row, alone.n_events) == (1, 500, 500)
    cut = plan_of(inputs=[], noInput=True, nFilesPerJob=None, nEvents=500, nEventsPerJob=200).pseudo
    assert cut is not None and (cut.n_rows, cut.events_per_row, cut.n_events) == (3, 200, 500)


def test_log_merge_is_a_log_dataset_that_has_no_unmerged_one() -> None:
    spec = parse_task(production(mergeOutput=True, log=log("x"), log_merge=log("y")))
    outputs = plan_outputs(spec, 7)
    assert [(one.name, one.type) for one in outputs.datasets if one.stream == "LOG_MERGE"] == [("mc.y.log", "log")]
    assert [one.file_name_template for one in outputs.templates if one.stream == "LOG_MERGE"] == [
        "log.y.7._${SN/P}.tgz.1"
    ]


def test_log_merge_may_be_the_output_that_logs_are_merged_into() -> None:
    merge_log = {**log("y"), "param_type": "output", "mergeOnly": True}
    outputs = plan_outputs(parse_task(production(mergeOutput=True, log=log("x"), log_merge=merge_log)), 7)
    found = [(one.name, one.type, one.attributes) for one in outputs.datasets if one.stream == "LOG_MERGE"]
    assert found == [("mc.y.log", "output", {"mergeOnly": True})]


def test_log_merge_of_a_task_without_merge_jobs_is_refused() -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(log=log("x"), log_merge=log("y")))
    assert [one.field for one in refused.value.problems] == ["log_merge"]
