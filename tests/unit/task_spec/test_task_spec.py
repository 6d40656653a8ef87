from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.task_definition.tasks.policy.outputs import command_lines
from services.task_definition.tasks.policy.task_parameters.table import known_fields
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from shared.model.names import bare_name, scope_of
from shared.model.task_spec_problems import problem
from shared.task.in_effect import rules_of
from tests.handlers.task_definition.world import an_input, log, output, production
from tests.unit.task_spec.refusals import problems_of

EXAMPLES = sorted((Path(__file__).parents[3] / "deploy" / "examples" / "tasks").glob("*.json"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_tasks_are_valid(path: Path) -> None:
    parameters = json.loads(path.read_text())
    assert parse_task(parameters).parameters.task_name == parameters["taskName"]


def test_a_task_as_the_field_s_client_makes_it_is_valid() -> None:
    spec = parse_task(
        {
            "taskName": "user.alice.test/", "uniqueTaskName": True, "vo": "atlas", "architecture": "", "transUses": "",
            "transHome": None, "processingType": "panda-client-2.2.0-jedi-run", "prodSourceLabel": "user", "site": None,
            "taskType": "anal", "taskPriority": 1000, "userName": "alice", "noEmail": True, "nMaxFilesPerJob": 200,
            "respectSplitRule": True, "sourceURL": "https://cache:25443", "noInput": True, "nEvents": 20,
            "nEventsPerJob": 1, "cliParams": "prun --nJobs 20", "osInfo": "Linux",
            "jobParameters": [
                {"type": "constant", "value": '-j "" --sourceURL ${SURL}'}, {"type": "constant", "value": "-r ."},
                {"type": "constant", "value": '-p "', "padding": False},
                {"type": "constant", "value": "run.sh%20${SN/P}", "padding": False},
                {"type": "constant", "value": '"'},
                {
                    "type": "template", "param_type": "output", "container": "user.alice.test_out.root/",
                    "value": "user.alice.$JEDITASKID._${SN/P}.out.root", "dataset": "user.alice.test_out.root/",
                    "hidden": True,
                },
                {"type": "constant", "value": "-o \"{'out.root': 'user.alice.$JEDITASKID._${SN/P}.out.root'}\""},
            ],
            "log": {
                "dataset": "user.alice.test.log/", "container": "user.alice.test.log/", "type": "template",
                "param_type": "log", "value": "user.alice.test.log.$JEDITASKID.${SN}.log.tgz",
            },
        }
    )  # fmt: skip
    assert spec.no_input
    assert spec.split_rule()["nEventsPerJob"] == 1


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"taskName": ""}, "taskName", "is needed"),
        ({"taskName": "x" * 133}, "taskName", "132"),
        ({"vo": "v" * 17}, "vo", "16"),
        ({"taskType": "production"}, "taskType", "'prod' or 'anal'"),
        ({"nFilesPerJob": "two"}, "nFilesPerJob", "whole number"),
        ({"nFilesPerJob": "2.5"}, "nFilesPerJob", "whole number"),
        ({"nFilesPerJob": "0"}, "nFilesPerJob", "1 or more"),
        ({"nFilesPerJob": 2.5}, "nFilesPerJob", "whole number"),
        ({"nFilesPerJob": True}, "nFilesPerJob", "whole number"),
        ({"nFiles": 0}, "nFiles", "1 or more"),
        ({"coreCount": 5000}, "coreCount", "1024 or less"),
        ({"cpuTime": float("nan")}, "cpuTime", "finite"),
        ({"goal": -1}, "goal", "0 or more"),
        ({"skipScout": "yes"}, "skipScout", "true or false"),
        ({"ramUnit": "MegaBytes"}, "ramUnit", "MBPerCore"),
        ({"outDiskUnit": "kBPerMoon"}, "outDiskUnit", "kBPerEvent"),
        ({"cpuTimeUnit": "seconds"}, "cpuTimeUnit", "HS06sPerEvent"),
        ({"nFilesPerJobs": 2}, "nFilesPerJobs", "did you mean nFilesPerJob?"),
        ({"memory": 2000}, "memory", "unknown field"),
        ({"maxFailure": 9, "maxAttempt": 3}, "maxFailure", "maxAttempt (3)"),
        ({"maxCoreCount": 4}, "maxCoreCount", "coreCount (8)"),
        ({"excludedSite": [""]}, "excludedSite.0", "not empty"),
        ({"useZipToPin": True}, "useZipToPin", "not supported"),
        ({"ipConnectivity": "full#IPv9"}, "ipConnectivity", "#IPv4 or #IPv6"),
        ({"ipConnectivity": "wifi"}, "ipConnectivity", "full, http, none"),
        ({"architecture": "x86_64-(el9-gcc13-opt"}, "architecture", "not a regular expression"),
        ({"architecture": {"platform": "x"}}, "architecture", "keys platform are unknown"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_allowed(changes: dict, field: str, said: str) -> None:
    assert said in problems_of(production(**changes))[field]


@pytest.mark.parametrize(
    ("item", "field", "said"),
    [
        ({"type": "variable", "value": "x"}, "type", "'constant' or 'template'"),
        ({"type": "template", "value": "x"}, "param_type", "needed"),
        (an_input(value="no placeholder"), "value", "${IN}"),
        ({"type": "template", "param_type": "input", "value": "-i ${IN2}"}, "dataset", "needed"),
        (an_input(stream="X", attributes="nosplit,rateo=2"), "attributes", "unknown attribute 'rateo'"),
        (an_input(stream="X", ratio=0), "ratio", "more than 0"),
        (an_input(stream="X", include="["), "include", "regular expression"),
        (output("o", value="--out=fixed.root"), "value", "${SN}"),
        (output("o", value="--out=a b ${SN}"), "value", "blanks"),
        (output("o", value="regex|"), "value", "an expression that is found in names of files"),
        (output("o", value="regex|a{1,2}"), "value", "without commas and blanks"),
        (output("o", value="regex|a (b)"), "value", "without commas and blanks"),
        (output("o", value="regex|a("), "value", "'a(' is not a regular expression"),
        (output("o", value="regex|(?=a)b"), "value", "no look-ahead"),
        (output("o", value="regex|" + "a" * 250), "value", "at most 241 characters"),
        ({**log("o"), "type": "template", "param_type": "log", "value": "regex|a"}, "value", "a log is one file"),
        (output("o", dataset="one,two"), "dataset", "exactly one"),
        (output("o", dataset="mc." + "x" * 250), "dataset", "246"),
        (output("o", datasett="x"), "datasett", "did you mean dataset?"),
    ],
)
def test_a_wrong_item_is_named_by_its_place(item: dict, field: str, said: str) -> None:
    task = production()
    task["jobParameters"] = [an_input(), item]
    assert said in problems_of(task)[f"jobParameters.1.{field}"]


def test_of_a_constant_only_the_text_counts_whatever_dataset_it_repeats() -> None:
    repeated = {"type": "constant", "param_type": "input", "value": "--inputAODFile ", "dataset": "mc.evnt"}
    spec = parse_task(production(inputs=[repeated, an_input()]))
    assert [item.dataset for item in spec.inputs] == ["mc.evnt"]
    assert command_lines(spec, 1)["normal"].startswith("--inputAODFile  --IN=${IN} ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-l ${LIB}", "placeholder ${LIB} has no value"),
        ("--n=${SN/M[__import__('os')]}", "numbers and # with"),
        ("--n=${SN/M[#**9]}", "numbers and # with"),
        ("--n=${SN/M[#+]}", "numbers and # with"),
        ("--in=${IN/X}", "unknown decorator"),
        ("--in=${IN,IN2/F}", "one whole input"),
    ],
)
def test_a_placeholder_that_jobs_would_get_wrong_is_refused_with_its_place(text: str, said: str) -> None:
    given = production()
    given["jobParameters"].append({"type": "constant", "value": text})
    place = f"jobParameters.{len(given['jobParameters']) - 1}.value"
    assert said in problems_of(given)[place]
    merging = {"jobParameters": text}
    assert said in problems_of(production(mergeOutput=True, mergeSpec=merging))["mergeSpec.jobParameters"]
    given["jobParameters"][-1]["value"] = f"<PANDA_ES_ONLY>{text}</PANDA_ES_ONLY>"
    assert parse_task(given).parameters.task_name


