"""What published pilots read of a job's specification (PanDA pilot protocol)."""

from __future__ import annotations

import dataclasses
from base64 import b64decode
from typing import Any

import pytest

from services.job_generation.kinds.registered import kind_of
from services.job_generation.policy.values import Dataset, JobInput, PlacedJob, Template
from services.job_generation.specification.building import Builder, BuildRequest
from tests.unit.job_generation.made import a_dataset, a_queue, a_storage, a_task, some_units

IN_DATASETS = {1: a_dataset(1, name="mc:mc.in.1"), 2: a_dataset(2, name="mc.in.2", stream_name="SEC")}


def specification(
    given: dict[str, Any] | None = None,
    *,
    parameters: str = "${IN} ${OUTPUT0}",
    kind: str = "normal",
    queue: dict[str, Any] | None = None,
    output: Dataset | None = None,
    **values: Any,
) -> dict[str, Any]:
    """The specification of a job with two files of its master, one of a second dataset, one output and a log."""
    task = a_task(given, parameters=given or {}, **values)
    datasets = {
        **IN_DATASETS,
        3: output or a_dataset(3, "output", stream_name="OUTPUT0"),
        4: a_dataset(4, "log", stream_name="LOG0"),
    }
    templates = [
        Template(1, 3, "HITS._${SN/P}.root", "OUTPUT0", "output"),
        Template(2, 4, "log._${SN}.tgz", "LOG0", "log"),
    ]
    taken = JobInput(tuple(some_units(2)), {2: tuple(some_units(1, dataset_id=2))})
    placed = [PlacedJob(a_queue(max_time_s=345_600, write_storages=(a_storage("DISK"),), **(queue or {})), taken)]
    request = BuildRequest(
        task, kind_of(kind), datasets[1], datasets, templates, parameters, placed, [11], {1: 5, 2: 9}, 1
    )
    (job,) = Builder(request).build()
    return job.spec


def test_the_pilot_finds_no_null_and_no_boolean_but_the_looping_check() -> None:
    given = {"debugMode": True, "useSecrets": True, "noExecStrCnv": True, "altStageOut": "on"}
    spec = specification(given, queue={"is_virtual_placement": True})
    assert [name for name, value in spec.items() if value is None] == []
    assert {name for name, value in spec.items() if isinstance(value, bool)} == {"loopingCheck"}


def test_the_pilot_writes_the_lists_of_input_that_the_command_line_names_before_the_payload_starts() -> None:
    spec = specification(parameters="--in=${IN/F} --more=${SEC/F} --again=${IN/F} ${OUTPUT0}")
    assert spec["jobPars"].startswith("--in=tmpin_mc.in.1 --more=tmpin_mc.in.2 --again=tmpin_mc.in.1 ")
    assert spec["writeToFile"] == "tmpin_mc.in.1:f1._00000.root,f1._00001.root^tmpin_mc.in.2:f2._00000.root"
    assert "writeToFile" not in specification()


def test_with_write_input_to_file_the_pilot_writes_the_lists_of_all_input() -> None:
    spec = specification({"writeInputToFile": True}, parameters="--out=${OUTPUT0}")
    assert spec["writeToFile"] == "tmpin_mc.in.1:f1._00000.root,f1._00001.root^tmpin_mc.in.2:f2._00000.root"


def test_the_pilot_is_told_of_prefetching_of_logs_at_an_object_store_and_of_a_cloud_that_stands_for_a_vo() -> None:
    given = {"usePrefetcher": True, "putLogToOS": True, "cloudAsVO": True, "cloud": "WORLD"}
    told = {
        name: specification(given, queue={"cloud": "CERN"}).get(name)
        for name in ("usePrefetcher", "putLogToOS", "cloud")
    }
    assert told == {"usePrefetcher": "True", "putLogToOS": "True", "cloud": "WORLD"}
    assert specification({"cloud": "WORLD"}, queue={"cloud": "CERN"})["cloud"] == "CERN"


