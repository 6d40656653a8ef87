"""A task in the words of PanDA's client: jediTaskID, taskName, times as text, percentages of files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from shared.states.task import TASK, TaskStatus

_SPECIAL = {
    "task_id": "jediTaskID",
    "req_id": "reqID",
    "parent_tid": "parent_tid",
    "creation_date": "creationDate",
    "gshare": "gshare",
}
_LEFT_OUT = ("files", "jobs")
_FINAL: tuple[TaskStatus, ...] = ("done", "finished", "failed", "broken", "aborted")
_ON_THE_WAY: tuple[TaskStatus, ...] = (
    "ready",
    "pending",
    "scouting",
    "scouted",
    "running",
    "throttled",
    "prepared",
    "finishing",
    "passed",
)


@cache
def name_of(column: str) -> str:
    """``task_name`` -> ``taskName``."""
    first, *rest = column.split("_")
    return _SPECIAL.get(column, first + "".join(word.capitalize() for word in rest))


def as_the_client_knows_it(task: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of a list of tasks; `files` and `jobs` by state become counts and percentages."""
    found = {name_of(key): _text(value) for key, value in task.items() if key not in _LEFT_OUT}
    files = task.get("files") or {}
    total, finished, failed = (int(files.get(name) or 0) for name in ("total", "finished", "failed"))
    found["superStatus"] = super_status(task["status"])
    found |= {"nFiles": total, "nFilesFinished": finished, "nFilesFailed": failed}
    found["pctfinished"] = 100 * finished // total if total else 0
    found["pctfailed"] = 100 * failed // total if total else 0
    if "jobs" in task:
        found["jobs"] = task["jobs"]
    return found


def super_status(status: TaskStatus) -> str:
    """The coarse state by which the client sorts tasks into active and ended ones."""
    if status in _FINAL:
        return status
    return "running" if status in _ON_THE_WAY else "registered"


def statuses_of(super_statuses: Collection[str]) -> list[str]:
    """The states of tasks that the client sorts under these; a name that no task gets here has none.

    Example: of running and submitting it is ready, pending, running, ..., of done it is done alone.
    """
    return [status for status in TASK.meanings if super_status(status) in super_statuses]


def _text(value: Any) -> Any:
    return value.isoformat(" ", "seconds")[:19] if isinstance(value, datetime) else value