def test_decorators_that_are_filled_in_are_accepted() -> None:
    given = production()
    text = (
        "${IN/L} ${IN/L/S/A} ${IN/LS} ${IN/T} ${IN/E} ${SN/P} ${IN/F} ${SN/M[(#-1)*10]} ${SN/M[1/(#-1)]} ${IN[0:2]/L}"
    )
    given["jobParameters"].append({"type": "constant", "value": text})
    assert parse_task(given).parameters.task_name


def test_every_problem_is_listed_at_once() -> None:
    found = problems_of(production("", nFiles=-1, vo=5, maxAttempt=1000, colour="red"))
    assert set(found) == {"taskName", "nFiles", "vo", "maxAttempt", "colour", "jobParameters.1.value"}


@pytest.mark.parametrize("parameters", [None, [], "task", 5])
def test_what_is_not_an_object_is_refused(parameters: Any) -> None:
    assert problems_of(parameters) == {"task_parameters": "allowed: an object"}


def test_a_task_without_anything_names_every_needed_field() -> None:
    assert set(problems_of({})) == {"taskName", "vo", "prodSourceLabel", "taskType", "jobParameters"}


def test_no_input_needs_a_number_of_events_or_files() -> None:
    task = production(inputs=[], noInput=True, nFilesPerJob=None)
    assert "nEvents" in problems_of(task)
    assert parse_task({**task, "nEvents": 100}).no_input
    assert parse_task({**task, "nFiles": 10}).no_input


