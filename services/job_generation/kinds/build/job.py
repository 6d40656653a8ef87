"""Build jobs: a user's sources become a library, once for each site (PanDA client, prun: buildSpec)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.job_generation.policy.values import Dataset, JobInput, QueueFacts, Task, Template
from services.job_generation.specification.kind_of_job import FINAL_LOGS, AmountOfWork, KindOfJob
from shared.config.parameter import Parameter
from shared.model.dataset_types import LIBRARY_STREAM, MERGE_LOG_STREAM
from shared.task.in_effect import SplitRules

BUILD_JOB_MAX_WALLTIME: Parameter[float | None] = Parameter(
    "jobgen", "BUILD_JOB_MAX_WALLTIME", None, "h", "that a build job may take; else as long as its queue lets it", 1,
    kind="float", per_vo=True,
)  # fmt: skip


class Build(KindOfJob):
    """Writes the library and a log; it reads sources at most, and processes no events."""

    name = "build"
    lines = ("build",)
    trans_path_line = "build_trans_path"
    label_line = "build_label"
    longest_walltime = BUILD_JOB_MAX_WALLTIME
    has_steps = False
    in_express = "express_build"
    takes_turns = False

    def templates(
        self,
        templates: Sequence[Template],
        rules: SplitRules,
        datasets: Mapping[int, Dataset],
        command_lines: Mapping[str, Any],
    ) -> list[Template]:
        """The library and final logs."""
        given = [one for one in templates if one.stream_name != MERGE_LOG_STREAM]
        return [one for one in given if one.stream_name == LIBRARY_STREAM or one.dataset_type in FINAL_LOGS]

    def master_of(self, datasets: Mapping[int, Dataset], job: JobInput) -> int:
        """The library, for it reads no input of the task."""
        return next(key for key, one in datasets.items() if one.stream_name == LIBRARY_STREAM)

    def walltime_s(self, task: Task, queue: QueueFacts, work: AmountOfWork, cores: int) -> float | None:
        """Unknown: the time of events says nothing of it."""
        return None


BUILD = Build()
