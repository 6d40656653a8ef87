"""What the jobs of a task are made from: its datasets, templates of names and command lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.job_generation.policy.values import Dataset, Task, Template
from shared.model import command_line
from shared.model.dataset_types import LIBRARY_STREAM, MERGE_LOG_STREAM, UNMERGED_TYPES

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
        others = [one for one in self.templates if one.stream_name != MERGE_LOG_STREAM]
        if kind == "build":
            return [one for one in others if one.stream_name == LIBRARY_STREAM or one.dataset_type in FINAL_LOGS]
        if kind == "merge":
            return self._of_merges([one for one in self.templates if one.stream_name != LIBRARY_STREAM])
        others = [one for one in others if one.stream_name != LIBRARY_STREAM]
        if self.task.rules.merge_output:
            return [one for one in others if one.dataset_type in UNMERGED_TYPES]
        final = [one for one in others if one.dataset_type not in UNMERGED_TYPES]
        return [one for one in final if not self.datasets[one.dataset_id].attributes.get("mergeOnly")]

    def _of_merges(self, templates: Sequence[Template]) -> list[Template]:
        """What merge jobs write. Where they have a log of their own (log_merge), logs of the task are outputs.

        Those are written as far as the command line reads unmerged logs or names merged ones.
        """
        final = [one for one in templates if one.dataset_type not in UNMERGED_TYPES]
        if not any(one.stream_name == MERGE_LOG_STREAM for one in final):
            return final
        lines = [str(self.command_lines.get(kind) or "") for kind in ("merge", "es_merge")]
        return [one for one in final if not one.is_log or _is_written(one.stream_name, lines)]

    def text_for(self, kind: str) -> str:
        """The command line of a kind of job."""
        text = self.command_lines.get(kind if kind in ("merge", "build") else "normal")
        if not isinstance(text, str):
            raise Undefinable(f"the task has no command line for {kind} jobs")
        return text


def _is_written(stream: str, lines: Sequence[str]) -> bool:
    """Whether merge jobs write a log: their own, and one that their command line merges."""
    named = (stream, f"TRN_{stream}")
    return stream == MERGE_LOG_STREAM or any(command_line.reads(line, one) for line in lines for one in named)
