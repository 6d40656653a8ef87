"""What the jobs of a task are made from: its datasets, templates of names and command lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.job_generation.policy.values import Dataset, Task, Template
from shared.model.dataset_types import LIBRARY_STREAM, UNMERGED_TYPES

#: logs that are not merged
FINAL_LOGS = ("log", "tmpl_log")


class Undefinable(Exception):
    """The task's definition makes no jobs; the text says why. Nothing of them was written yet."""


@dataclass(frozen=True)
class JobSource:
    """What the jobs of a task are made from.

    `at_site`: by template dataset and site the dataset that takes its place there.
    """

    task: Task
    datasets: Mapping[int, Dataset]
    templates: Sequence[Template]
    command_lines: Mapping[str, Any]
    at_site: Mapping[tuple[int, str], Dataset] = field(default_factory=dict)

    def templates_for(self, kind: str) -> list[Template]:
        """Jobs of a task that merges write unmerged files, its merge jobs final ones, builds the library."""
        if kind == "build":
            return [
                one for one in self.templates if one.stream_name == LIBRARY_STREAM or one.dataset_type in FINAL_LOGS
            ]
        unmerged = kind != "merge" and self.task.rules.merge_output
        others = [one for one in self.templates if one.stream_name != LIBRARY_STREAM]
        final = [one for one in others if one.dataset_type not in UNMERGED_TYPES]
        return (
            [one for one in others if one.dataset_type in UNMERGED_TYPES]
            if unmerged
            else [
                one for one in final if kind == "merge" or not self.datasets[one.dataset_id].attributes.get("mergeOnly")
            ]
        )

    def text_for(self, kind: str) -> str:
        """The command line of a kind of job."""
        text = self.command_lines.get(kind if kind in ("merge", "build") else "normal")
        if not isinstance(text, str):
            raise Undefinable(f"the task has no command line for {kind} jobs")
        return text
