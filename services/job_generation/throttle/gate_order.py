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
from shared.model.whole_numbers import LARGEST_INT4

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


@dataclass(frozen=True)
class PlaceAtGate:
    """Whom to ask for before a task is let through.

    At most `at_most` tasks with priority from `at_least` to `below`. They go before it if they have more than
    `priority`, or as much and their group was served less than `served` times in this cycle (`by_group`), or as often
    and they wait longer.
    """

    at_least: int
    below: int
    priority: int
    served: int
    at_most: int
    by_group: Mapping[str, int]


def places_before(task: WaitingTask, cycle: Cycle, rule: CycleRule) -> list[PlaceAtGate]:
    """Where those stand that may be served before a task; no more of them than decide that it waits.

    Super-high priority goes first as long as its part of the cycle lasts, and after all others then.

    Example: for a task of 900 the tasks of 1500 and more, as many as the cycle still lets jump, and those from 900 to
    1500. For one of 1600 those of 1600 and more, and all others, which are served before if too many jump.
    """
    own, jumps = cycle.by_group.get(task.group, 0), max(0, rule.n_super_high - cycle.n_super_high)

    def place(at_least: int, below: int, at_most: int, priority: int = task.priority) -> PlaceAtGate:
        """Those of a group's cycle between two priorities, as many as are asked for."""
        return PlaceAtGate(at_least, below, priority, own, at_most, cycle.by_group)

    if task.is_super_high:
        others = place(-LARGEST_INT4, SUPER_PRIORITY, rule.n_tasks, -LARGEST_INT4)
        return [place(task.priority, LARGEST_INT4, rule.n_tasks), others]
    found = [place(task.priority, SUPER_PRIORITY, rule.n_tasks)]
    return [place(SUPER_PRIORITY, LARGEST_INT4, jumps), *found] if jumps else found


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
