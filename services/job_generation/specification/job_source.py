"""What the jobs of a task are made from: its datasets, templates of names and command lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.job_generation.policy.values import Dataset, Task, Template
from services.job_generation.specification.kind_of_job import KindOfJob


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

    def templates_for(self, kind: KindOfJob) -> list[Template]:
        """The outputs of a kind of job."""
        return kind.templates(self.templates, self.task.rules, self.datasets, self.command_lines)

    def text_for(self, kind: KindOfJob) -> str:
        """The command line of a kind of job. Raises Undefinable."""
        given = [text for line in kind.lines if isinstance(text := self.command_lines.get(line), str)]
        if not given:
            raise Undefinable(f"the task has no command line for {kind.name} jobs")
        return next((text for text in given if text), "")

    def trans_path_for(self, kind: KindOfJob) -> str | None:
        """The transformation of a kind of job where it is not the task's."""
        return self.command_lines.get(kind.trans_path_line) if kind.trans_path_line else None

    def label_for(self, kind: KindOfJob) -> str | None:
        """The label that pilots are told of a kind of job where it is not the task's."""
        return self.command_lines.get(kind.label_line) if kind.label_line else None
