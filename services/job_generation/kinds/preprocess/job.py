"""The pre-processing job of a task: it finds out how the task is to be defined.

Source: JEDI, Task status (topreprocess).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.job_generation.policy.values import Dataset, QueueFacts, Task, Template
from services.job_generation.specification.kind_of_job import AmountOfWork, KindOfJob
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules

#: its job may be made, again after one that failed
PREPROCESSING: tuple[TaskStatus, ...] = ("topreprocess", "preprocessing")


class Preprocess(KindOfJob):
    """Reads and writes no files: what it finds out is in the metadata of its last report."""

    name = "preprocess"
    lines = ("preprocess",)
    trans_path_line = "preprocess_trans_path"
    label_line = "preprocess_label"
    has_steps = False
    speaks_for_the_task = False
    chunks_wanted_while = PREPROCESSING
    task_is_held_from = PREPROCESSING

    def templates(
        self,
        templates: Sequence[Template],
        rules: SplitRules,
        datasets: Mapping[int, Dataset],
        command_lines: Mapping[str, Any],
    ) -> list[Template]:
        """None: nothing of the task is defined yet."""
        return []

    def walltime_s(self, task: Task, queue: QueueFacts, work: AmountOfWork, cores: int) -> float | None:
        """Unknown: the time of events says nothing of it."""
        return None


PREPROCESS = Preprocess()
