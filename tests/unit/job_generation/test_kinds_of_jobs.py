"""Each kind of job is one strategy, and nothing else asks for its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from services.job_brokerage.policy import kinds as brokered
from services.job_generation.kinds.build.job import BUILD
from services.job_generation.kinds.event_service.job import EVENT_SERVICE_MERGE, consumer
from services.job_generation.kinds.jumbo.job import JUMBO
from services.job_generation.kinds.merge.job import MERGE
from services.job_generation.kinds.registered import kind_of
from services.job_generation.parameters import most_walltime_s
from services.job_generation.policy.values import Template
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.specification.kind_of_job import NORMAL, SCOUT, KindOfJob
from services.job_generation.splitting.limits import Totals
from shared.config.parameters import Parameters
from shared.model.units import Ram
from shared.task.stored import named
from tests.unit.job_generation.made import a_dataset, a_queue, a_task

ROOT = Path(__file__).resolve().parents[3]
TYPES = {1: "output", 2: "trn_output", 3: "log", 4: "trn_log", 5: "output", 6: "log"}
STREAMS = {1: "OUTPUT0", 2: "OUTPUT0", 3: "LOG0", 4: "LOG0", 5: "LIB", 6: "LOG_MERGE"}
LINES = {"normal": "run", "merge": "merge %{TRN_OUTPUT0}", "build": "make", "merge_trans_path": "/merge"}


def a_source(lines: dict[str, Any] | None = None, rule: dict[str, Any] | None = None, **task: Any) -> JobSource:
    datasets = {key: a_dataset(key, kind) for key, kind in TYPES.items()}
    templates = [Template(key, key, f"x.{key}", STREAMS[key], kind) for key, kind in TYPES.items()]
    return JobSource(a_task(rule, **task), datasets, templates, LINES if lines is None else lines)


@pytest.mark.parametrize(
    ("kind", "rule", "expected"),
    [
        (NORMAL, {}, {1, 3}),
        (SCOUT, {}, {1, 3}),
        (NORMAL, {"mergeOutput": 1}, {2, 4}),
        (MERGE, {"mergeOutput": 1}, {1, 6}),
        (EVENT_SERVICE_MERGE, {"mergeOutput": 1}, {1, 6}),
        (BUILD, {"mergeOutput": 1}, {3, 5}),
        (JUMBO, {}, {1, 3}),
    ],
)
def test_each_kind_writes_its_own_outputs(kind: KindOfJob, rule: dict[str, Any], expected: set[int]) -> None:
    assert {one.template_id for one in a_source(rule=rule).templates_for(kind)} == expected


@pytest.mark.parametrize(
    ("kind", "lines", "expected"),
    [
        (NORMAL, LINES, "run"), (SCOUT, LINES, "run"), (JUMBO, LINES, "run"), (MERGE, LINES, LINES["merge"]),
        (BUILD, LINES, "make"), (EVENT_SERVICE_MERGE, LINES, "run"),
        (EVENT_SERVICE_MERGE, {**LINES, "es_merge": "unite"}, "unite"), (consumer("scout"), LINES, "run"),
    ],
)  # fmt: skip
def test_each_kind_has_its_command_line(kind: KindOfJob, lines: dict[str, Any], expected: str) -> None:
    assert a_source(lines).text_for(kind) == expected


def test_a_kind_without_a_command_line_is_named() -> None:
    with pytest.raises(Undefinable, match="no command line for build jobs"):
        a_source({"normal": "run"}).text_for(BUILD)


def test_only_kinds_with_a_transformation_of_their_own_replace_that_of_the_task() -> None:
    source = a_source()
    assert [source.trans_path_for(one) for one in (NORMAL, MERGE, BUILD)] == [None, "/merge", None]


def test_each_kind_needs_its_own_cores_output_and_time() -> None:
    task = a_task(merge_core_count=4, merge_walltime_s=77, merge_ram=Ram(100, per_core=True, fixed=False), core_count=8)
    queue, totals = a_queue(core_count=8), Totals(1, 0, 10, 1000, 500.0)
    found = {
        one.name: (one.cores(task, queue), one.walltime_s(task, queue, totals, 1), one.output_bytes(task, totals))
        for one in (MERGE, BUILD)
    }
    assert found["merge"] == (4, 77, 1000.0)
    assert found["build"][:2] == (8, None)
    assert MERGE.needs(task).ram_mb == 100 and NORMAL.needs(task) is task.needs


@pytest.mark.parametrize(("stated", "expected"), [(None, True), (False, False), (True, True)])
def test_merge_jobs_copy_their_input_as_merge_spec_says(stated: bool | None, expected: bool) -> None:
    task = a_task({"useLocalIO": 1, **({} if stated is None else named(merges_from_scratch=int(stated)))})
    assert NORMAL.copies_to_scratch(task)
    assert MERGE.copies_to_scratch(task) is expected


def test_merge_and_build_jobs_alone_have_limits_of_their_walltime() -> None:
    limits = {one.name: one.longest_walltime for one in (NORMAL, SCOUT, MERGE, BUILD, JUMBO)}
    assert {name: one.key for name, one in limits.items() if one is not None} == {
        "merge": "MERGE_JOB_MAX_WALLTIME",
        "build": "BUILD_JOB_MAX_WALLTIME",
    }
    assert most_walltime_s(Parameters(), a_task(), NORMAL) is None


def test_consumers_keep_the_kind_of_their_chunk_and_write_their_log_alone() -> None:
    assert [consumer(one).name for one in ("scout", "normal")] == ["scout", "normal"]
    assert not consumer("normal").writes_outputs and EVENT_SERVICE_MERGE.writes_outputs
    assert not JUMBO.belongs_to_a_set


@pytest.mark.parametrize("name", ["scout", "normal", "merge"])
def test_generation_and_brokerage_know_the_same_kinds(name: str) -> None:
    assert kind_of(name).name == name
    assert brokered.kind_of({"kind": name}).is_merge is kind_of(name).reads_outputs


def test_no_module_beside_the_strategies_asks_for_the_name_of_a_kind() -> None:
    """`kind == "merge"` and its like are answered by the strategies."""
    test = re.compile(
        r"""(kind|job_type)["\])]* (==|!=|in|not in) \(?["'](merge|build|scout|normal|jumbo|preprocess)"""
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for service in ("job_generation", "job_brokerage", "job_dispatch")
        for path in sorted((ROOT / "services" / service).rglob("*.py"))
        for line in path.read_text().splitlines()
        if test.search(line)
    ]
    assert found == []
