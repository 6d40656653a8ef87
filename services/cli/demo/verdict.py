"""How the demonstration ended: tasks, what was to be seen, and whether all is as it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from services.cli.demo.evidence import Sight
from services.cli.output import cell, duration
from services.cli.progress import TaskCounts
from shared.model.dataset_types import FINAL_OUTPUT_TYPES


@dataclass(frozen=True)
class TaskVerdict:
    """One task at the end; `expected` is the status it should have."""

    progress: TaskCounts
    expected: str
    outputs: int
    took_s: float | None = None

    @property
    def problem(self) -> str:
        """Why this is not as it should be; empty if it is."""
        task = self.progress
        if task.status != self.expected:
            says = f": {task.says}" if task.says else ""
            return f"task {task.task_id} is {task.status}, not {self.expected}{says}"
        if task.files_finished != task.files_total and self.expected == "done":
            return f"task {task.task_id}: {task.files_finished} of {task.files_total} files are finished"
        if self.outputs == 0 and self.expected in ("done", "finished"):
            return f"task {task.task_id} has no registered output"
        return ""


@dataclass(frozen=True)
class DemoResult:
    """Everything that decides the exit code."""

    tasks: Sequence[TaskVerdict]
    broken_invariants: Sequence[str] = ()
    other_problems: Sequence[str] = field(default_factory=tuple)
    sights: Sequence[Sight] = ()

    @property
    def problems(self) -> list[str]:
        found = [task.problem for task in self.tasks if task.problem]
        unseen = [one.problem for one in self.sights if one.problem]
        return [*found, *unseen, *self.broken_invariants, *self.other_problems]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        rows = [
            task.progress.as_dict() | {"expected": task.expected, "outputs": task.outputs, "took_s": task.took_s}
            for task in self.tasks
        ]
        seen = [one.as_dict() for one in self.sights]
        return {"success": not self.problems, "problems": self.problems, "tasks": rows, "seen": seen}


def judge(
    details: Mapping[str, Any], progress: TaskCounts, *, expected: str = "done", took_s: float | None = None
) -> TaskVerdict:
    """The verdict on one task from its details."""
    outputs = sum(
        int(row.get("n_files_finished") or 0)
        for row in details.get("datasets") or []
        if row.get("type") in FINAL_OUTPUT_TYPES
    )
    return TaskVerdict(progress, expected, outputs, took_s)


def summary_table(verdict: DemoResult) -> Table:
    """The table at the end."""
    table = Table(title="what became of the tasks", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for heading in ("task", "name", "status"):
        table.add_column(heading, overflow="fold")
    for heading in ("files", "failed", "jobs", "finished", "tried again", "outputs", "took"):
        table.add_column(heading, justify="right")
    for one in verdict.tasks:
        task, jobs = one.progress, one.progress.jobs
        table.add_row(
            str(task.task_id),
            cell(task.name),
            cell(task.status),
            f"{task.files_finished}/{task.files_total}",
            str(task.files_failed),
            str(task.jobs_total),
            str(jobs.get("finished", 0)),
            str(sum(jobs.get(state, 0) for state in ("failed", "closed", "cancelled"))),
            str(one.outputs),
            duration(one.took_s) if one.took_s is not None else "",
        )
    return table
