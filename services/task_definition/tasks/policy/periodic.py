"""Tasks that are submitted every period: the name and time of each, and what may be asked of them.

Source: JEDI: Periodical task execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from services.task_definition.tasks.policy.outputs import TASK_ID_PLACEHOLDER
from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.auth import ROLES, Caller
from shared.model.dataset_types import FINAL_OUTPUT_TYPES
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

PeriodicStatus = Literal["active", "paused", "ended"]
#: command -> the states in which it is allowed, and the one it leads to
PERIODIC_COMMANDS: Mapping[str, tuple[frozenset[PeriodicStatus], PeriodicStatus]] = {
    "pause": (frozenset({"active"}), "paused"),
    "resume": (frozenset({"paused"}), "active"),
    "end": (frozenset({"active", "paused"}), "ended"),
}
SHORTEST_S, LONGEST_S = 60, 366 * 86_400
#: the name of a task has room for the number behind it
MOST_OF_A_NAME = 124


def occurrence(parameters: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The parameters of one of the tasks: its name ends in its number, so that each is known by itself.

    Example: the third of "calibration" is "calibration.3".
    """
    return {**parameters, "taskName": f"{parameters.get('taskName')}.{number}"}


def next_time(last: datetime, period_s: int, now: datetime) -> datetime:
    """When the next one is due: a whole number of periods after the last.

    What was missed meanwhile is left out.

    Example: every hour since 12:00, looked at 14:20: 15:00.
    """
    period = timedelta(seconds=period_s)
    missed = max(0, (now - last) // period)
    return last + period * (missed + 1)


def rights_of_today(given: Caller, seen: Caller, vo: str) -> Caller:
    """The rights in a VO that a series was given and that its submitter still has.

    Example: given by production of atlas who is a user there by now: a user of atlas. Who left the VO acts for none.
    """
    is_member = given.is_of(vo) and seen.is_of(vo)
    roles = _roles_for(given, vo) & _roles_for(seen, vo) if is_member else frozenset[str]()
    return Caller(given.name, roles, given.groups & seen.groups, vo if is_member else None, is_of_every_vo=False)


def right_lost(today: Caller, user_name: str, vo: str) -> str | None:
    """Why a series submits nothing today; None where it does."""
    if not today.is_of(vo):
        return f"{today.name} acts no longer for the VO {vo}"
    if not today.may("user", "production"):
        return f"{today.name} has the roles user and production no longer in the VO {vo}"
    if user_name != today.name and not today.may("production"):
        return f"{today.name} has the role production no longer, which tasks of {user_name} need"
    return None


def _roles_for(caller: Caller, vo: str) -> frozenset[str]:
    """An operator holds every role; production may do what users may."""
    held = frozenset(role for role in ROLES if caller.may_for(vo, role))
    return held | {"user"} if "production" in held else held


def problems_of_series(spec: TaskSpec, period_s: int, ends_at: datetime | None, now: datetime) -> list[FieldProblem]:
    """What is wrong with a series of tasks beside what is wrong with one of them."""
    found = []
    if not SHORTEST_S <= period_s <= LONGEST_S:
        found.append(problem("period_s", period_s, f"allowed: {SHORTEST_S} to {LONGEST_S} seconds"))
    if ends_at is not None and ends_at <= now:
        found.append(problem("ends_at", ends_at.isoformat(), f"allowed: a time after now ({now.isoformat()})"))
    named = [(f"jobParameters.{index}", item) for index, item in enumerate(spec.parameters.job_parameters)]
    named = [(field, item) for field, item in named if item.param_type in FINAL_OUTPUT_TYPES]
    named += spec.parameters.named_logs()
    for field, item in named:
        if item.dataset and item.container is None and TASK_ID_PLACEHOLDER not in item.dataset:
            allowed = f"each task writes datasets of its own; allowed: a name with {TASK_ID_PLACEHOLDER}"
            found.append(problem(f"{field}.dataset", item.dataset, allowed))
    return found
