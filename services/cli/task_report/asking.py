"""Asks the services for all that a report of a task has on it."""

from __future__ import annotations

from typing import Any

from services.cli.client import Client
from services.cli.failures import Refused

#: jobs of which the timeline is made, and those whose reports are read, of each kind of jobs
NEWEST_JOBS, MEASURED = 500, 50


def asked(client: Client, task_id: int) -> dict[str, Any]:
    """Everything told of a task to the one who asks. Raises Refused where it is not told in full."""
    task = client.get("task_definition", "task/get_details", task_id=task_id, include_parameters="true")
    if task.get("withheld"):
        raise Refused(f"task {task_id}: only its state is told: {task['withheld']}")
    explanation = client.get("task_definition", "explain/task", task_id=task_id, all="true")
    jobs = client.get("job_dispatch", "job/list", task_id=task_id, limit=NEWEST_JOBS)
    return {"task": task, "explanation": explanation, "jobs": jobs, "measured": _measured(client, jobs)}


def _measured(client: Client, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest jobs of each kind that finished, with what their pilots reported."""
    chosen: list[int] = []
    for kind in sorted({str(one["job_type"]) for one in jobs}):
        ended = [one["job_id"] for one in jobs if str(one["job_type"]) == kind and one["status"] == "finished"]
        chosen += ended[:MEASURED]
    if not chosen:
        return []
    wanted = ",".join(map(str, chosen))
    rows: list[dict[str, Any]] = client.get("job_dispatch", "job/get_description_incl_archive", job_ids=wanted)
    return rows
