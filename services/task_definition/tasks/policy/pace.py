"""When a task ends, if its jobs go on as they did. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from services.task_definition.tasks.policy.generation_texts import moment
from shared.states.task import TaskStatus
from shared.task.expected_end import expected_end, rate_per_hour

#: states in which its jobs go on: others wait for a person, or have ended
GOES_ON: frozenset[TaskStatus] = frozenset({"ready", "scouting", "scouted", "running", "pending", "throttled"})


def range_of_end(status: TaskStatus, files: Mapping[str, Any], pace: Mapping[str, Any]) -> dict[str, Any] | None:
    """When it ends at the earliest and at the latest, and how that follows; None where nothing says so.

    `files`: units of its input, `total` and those that ended. `pace`: of its jobs since the hour before this one began,
    and how many units a job took.
    """
    n_units, started_at, now = int(files.get("total") or 0), pace["start_time"], pace["now"]
    n_ended = int(files.get("finished") or 0) + int(files.get("failed") or 0)
    if status not in GOES_ON or started_at is None or not 0 < n_ended < n_units:
        return None
    since = max(started_at, pace["lately_since"])
    lately = rate_per_hour(pace["n_jobs_lately"] * (pace["units_per_job"] or 1.0), now - since)
    end = expected_end(now, n_units, n_ended, rate_per_hour(n_ended, now - started_at), lately)
    return asdict(end) if end.earliest_at is not None else None


def range_line(end: Mapping[str, Any]) -> str:
    """Example: ends between 2026-05-01 12:00:00 UTC and 2026-05-02 08:00:00 UTC: 600 of 1000 ..."""
    latest = "a time that nobody can say" if end["latest_at"] is None else moment(end["latest_at"])
    return f"ends between {moment(end['earliest_at'])} and {latest}: {end['told']}"
