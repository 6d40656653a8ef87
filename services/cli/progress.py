"""How far a task is: files of its master inputs and jobs by state.

The demonstration and `watch` show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from services.cli.client import Client
from services.task_definition.tasks.policy.said import said_now
from shared.model.dataset_types import INPUT_TYPES
from shared.states.task import TaskStatus


@dataclass(frozen=True)
class TaskCounts:
    """Counts at one moment; the files are those of the master inputs."""

    task_id: int
    name: str
    status: TaskStatus
    files_total: int = 0
    files_finished: int = 0
    files_failed: int = 0
    files_used: int = 0
    jobs: Mapping[str, int] = field(default_factory=dict)
    says: str = ""

    @property
    def files_running(self) -> int:
        """Picked or with a job."""
        return max(0, self.files_used - self.files_finished - self.files_failed)

    @property
    def jobs_total(self) -> int:
        return sum(self.jobs.values())

    def line(self) -> str:
        """One line for a log."""
        jobs = ", ".join(f"{count} {state}" for state, count in sorted(self.jobs.items()) if count)
        files = f"files {self.files_finished}/{self.files_total} finished"
        failed = f", {self.files_failed} failed" if self.files_failed else ""
        says = f" ({self.says})" if self.says else ""
        return f"task {self.task_id} {self.status}: {files}{failed}; jobs: {jobs or 'none'}{says}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"files_running": self.files_running}


def task_progress(client: Client, task_id: int) -> TaskCounts:
    """Ask task_definition for one task."""
    details = client.get("task_definition", "task/get_details", task_id=task_id, include_status=True)
    return progress_of(details)


def progress_of(details: Mapping[str, Any]) -> TaskCounts:
    """Read the numbers out of a task's details."""
    task = details["task"] if isinstance(details.get("task"), Mapping) else details
    masters = [
        row for row in details.get("datasets") or [] if row.get("type") in INPUT_TYPES and not row.get("master_id")
    ]

    # of a task of others the files are told without the datasets
    told = details.get("files") if isinstance(details.get("files"), Mapping) else {}

    def total(name: str, of_all: str) -> int:
        return sum(int(row.get(name) or 0) for row in masters) if masters else int((told or {}).get(of_all) or 0)

    jobs = details.get("jobs") if isinstance(details.get("jobs"), Mapping) else {}
    return TaskCounts(
        task_id=int(task["task_id"]),
        name=str(task.get("task_name") or ""),
        status=cast(TaskStatus, str(task.get("status", ""))),
        files_total=total("n_files", "total"),
        files_finished=total("n_files_finished", "finished"),
        files_failed=total("n_files_failed", "failed"),
        files_used=total("n_files_used", "used"),
        jobs={str(state): int(count) for state, count in (jobs or {}).items()},
        says=said_now(task) or str(task.get("withheld") or ""),
    )
