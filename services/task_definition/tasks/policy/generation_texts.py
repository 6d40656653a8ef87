"""What the explanation of a task says of decisions about its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]


def moment(value: Any) -> str:
    """A time to the second."""
    return "" if value is None else str(value)[:19] + " UTC"


def latest_line(generation: Facts, gshare: str, *, held_back: bool) -> list[str]:
    """The latest decision; what a throttled task waits for is said only while it still waits for that.

    Example: a task whose input was all given to jobs since is told when it was held back last, and that it is not now.
    """
    at, reason = moment(generation["decided_at"]), generation["reason"]
    if generation["outcome"] != "throttled":
        return [f"  job generation at {at}: {reason}"]
    if not held_back:
        return [f"  job generation was held back last at {at}, and is not any more: {reason}"]
    until = f" or {str(generation['retry_at'])[11:16]} UTC" if generation["retry_at"] else ""
    return [f"  job generation at {at}: {reason}", f"    waits for: fewer queued jobs of share {gshare}{until}"]


def generation_lines(history: Sequence[Facts]) -> list[str]:
    """What was decided before the latest decision, the latest first; a wait that goes on is one line."""
    if len(history) < 2:
        return []
    return ["  before that:"] + [
        f"    {moment(one['first_at'])} {one['outcome']}"
        f"{' ({} times)'.format(one['n_times']) if one['n_times'] > 1 else ''}: {one['reason']}"
        for one in history[1:]
    ]