def test_null_and_empty_text_count_as_not_given() -> None:
    spec = parse_task({**production(), "transPath": None, "site": "", "goal": None, "taskPriority": None})
    row = spec.columns()
    assert (row["trans_path"], row["site"], row["goal"], row["task_priority"]) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("given", "base_ram_mb"),
    [
        ({"processingType": "simul"}, 1000),
        ({"processingType": "pile"}, 1500),
        ({"processingType": "reco"}, 1000),
        ({"processingType": "reco", "ramUnit": "MBPerCoreFixed"}, 1000),
        ({"processingType": "reco", "coreCount": 0}, 1000),
        ({"processingType": "evgen"}, None),
        ({"processingType": "simul", "baseRamCount": 0}, 0),
        ({"processingType": "simul", "baseRamCount": 700}, 700),
        ({"processingType": "simul", "ramUnit": "MB"}, None),
        ({"processingType": "simul", "coreCount": 1}, None),
    ],
)
def test_memory_that_cores_share_follows_from_the_kind_of_processing(
    given: dict[str, object], base_ram_mb: int | None
) -> None:
    spec = parse_task({**production(), "coreCount": 8, "ramCount": 1200, "ramUnit": "MBPerCore", **given})
    assert spec.columns()["base_ram_count"] == base_ram_mb


@pytest.mark.parametrize(
    ("stated", "kept"),
    [("90%", "90% of files"), ("90 % of files", "90% of files"), ("99.5% of events", "99.5% of events")],
)
def test_a_condition_of_termination_is_a_percentage_of_files_or_events(stated: str, kept: str) -> None:
    assert parse_task(production(termCondition=stated)).columns()["term_condition"] == kept


@pytest.mark.parametrize("stated", ["0%", "100%", "90", "nFiles > 3", "90% of jobs"])
def test_another_condition_of_termination_is_refused_with_what_is_allowed(stated: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(termCondition=stated))
    assert [one.field for one in refused.value.problems] == ["termCondition"]
    assert "'90% of files'" in str(refused.value)


def test_numbers_may_be_texts_and_a_job_may_ask_for_more_files_than_there_are() -> None:
    spec = parse_task(production(nFilesPerJob=" 20", nFiles="3", goal="99.5", skipFilesUsedBy="5, 6", walltime="60"))
    given = spec.parameters
    assert (given.n_files_per_job, given.n_files, given.goal) == (20, 3, 99.5)
    assert (spec.submitted["walltime"], given.skip_files_used_by) == (60, [5, 6])


def test_the_image_of_a_container_is_stated_or_stands_behind_the_platform_or_in_the_command_line() -> None:
    def image(**changes: Any) -> tuple[str | None, str | None]:
        columns = parse_task(production(**changes)).columns()
        return columns["architecture"], columns["container_name"]

    behind, option = (
        "x86_64-el9-gcc13-opt+docker://repo/b:1",
        {"type": "constant", "value": "--containerImage docker://c"},
    )
    assert image(architecture=behind) == ("x86_64-el9-gcc13-opt", "docker://repo/b:1")
    assert image(inputs=[an_input(), option]) == (None, "docker://c")
    assert image(architecture=behind, inputs=[an_input(), option], container_name="docker://a")[1] == "docker://a"
    assert image(architecture="x86_64-(el9|c7)+-opt") == ("x86_64-(el9|c7)+-opt", None)


def test_a_goal_is_kept_in_per_mille_and_one_over_100_is_dropped() -> None:
    assert parse_task(production(goal=99.5)).columns()["goal"] == 995
    assert parse_task(production(goal=150)).columns()["goal"] is None


