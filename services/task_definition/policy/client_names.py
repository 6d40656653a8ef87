"""A task in the words of PanDA's client: jediTaskID, taskName, times as text, percentages of files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.states.task import TaskStatus

_SPECIAL = {
    "task_id": "jediTaskID",
    "req_id": "reqID",
    "parent_tid": "parent_tid",
    "creation_date": "creationDate",
    "gshare": "gshare",
}
_NAMES_OF_JOB = {
    "job_id": "PandaID", "task_id": "jediTaskID", "status": "jobStatus", "queue": "computingSite",
    "resource_type": "resourceType", "gshare": "gshare", "user_name": "prodUserName",
    "prod_source_label": "prodSourceLabel", "job_type": "jobType", "current_priority": "currentPriority",
    "core_count": "coreCount", "attempt_number": "attemptNr", "creation_time": "creationTime",
    "state_change_time": "stateChangeTime", "start_time": "startTime", "end_time": "endTime",
    "error_source": "errorSource", "error_code": "errorCode", "error_dialog": "errorDialog",
}  # fmt: skip
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


def job_as_the_client_knows_it(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job: what the pilot was given, as far as it is kept, and on top of it what became of the job."""
    return {**(job.get("spec") or {}), **{client: _text(job[column]) for column, client in _NAMES_OF_JOB.items()}}


def super_status(status: TaskStatus) -> str:
    """The coarse state by which the client sorts tasks into active and ended ones."""
    if status in _FINAL:
        return status
    return "running" if status in _ON_THE_WAY else "registered"


def _text(value: Any) -> Any:
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else value
