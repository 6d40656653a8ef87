"""What operators set for the analysis tasks of users that do not say it themselves.

Source: JEDI: Task Refiner, with the parameters OUTDISKCOUNT_ANALY_KB, USER_JOB_TARGET_WALLTIME, USER_TASKS_MOVE_INPUT
and USER_TASKS_MAX_CORE_COUNT.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.brokerage.draw import uniform_of
from shared.config.parameter import Parameter, set_by
from shared.model.analysis import is_analysis
from shared.task.stored import name_of, named

#: tasks of this priority have their input moved to where there is room
PRIORITY_WITH_MOVED_INPUT = 1001

_OUT_DISK = Parameter(
    "taskrefiner", "OUTDISKCOUNT_ANALY_KB", 500, "kB", "outDiskCount of analysis tasks that state none", 0, 10**9
)
_WALLTIME: Parameter[int | None] = Parameter(
    "taskrefiner",
    "USER_JOB_TARGET_WALLTIME",
    None,
    "h",
    "maxWalltime of analysis tasks that state none; not set: none",
    1,
    10_000,
    kind="int",
)
_MOVED = Parameter(
    "taskrefiner",
    "USER_TASKS_MOVE_INPUT",
    0,
    "%",
    f"of analysis tasks that get taskPriority {PRIORITY_WITH_MOVED_INPUT}, so that their input is moved",
    0,
    100,
)
_CORES = Parameter(
    "taskrefiner", "USER_TASKS_MAX_CORE_COUNT", 16, "cores", "maxCoreCount of analysis tasks that state none", 1, 1024
)


@dataclass(frozen=True)
class UserDefaults:
    """The parameters; `moved_percent`: of the tasks, drawn by their names."""

    out_disk_kb: int = set_by(_OUT_DISK, int)
    max_walltime_h: int | None = set_by(_WALLTIME, lambda value: value)
    moved_percent: int = set_by(_MOVED, int)
    max_core_count: int = set_by(_CORES, int)


def with_user_defaults(parameters: Any, defaults: UserDefaults) -> Any:
    """The JSON of an analysis task with what it does not say; any other as it came.

    Example: with a target of 12 h and 100 % of moved input {"taskPriority": 1000, ...} gets maxWalltime 12,
    taskPriority 1001 and currentPriority 1000.
    """
    if not isinstance(parameters, Mapping):
        return parameters
    given = {name: value for name, value in parameters.items() if value is not None}
    label, task_type = given.get("prodSourceLabel"), given.get("taskType")
    if not isinstance(label, str) or not is_analysis(task_type if isinstance(task_type, str) else None, label):
        return parameters
    found: dict[str, Any] = {}
    if defaults.out_disk_kb != _OUT_DISK.default and not {"outDiskCount", "outDiskUnit"} & given.keys():
        found = {"outDiskCount": defaults.out_disk_kb, "outDiskUnit": "kB"}
    if defaults.max_walltime_h is not None and name_of("max_walltime_h") not in given:
        found |= named(max_walltime_h=defaults.max_walltime_h)
    cores = given.get("coreCount")
    if name_of("max_core_count") not in given and not (isinstance(cores, int) and cores > defaults.max_core_count):
        found |= named(max_core_count=defaults.max_core_count)
    if _is_drawn(given.get("taskName"), defaults.moved_percent):
        found["currentPriority"] = given.get("currentPriority", given.get("taskPriority"))
        found["taskPriority"] = PRIORITY_WITH_MOVED_INPUT
    return {**parameters, **{name: value for name, value in found.items() if value is not None}}


def _is_drawn(task_name: Any, percent: int) -> bool:
    """Whether a task of this name is among so many of a hundred: the same task is always drawn the same."""
    drawn = uniform_of(int.from_bytes(hashlib.sha256(str(task_name).encode()).digest()[4:8], "big"))
    return drawn < percent / 100