@pytest.mark.parametrize(
    ("template", "told"),
    [(r"regex|a.*\.root$", r"regex|a.*\.root$"), (r"regex|^a\.${SN}\.[0-9]+$", r"regex|^a\.000005\.[0-9]+$")],
)
def test_the_pilot_is_told_the_expression_of_an_output_and_its_row_has_the_number_of_the_job_besides(
    template: str, told: str
) -> None:
    optional = a_dataset(3, "output", stream_name="OUTPUT0", attributes={"allowNoOutput": True})
    datasets = {1: a_dataset(1), 3: optional, 4: a_dataset(4, "log", stream_name="LOG0")}
    templates = [Template(1, 3, template, "OUTPUT0", "output"), Template(2, 4, "log._${SN}.tgz", "LOG0", "log")]
    placed = [PlacedJob(a_queue(), JobInput((unit,))) for unit in some_units(2)]
    request = BuildRequest(
        a_task(), kind_of("normal"), datasets[1], datasets, templates, "-o ${OUTPUT0}", placed, [11, 12], {1: 5, 2: 9}
    )
    first, second = Builder(request).build()
    assert (first.spec["outFiles"], first.spec["allowNoOutput"]) == (f"{told},log._000009.tgz", told)
    assert first.spec["jobPars"] == f"-o {told}"
    assert [one.lfn for one in first.outputs] == [f"{told}|000005", "log._000009.tgz"]
    assert second.outputs[0].lfn == f"{told.replace('000005', '000006')}|000006"


def test_the_pilot_lets_outputs_be_absent_whose_dataset_says_so() -> None:
    optional = a_dataset(3, "output", stream_name="OUTPUT0", attributes={"allowNoOutput": True})
    assert specification(output=optional)["allowNoOutput"] == "HITS._000005.root"
    assert "allowNoOutput" not in specification()
    stated = dataclasses.replace(optional, attributes={"allowNoOutput": False})
    assert "allowNoOutput" not in specification(output=stated)


@pytest.mark.parametrize(
    ("given", "queue", "field", "value"),
    [
        ({"altStageOut": "off"}, {}, "altStageOut", "off"),
        ({"debugMode": True}, {}, "debug", "True"),
        ({"noExecStrCnv": True}, {}, "noExecStrCnv", "True"),
        ({}, {"is_virtual_placement": True}, "useVP", "True"),
        ({"container_name": "docker://alma9"}, {}, "container_name", "docker://alma9"),
    ],
)
def test_the_pilot_is_told_what_the_task_or_queue_says_and_nothing_where_they_say_nothing(
    given: dict[str, Any], queue: dict[str, Any], field: str, value: str
) -> None:
    assert specification(given, queue=queue)[field] == value
    assert field not in specification()


@pytest.mark.parametrize(("walltime", "limit_s"), [(None, 0), (0, 0), (-1, 0), (7200, 7200)])
def test_the_pilot_takes_the_cpu_count_for_the_limit_of_looping_so_the_queue_s_longest_time_is_not_sent(
    walltime: int | None, limit_s: int
) -> None:
    spec = specification({"walltime": walltime} if walltime is not None else {})
    assert (spec["maxCpuCount"], spec["maxWalltime"]) == (limit_s, 345_600)


def test_the_pilot_runs_the_steps_around_the_payload_with_its_transformation_and_parameters() -> None:
    steps = {
        "preprocess": {"command": "${TRF}", "args": "--preprocess ${TRF_ARGS}"},
        "postprocess": {"command": "tar", "args": "czf all.tgz ."},
        "coprocess": None,
        "containerOptions": {"containerExec": "sleep 5", "containerImage": "docker://alma9"},
    }
    spec = specification({"multiStepExec": steps})
    assert spec["preprocess"] == {"command": "Sim_tf.py", "args": f"--preprocess {spec['jobPars']}"}
    assert spec["postprocess"] == steps["postprocess"] and spec["containerOptions"] == steps["containerOptions"]
    assert "coprocess" not in spec and "preprocess" not in specification({"multiStepExec": steps}, kind="merge")


def test_the_command_line_is_base64_where_the_task_asks_for_it() -> None:
    spec = specification({"encJobParams": True}, parameters="--in=${IN/L} --cut='a b'")
    assert b64decode(spec["jobPars"]).decode() == "--in=f1._00000.root,f1._00001.root --cut='a b'"
    assert specification(parameters="-n 1")["jobPars"] == "-n 1"
