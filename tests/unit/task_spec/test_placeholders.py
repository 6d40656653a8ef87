"""Placeholders that jobs could not fill in are refused at submission, where they stand."""

from __future__ import annotations

from typing import Any

import pytest

from services.task_definition.tasks.policy.outputs import command_lines, plan_outputs
from services.task_definition.tasks.policy.task_spec import parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from tests.handlers.task_definition.world import an_input, log, production


def with_constant(text: str, **changes: Any) -> dict[str, Any]:
    task = production(**changes)
    return {**task, "jobParameters": [*task["jobParameters"], {"type": "constant", "value": text}]}


@pytest.mark.parametrize(
    "text",
    [
        "--in=${IN/T} --first=${IN[0:1]} --list=${IN/F}", "--seed=${RNDMSEED} -n ${MAXEVENTS} -s ${SKIPEVENTS}",
        "${SN} ${SN/P} ${SN/M[#*10]} ${ATTEMPTNR} ${FIRSTEVENT} ${SEQNUMBER} ${SURL} ${PANDAID}",
        "$JEDITASKID $ORIGINPANDAID ${OUTPUT0} ${LOG0} ${OUTPUT0,LOG0/L}", "${SN/M[1/(#-1)]}",
        "<PANDA_ES_ONLY>${ANYTHING}</PANDA_ES_ONLY> $HOME {x}",
    ],
)  # fmt: skip
def test_what_jobs_can_fill_in_is_accepted(text: str) -> None:
    assert parse_task(with_constant(text)).parameters.job_parameters[-1].value == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--in=${IM}", "placeholder ${IM} has no value; known here: ATTEMPTNR"),
        ("${IN,MORE/L}", "placeholder ${IN,MORE} has no value"),
        ("${OUTPUT1}", "placeholder ${OUTPUT1} has no value"),
        ("${OUTPUT0/F}", "placeholder ${OUTPUT0/F} has no value; known here: IN"),
        ("${TRN_OUTPUT:OUTPUT}", "placeholder ${TRN_OUTPUT:OUTPUT} has no value"),
        ("${LIB}", "placeholder ${LIB} has no value"),
        ("${SOURCENAME}", "files of this version are not renamed"),
        ("${MAXSERIALNR}", "the end of serial numbers"),
        ("${IN/Z}", "unknown decorator; allowed: /L"),
        ("${SN/M[import]}", "formula 'import'"),
        ("--in=${IN", "${IN: has no closing bracket"),
        ("${IN/L} ${SN/P", "${SN/P: has no closing bracket"),
    ],
)
def test_an_unknown_stream_placeholder_or_decorator_is_refused_with_its_place(text: str, told: str) -> None:
    task = with_constant(text)
    with pytest.raises(InvalidTask) as refused:
        parse_task(task)
    place = f"jobParameters.{len(task['jobParameters']) - 1}.value"
    assert [one.field for one in refused.value.problems] == [place]
    assert told in refused.value.problems[0].allowed


def test_a_secondary_input_is_known_by_its_own_name() -> None:
    inputs = [an_input(), an_input("mc.more", "MORE")]
    assert parse_task(with_constant("${MORE/L} ${IN,MORE/L}", inputs=inputs))


def test_merge_jobs_know_unmerged_and_merged_streams_and_nothing_of_the_input() -> None:
    merged = production(mergeOutput=True, log=log("x"), mergeSpec={"jobParameters": "-t ${TRN_OUTPUT:OUTPUT} ${LOG0}"})
    assert parse_task(merged)
    with pytest.raises(InvalidTask) as refused:
        parse_task({**merged, "mergeSpec": {"jobParameters": "${IN}"}})
    assert [one.field for one in refused.value.problems] == ["mergeSpec.jobParameters"]


def test_a_file_s_name_knows_its_number_and_its_task_only() -> None:
    assert parse_task(production(log={**log("x"), "value": "log.${USERNAME}.$JEDITASKID.${SN}.tgz"}))
    with pytest.raises(InvalidTask) as refused:
        parse_task(production(log={**log("x"), "value": "log.${RNDMSEED}.${SN}.tgz"}))
    assert [one.field for one in refused.value.problems] == ["log.value"]
    assert "placeholder ${RNDMSEED} has no value" in refused.value.problems[0].allowed


BUILD = {"archiveName": "sources.1.tar.gz", "jobParameters": "-i ${IN} -o ${OUT} --sourceURL ${SURL} -r ."}


def test_jobs_know_what_build_jobs_make() -> None:
    task = {**with_constant("-l ${LIB}"), "buildSpec": BUILD, "mergeOutput": True}
    assert parse_task({**task, "mergeSpec": {"jobParameters": "-l ${LIB} ${TRN_OUTPUT0}"}}).split_rule()["useBuild"]
    assert "useBuild" not in parse_task(with_constant("x")).split_rule()


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"jobParameters": "-l ${LIB}"}, "buildSpec.jobParameters", "placeholder ${LIB} has no value; known here: "),
        ({"archiveName": ""}, "buildSpec.archiveName", "not empty"),
        ({"archiveName": None}, "buildSpec.archiveName", ""),
        ({"tarBallViaDDM": "user.ada:x"}, "buildSpec.tarBallViaDDM", ""),
    ],
)
def test_a_build_that_cannot_be_carried_out_is_refused_with_its_place(
    changes: dict[str, object], field: str, told: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        parse_task({**with_constant("-l ${LIB}"), "buildSpec": {**BUILD, **changes}})
    [problem] = [one for one in refused.value.problems if one.field == field]
    assert told in problem.allowed


def test_the_library_has_a_dataset_and_the_build_its_own_command_line() -> None:
    build = {**BUILD, "transPath": "http://s/buildGen", "prodSourceLabel": "panda"}
    spec = parse_task({**with_constant("-l ${LIB}"), "taskName": "user.ada.x/", "buildSpec": build})
    plan, lines = plan_outputs(spec, 9), command_lines(spec, 9)
    [library] = [one for one in plan.datasets if one.stream == "LIB"]
    assert (library.name, library.scope, library.type) == ("user.ada.x.lib.9", "user.ada", "output")
    [template] = [one for one in plan.templates if one.stream == "LIB"]
    assert template.file_name_template == "user.ada.x.lib._${SN}.9.lib.tgz"
    assert lines["build"] == "-i sources.1.tar.gz -o ${LIB} --sourceURL ${SURL} -r ."
    assert (lines["build_trans_path"], lines["build_label"]) == ("http://s/buildGen", "panda")
    assert "-l ${LIB}" in lines["normal"] and "build" not in command_lines(parse_task(with_constant("x")), 9)
