"""Priorities of tasks and jobs, by kind of job and owner (PanDA: priorities of user jobs).

The larger a priority, the earlier a job is served within its share.
"""

from __future__ import annotations

from collections.abc import Mapping

#: where analysis starts from; tasks of people with super user privilege, and of groups with super group privilege
ANALYSIS_PRIORITY, SUPER_PRIORITY = 1000, 1500
SCOUT_PRIORITY = 901
#: builds come before what uses them: so much above the other jobs of their task
BUILD_IS_ABOVE = 1000
#: kinds of jobs whose priority does not depend on their task
FIXED_PRIORITIES: Mapping[str, int] = {"merge": 5000, "install": 4100, "express": 6000, "express_build": 6500}
#: jobs of an owner that have the same priority before the next ones have one less
JOBS_PER_UNIT = 5
#: what may be set by hand
LOWEST, HIGHEST = -10_000, 10_000


def analysis_priority(offset: int, serial: int = 0, weight: float = 0.0) -> int:
    """1000 + offset - serial / 5 - int(100 x weight), whole numbers.

    `offset`: of the task, `serial`: jobs of the owner that wait or run already, `weight`: how far the owner is over the
    quota (0: not at all).

    Example: the twelfth job (serial 11) of a task with offset 0 and an owner with weight 0.25 has
    1000 + 0 - 2 - 25 = 973.
    """
    return ANALYSIS_PRIORITY + offset - serial // JOBS_PER_UNIT - int(100 * weight)


def job_priority(
    kind: str, task_priority: int, *, is_analysis: bool = False, serial: int = 0, weight: float = 0.0
) -> int:
    """The priority that a job of this kind gets when it is made.

    Merge, install and express jobs have one of their own; scouts 901, or one above a task that is at least that urgent;
    builds 1000 above their task (2000 for most analysis); normal jobs of analysis `analysis_priority`; all others their
    task's.
    """
    if kind in FIXED_PRIORITIES:
        return FIXED_PRIORITIES[kind]
    if kind == "scout":
        return task_priority + 1 if task_priority >= SCOUT_PRIORITY else SCOUT_PRIORITY
    if kind == "build":
        return task_priority + BUILD_IS_ABOVE
    return analysis_priority(task_priority - ANALYSIS_PRIORITY, serial, weight) if is_analysis else task_priority


def changed_priority(kind: str, present: int, task_priority: int) -> int:
    """The priority of a waiting job after its task's was set by hand: that of a first job of its kind.

    Kinds with a priority of their own keep what they have; what is an installation or express work by its task has that
    which was set.
    """
    return present if kind in FIXED_PRIORITIES else job_priority(kind, task_priority)
