"""Decides which task goes first at a gate: by priority, groups of equal priority in turn.

A gate is what a share (or a work queue that is throttled by itself) lets through for a resource type. Sources: JEDI,
Typical usages and Special permission; PanDA, parameters of job generation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.config.parameter import SHARE, Parameter, set_by
from shared.model.priorities import SUPER_PRIORITY

USER_NAME, WORKING_GROUP = "userName", "workingGroup"


@dataclass(frozen=True)
class CycleRule:
    """How the tasks of a cycle are chosen.

    `n_tasks`: served in a cycle; `super_high_percent`: of them, those that go before others because of super-high
    priority; `group_by`: what tasks of equal priority take turns by.
    """

    n_tasks: int = set_by(
        Parameter("jobgen", "NTASKS", 50, "tasks", "of a cycle of a share and resource type", 1, 1000,
                  suffixes=(SHARE,)), int
    )  # fmt: skip
    super_high_percent: float = set_by(
        Parameter("dbproxy", "SUPER_HIGH_PRIO_TASK_RATIO", 30.0, "%", "of a cycle: tasks of super-high priority", 0,
                  100), float
    )  # fmt: skip
    group_by: str = set_by(
        Parameter("jobgen", "GROUPBYATTR", USER_NAME, "", "by which tasks of equal priority take turns",
                  suffixes=(SHARE,), choices=(USER_NAME, WORKING_GROUP)), str
    )  # fmt: skip

    @property
    def n_super_high(self) -> int:
        """Places of a cycle that tasks of super-high priority may take before others, rounded up."""
        return math.ceil(self.n_tasks * self.super_high_percent / 100)


@dataclass(frozen=True)
class WaitingTask:
    """A task at a gate.

    `group`: its value of the attribute by which tasks take turns; `n_jobs`: what it wants.
    """

    task_id: int
    priority: int
    group: str
    since: datetime
    n_jobs: int = 1

    @property
    def is_super_high(self) -> bool:
        """Whether it jumps over others: tasks of super users and super groups have that priority."""
        return self.priority >= SUPER_PRIORITY


@dataclass(frozen=True)
class Cycle:
    """Tasks served since the cycle began, of them those of super-high priority, and of each group."""

    n_tasks: int = 0
    n_super_high: int = 0
    by_group: Mapping[str, int] = field(default_factory=dict)


def in_turn(waiting: Sequence[WaitingTask], cycle: Cycle, rule: CycleRule) -> list[WaitingTask]:
    """Waiting tasks in the order in which the gate serves them.

    First those of super-high priority (1500 and more) as long as fewer than SUPER_HIGH_PRIO_TASK_RATIO percent of the
    NTASKS tasks of the cycle were such, then all others, then what is left of super-high ones. Within each: the higher
    priority, then the group (GROUPBYATTR) that was served less in this cycle, then who waits longer.

    Example: with NTASKS 4 and 30 % two of four tasks may jump the line: with 1600, 1500, 1500, 900 and 800 waiting the
    order is 1600, 1500, 900, 800, 1500. Alice's tasks a1, a2, a3 and Bob's b1, younger but of the same priority, go as
    a1, b1, a2, a3. That priority comes before turns is the choice taken here.
    """
    ranked = _ranked(waiting, cycle.by_group)
    super_high = [one for one in ranked if one.is_super_high]
    others = [one for one in ranked if not one.is_super_high]
    n_first = max(0, rule.n_super_high - cycle.n_super_high)
    return super_high[:n_first] + others + super_high[n_first:]


def _ranked(waiting: Sequence[WaitingTask], served: Mapping[str, int]) -> list[WaitingTask]:
    """By priority, then turn of the group, then age."""
    places: dict[int, tuple[int, int, datetime, int]] = {}
    turns: Counter[tuple[int, str]] = Counter()
    for one in sorted(waiting, key=lambda one: (one.since, one.task_id)):
        turn = served.get(one.group, 0) + turns[one.priority, one.group]
        turns[one.priority, one.group] += 1
        places[one.task_id] = (-one.priority, turn, one.since, one.task_id)
    return sorted(waiting, key=lambda one: places[one.task_id])


def ahead_of(task: WaitingTask, waiting: Sequence[WaitingTask], cycle: Cycle, rule: CycleRule) -> list[WaitingTask]:
    """Those that are served before a task."""
    order = in_turn([*(one for one in waiting if one.task_id != task.task_id), task], cycle, rule)
    return order[: order.index(task)]


def served(cycle: Cycle, task: WaitingTask, rule: CycleRule) -> Cycle:
    """The cycle after a task was served; the next one when that was its last."""
    if cycle.n_tasks + 1 >= rule.n_tasks:
        return Cycle()
    return replace(
        cycle,
        n_tasks=cycle.n_tasks + 1,
        n_super_high=cycle.n_super_high + task.is_super_high,
        by_group={**cycle.by_group, task.group: cycle.by_group.get(task.group, 0) + 1},
    )
