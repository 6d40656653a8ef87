"""Which work queue a task belongs to, and what is wrong with a list of them (JEDI: Work queues).

Queues are asked in ascending order, those without an order last; the first whose label, VO and criteria match takes the
task. A task may name the one that it wants of those that match. Criteria say who may use a queue: by userName, which is
the owner of a task, and by workingGroup, of which users name those alone that their token has
(`tasks.submitting.rights`). A partition has sub queues and no criteria of its own; no task belongs to it directly.
Shares decide how much is run; a queue with the function `Resource` is throttled by itself as well, and takes production
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from shared.model.analysis import is_analysis
from shared.model.criteria import CriteriaColumn, SqlCriteria, WrongCriteria, parse_criteria, parse_variables
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

#: `partition_id` of a record that is a partition itself
IS_PARTITION = -1
#: whether a queue takes tasks
QueueState = Literal["active", "inactive"]
ACTIVE: QueueState = "active"
RESOURCE = "Resource"

#: what criteria may ask of a task
COLUMNS = (
    CriteriaColumn("prodSourceLabel", "prod_source_label", "prod_source_label"),
    CriteriaColumn("workingGroup", "working_group", "working_group"),
    CriteriaColumn("processingType", "processing_type", "processing_type"),
    CriteriaColumn("coreCount", "core_count", "core_count", "number"),
    CriteriaColumn("site", "site", "site"),
    CriteriaColumn("eventService", "event_service", "event_service", "number"),
    CriteriaColumn(
        "splitRule", "split_rule_names",
        "SELECT coalesce(string_agg(rule, ',' ORDER BY rule COLLATE \"C\"), '')"
        " FROM jsonb_object_keys(split_rule) AS rule",
    ),
    CriteriaColumn("campaign", "campaign", "campaign"),
    CriteriaColumn("userName", "user_name", "user_name"),
)  # fmt: skip


@dataclass(frozen=True)
class WorkQueue:
    """One record; `label` is the prodSourceLabel of its tasks, `share` None where it is not throttled."""

    queue_id: int
    name: str
    label: str
    vo: str
    share: float | None = None
    order: int | None = None
    criteria: str | None = None
    variables: str | None = None
    partition_id: int | None = None
    stretchable: bool = False
    throttled: bool = True
    status: QueueState = ACTIVE
    function: str | None = None

    @property
    def is_partition(self) -> bool:
        """Whether it is made of sub queues."""
        return self.partition_id == IS_PARTITION

    @property
    def takes_tasks(self) -> bool:
        """Whether a task may belong to it."""
        return self.status == ACTIVE and not self.is_partition

    @cached_property
    def condition(self) -> SqlCriteria | None:
        """Its criteria; None takes every task of its label and VO. Raises WrongCriteria."""
        if not (self.criteria or "").strip():
            if (self.variables or "").strip():
                raise WrongCriteria("variables: there are no criteria that have them")
            return None
        return parse_criteria(self.criteria or "", parse_variables(self.variables or ""), COLUMNS)

    def takes(self, facts: Mapping[str, Any]) -> bool:
        """Whether label, VO and criteria match."""
        if not self.takes_tasks or (facts["prod_source_label"], facts["vo"]) != (self.label, self.vo):
            return False
        if self.function == RESOURCE and is_analysis(facts["task_type"], facts["prod_source_label"]):
            return False
        return self.condition is None or self.condition.hold(facts)


def in_order(queues: Sequence[WorkQueue]) -> list[WorkQueue]:
    """Ascending order, without an order last, then by id."""
    return sorted(queues, key=lambda one: (one.order is None, one.order or 0, one.queue_id))


def problems_of(queues: Sequence[WorkQueue]) -> list[FieldProblem]:
    """Everything that is wrong with these records taken together, with the name of the queue."""
    found: list[FieldProblem] = []
    partitions = {one.queue_id for one in queues if one.is_partition}
    for queue in queues:
        where = f"work_queues.{queue.name}"
        if queue.is_partition and (queue.criteria or "").strip():
            found.append(problem(f"{where}.criteria", queue.criteria, "a partition has none of its own"))
        if queue.partition_id not in (None, IS_PARTITION, *partitions):
            allowed = "allowed: null, -1 (it is a partition), or the queue_id of a partition"
            found.append(problem(f"{where}.partition_id", queue.partition_id, allowed))
        if queue.function == RESOURCE and is_analysis(None, queue.label):
            words = (
                f"work with the label {queue.label} is analysis, which stays at the gates of its share; allowed: null"
            )
            found.append(problem(f"{where}.function", queue.function, words))
        try:
            _ = queue.condition
        except WrongCriteria as error:
            field = "variables" if str(error).startswith("variables:") else "criteria"
            found.append(problem(f"{where}.{field}", getattr(queue, field), str(error)))
    for name, allowed in (("queue_id", "an id of its own"), ("order", "an order of its own, or null")):
        found += _twice(queues, name, allowed)
    names: set[tuple[str, str]] = set()
    for queue in queues:
        if (queue.vo, queue.name) in names:
            found.append(problem(f"work_queues.{queue.name}.name", queue.name, "allowed: a name of its own in its VO"))
        names.add((queue.vo, queue.name))
    return found


def without_effect(queues: Sequence[WorkQueue]) -> list[str]:
    """What these records say and nothing follows from: capacity is divided by the tree of shares."""
    said = {
        "share": [one.name for one in queues if one.share is not None],
        "stretchable": [one.name for one in queues if one.stretchable],
        "partition_id": [one.name for one in queues if one.partition_id not in (None, IS_PARTITION)],
    }
    return [
        f"{field} of {', '.join(names)} has no effect: the tree of shares says how capacity is divided "
        "(orrery shares edit)"
        for field, names in said.items()
        if names
    ]


def missing_with_tasks(
    queues: Sequence[WorkQueue], known: Sequence[WorkQueue], n_tasks: Mapping[int, int]
) -> list[FieldProblem]:
    """Queues that are left out although live tasks belong to them: none may vanish under a task."""
    kept = {one.queue_id for one in queues}
    return [
        problem(
            f"work_queues.{one.name}",
            None,
            f"would be gone, but {n_tasks[one.queue_id]} live tasks are in it; allowed: to keep it, also as inactive",
        )
        for one in known
        if one.queue_id not in kept and n_tasks.get(one.queue_id)
    ]


def _twice(queues: Sequence[WorkQueue], name: str, allowed: str) -> list[FieldProblem]:
    seen: set[int] = set()
    found = []
    for queue in queues:
        value = getattr(queue, name)
        if value is not None and value in seen:
            found.append(problem(f"work_queues.{queue.name}.{name}", value, f"allowed: {allowed}"))
        seen.add(value)
    return found


def unknown_work_queue(name: str, vo: str, queues: Sequence[WorkQueue]) -> list[FieldProblem]:
    """What is wrong with the name of a work queue in a task of this VO; empty: nothing."""
    if _of_that_name(queues, name, vo):
        return []
    names = ", ".join(sorted({one.name for one in queues if one.takes_tasks and one.vo == vo}))
    allowed = f"allowed: an active work queue of {vo} that is no partition: {names or 'none'}"
    return [problem("workQueueName", name, allowed)]


def _of_that_name(queues: Sequence[WorkQueue], name: str, vo: str) -> list[WorkQueue]:
    return [one for one in queues if one.name == name and one.vo == vo and one.takes_tasks]
