"""The plugin that every VO without its own uses passes the test that VOs' own plugins must pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from services.job_generation.policy.plugin import JobGeneration, SplitRequest
from shared.plugins.conformance import PluginConformance
from tests.unit.job_generation.made import a_queue, a_task, some_units
from tests.unit.job_generation.test_policies import build


class TestGreedyGeneration(PluginConformance):
    group, vo, label = "orrery.job_generation", "demo", "managed"
    methods = ("split", "build")

    def examples(self) -> Iterable[tuple[str, tuple[Any, ...]]]:
        request = SplitRequest(a_task({"nFilesPerJob": 2}), some_units(9), [], [a_queue("A"), a_queue("B")], False, 3)
        yield "split", (request, 17)
        yield "build", (build().request,)

    def test_it_is_a_job_generation(self) -> None:
        assert isinstance(self.plugin(), JobGeneration)
