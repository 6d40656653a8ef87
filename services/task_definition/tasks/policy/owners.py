"""What owners may not do with their own tasks, as production has to decide it.

What production, an operator or the watchdog paused, killed or finished goes on by production alone; so does what is
throttled, before its time; and the attempts of a unit of input have a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shared.config.parameter import Parameter
from shared.states.task import TaskStatus

MOST_ATTEMPTS_BY_OWNER = Parameter(
    "retry_task",
    "MOST_ATTEMPTS_BY_OWNER",
    50,
    "",
    "attempts of a unit of input that its owner may allow by retries and commands; more needs production",
    1,
    kind="int",
)
#: commands that hold a task, and those by which it goes on
HOLDING = frozenset({"pause", "kill", "finish"})
GOING_ON = frozenset({"resume", "retry", "reactivate", "incexec", "reassign", "recover_lost_files"})
#: commands that give units of input more attempts
GIVING_ATTEMPTS = frozenset({"retry", "reactivate", "incexec", "increase_attempts"})


@dataclass(frozen=True)
class Hold:
    """Why the owner of a task may not let it go on; from `until` on they may, with None never."""

    reason: str
    until: datetime | None = None


def hold_after(
    command: str,
    hold: Hold | None,
    caller_name: str,
    throttled_until: datetime | None,
    *,
    is_owner: bool,
    is_system: bool,
) -> Hold | None:
    """The hold of a task after a command; an owner takes none away, and what ends by itself leaves none.

    `throttled_until`: when a throttled task would have gone on by itself; None: it was not throttled. `is_system`:
    another service asked, of which the pause alone is a decision about the work.
    """
    if command in GOING_ON:
        return None
    if command not in HOLDING:
        return hold
    if not is_owner and (command == "pause" or not is_system):
        return Hold(f"{command} by {caller_name}")
    return hold or (Hold("it is throttled", throttled_until) if throttled_until is not None else None)


def held_back(command: str, status: TaskStatus, hold: Hold | None, now: datetime) -> str | None:
    """Why the owner may not let a task go on; None where they may."""
    if command == "resume" and status == "throttled":
        return "resume of a throttled task needs the role production; it goes on by itself"
    if command not in GOING_ON or hold is None or (hold.until is not None and hold.until <= now):
        return None
    until = "" if hold.until is None else f" until {hold.until:%Y-%m-%d %H:%M}"
    return f"{command} needs the role production: {hold.reason}{until}"


def too_many_attempts(most_now: int, more: int, limit: int) -> str | None:
    """Why an owner may not give so many more attempts; None where they may."""
    if most_now + more <= limit:
        return None
    said = f"{more} more attempts need the role production: a unit of its input has {most_now} already"
    return f"{said}; allowed: at most {limit} together"
