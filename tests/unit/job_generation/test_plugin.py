"""The plugin that every VO without its own uses passes the test that VOs' own plugins must pass."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from services.job_generation.generating.example_vo import ExampleGeneration
from services.job_generation.generating.plugin import GreedyGeneration, JobGeneration, MergeRequest, SplitRequest
from services.job_generation.policy.merging import Producer
from shared.plugins import find
from shared.plugins.conformance import PluginConformance
from tests.unit.job_generation.made import a_queue, a_task, some_units
from tests.unit.job_generation.test_policies import build


def to_merge(count: int, *, is_complete: bool = True, size_bytes: int = 10, **rule: Any) -> MergeRequest:
    units = some_units(count, dataset_id=5, size_bytes=size_bytes)
    producers = [Producer(number, (unit,)) for number, unit in enumerate(units, start=1)]
    return MergeRequest(a_task({"mergeOutput": True, **rule}), producers, is_complete)


def sizes(plugin: JobGeneration, request: MergeRequest) -> list[int]:
    return [len(one) for one in plugin.merge_groups(request)]


class TestGreedyGeneration(PluginConformance):
    group, vo, label = "orrery.job_generation", "demo", "managed"
    methods = ("split", "merge_groups", "build")

    def examples(self) -> Iterable[tuple[str, tuple[Any, ...]]]:
        request = SplitRequest(a_task({"nFilesPerJob": 2}), some_units(9), [], [a_queue("A"), a_queue("B")], False, 3)
        yield "split", (request, 17)
        yield "merge_groups", (to_merge(5, nFilesPerMergeJob=2),)
        yield "build", (build().request,)

    def test_it_is_a_job_generation(self) -> None:
        assert isinstance(self.plugin(), JobGeneration)


@pytest.mark.parametrize(
    ("count", "complete", "plain", "even"),
    [(5, True, [4, 1], [3, 2]), (9, True, [4, 4, 1], [3, 3, 3]), (4, True, [4], [4]), (5, False, [4], [4]),
     (0, True, [], [])],
)  # fmt: skip
def test_the_example_vo_merges_equal_numbers_of_outputs(
    count: int, complete: bool, plain: list[int], even: list[int]
) -> None:
    request = to_merge(count, is_complete=complete, nFilesPerMergeJob=4)
    assert (sizes(GreedyGeneration(), request), sizes(ExampleGeneration(), request)) == (plain, even)


def test_the_example_vo_cuts_otherwise_where_bytes_are_the_limit() -> None:
    request = to_merge(3, size_bytes=600 * 1024**2, nGBPerMergeJob=1)
    assert sizes(ExampleGeneration(), request) == [1, 1, 1]


@pytest.mark.parametrize("label", ["managed", "user"])
def test_merging_of_production_and_analysis_has_a_plugin(label: str) -> None:
    assert find("orrery.job_generation", "demo", label) is GreedyGeneration


def test_the_plugin_of_the_example_vo_is_registered() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())
    registered = project["project"]["entry-points"]["orrery.job_generation"]
    assert registered["example.any"] == "services.job_generation.generating.example_vo:ExampleGeneration"
    assert isinstance(ExampleGeneration(), JobGeneration)
