"""What others are told of a task or job: its state, share, class, counts and times."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from shared.auth.access import DETAILS

#: the key that only a state view has: to whom the rest is told
WITHHELD = "withheld"
_CLASS = {"vo", "gshare", "prod_source_label", "resource_type", "current_priority"}
TASK_COLUMNS = frozenset(
    _CLASS
    | {"task_id", "status", "old_status", "task_type", "task_priority"}
    | {"progress", "failure_rate", "files", "jobs", "more_jobs"}
    | {"creation_date", "start_time", "end_time", "modification_time", "state_change_time", "retry_at"}
    | {"archived_at"}
)
JOB_COLUMNS = frozenset(
    _CLASS
    | {"job_id", "task_id", "status", "job_type", "attempt_number", "core_count", "archived"}
    | {"creation_time", "state_change_time", "start_time", "end_time", "heartbeat_at", "results_applied_at"}
)


def state_of(row: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """The row with null in every other column, and with whom to ask for these.

    Example: {"task_id": 7, "status": "running", "user_name": "ada", ...} becomes {..., "user_name": None,
    "withheld": "names, places and texts are told to the owner, production of its VO (atlas), and operators"}.
    """
    return {**{name: value if name in columns else None for name, value in row.items()}, WITHHELD: told_to(row["vo"])}


def told_to(vo: str | None) -> str:
    """To whom the details of what belongs to a VO are told."""
    meaning = DETAILS.meaning.replace("its VO", f"its VO ({vo})") if vo else DETAILS.meaning
    return f"names, places and texts are told to {meaning}"