def test_a_small_cpu_time_is_kept_in_thousandths() -> None:
    row = parse_task(production(cpuTime=0.25)).columns()
    assert (row["cpu_time"], row["cpu_time_unit"]) == (250, "mHS06sPerEvent")
    row = parse_task(production(cpuTime=900.4, cpuTimeUnit="HS06sPerEventFixed")).columns()
    assert (row["cpu_time"], row["fixed_units"]) == (900, ["cpu_time"])


def test_rules_keep_their_json_names_and_come_back_with_units() -> None:
    rule = parse_task(
        production(nEventsPerFile=500, maxWalltime=12, skipScout=True, ipConnectivity="http")
    ).split_rule()
    assert rule == {
        "nFilesPerJob": 2,
        "nEventsPerInputFile": 500,
        "maxWalltime": 12,
        "skipScout": True,
        "ipConnectivity": "http",
    }
    rules = rules_of(rule)
    assert (rules.max_walltime_h, rules.n_events_per_input_file, rules.skip_scout) == (12, 500, True)


def test_scopes_and_names() -> None:
    assert bare_name("mc23:mc23.1.EVNT/") == "mc23.1.EVNT"
    assert [scope_of(name) for name in ("mc23:x.y", "mc23.1.EVNT", "user.alice.x.y", "group.phys.z")] == [
        "mc23",
        "mc23",
        "user.alice",
        "group.phys",
    ]


def test_a_log_may_be_a_list() -> None:
    spec = parse_task(production(log=[log("a"), log("b")]))
    assert len(spec.parameters.logs()) == 2


@given(
    st.dictionaries(
        st.sampled_from(sorted(known_fields())) | st.text(max_size=8),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=5)
        | st.lists(st.integers(), max_size=2),
        max_size=8,
    )
)
def test_nonsense_is_refused_with_problems_and_never_breaks_the_checks(changes: dict) -> None:
    try:
        spec = parse_task({**production(), **changes})
    except InvalidTask as refused:
        assert refused.problems
        assert all(one.field and one.allowed for one in refused.problems)
    else:
        assert spec.columns()["task_name"]


def test_what_the_database_does_not_keep_is_refused_wherever_it_is() -> None:
    bad = production()
    bad["jobParameters"][0]["value"] = "--in=\x00"
    bad["cliParams"] = "half a pair \ud800"
    bad["nFilesPerJob"] = 10**30
    bad["taskPriority"] = "high"
    found = problems_of(bad)
    assert {"jobParameters.0.value", "cliParams", "nFilesPerJob", "taskPriority"} <= found.keys()
    assert "NUL" in found["jobParameters.0.value"]
    assert "\\ud800" in "".join(problems_of({**production(), "\ud800": 1})).encode("utf-8").decode()


def test_nesting_without_end_is_refused() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    assert any("nesting" in allowed for allowed in problems_of({**production(), "cliParams": deep}).values())


@pytest.mark.parametrize("besides", [{}, {"coreCount": "eight"}], ids=["well-formed", "malformed"])
def test_an_unknown_unit_is_told_once_with_its_value_and_with_everything_else(besides: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(ramUnit="parsecs", **besides))
    told = {one.field: str(one) for one in refused.value.problems}
    assert set(told) == {"ramUnit", *besides}
    assert told["ramUnit"] == "ramUnit = 'parsecs': unknown unit; allowed: MB, MBFixed, MBPerCore, MBPerCoreFixed"


@pytest.mark.parametrize("field", ["includedSite", "excludedSite"])
@pytest.mark.parametrize("sent", [["A"] * 5001, "A," * 5000 + "A"])
def test_so_many_sites_are_refused_before_any_is_looked_at(field: str, sent: Any) -> None:
    assert "5001 are not allowed; at most 5000 are" in problems_of(production(**{field: sent}))[field]
    parse_task(production(**{field: ["A"] * 5000}))


def test_so_many_expressions_or_logs_are_refused_before_any_is_looked_at() -> None:
    item = an_input(include=["("] * 101, exclude="(," * 100 + "(")
    found = problems_of(production(jobParameters=[item], log=[log("log.1")] * 101))
    for field in ("jobParameters.0.include", "jobParameters.0.exclude", "log"):
        assert "101 are not allowed; at most 100 are" in found[field], found


def test_truth_values_are_told_as_they_are_written_in_json() -> None:
    assert problem("noInput", True, "allowed: a text").value == "true"
