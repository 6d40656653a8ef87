"""What a task says of itself now: its last error or wait, as long as it still holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: states in which a task goes on, or is done: what its last wait or error said is over
GOES_ON = frozenset({"registered", "defined", "ready", "scouting", "scouted", "running", "prepared", "done"})


def said_now(task: Mapping[str, Any]) -> str:
    """The text that is stored with a task, where the task has not gone on since; else nothing."""
    return "" if task.get("status") in GOES_ON else str(task.get("error_dialog") or "")
