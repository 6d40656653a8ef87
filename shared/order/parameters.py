"""Runtime parameters of task queues: whether a VO uses them, and how they are ordered."""

from __future__ import annotations

from typing import Any

from shared.config.parameter import Parameter

COMPONENT = "order"

OFF, WITHIN, INSTEAD = "off", "within", "instead"

TASK_QUEUES = Parameter(
    COMPONENT, "TASK_QUEUES", OFF, "", "order jobs of the VO within a leaf of the share tree, or instead of it",
    choices=(OFF, WITHIN, INSTEAD),
)  # fmt: skip
CONSOLIDATION = Parameter(
    COMPONENT, "CONSOLIDATION", "sum", "", "of the user priorities of a task queue's jobs", choices=("sum", "average")
)
CPU_SEGMENTS_S: Parameter[Any] = Parameter(
    COMPONENT, "CPU_SEGMENTS_S", None, "", "[seconds] strictly increasing; else the documents' thirteen"
)
RECALCULATE_S = Parameter(COMPONENT, "RECALCULATE_S", 120, "s", "between two calculations of all priorities", 1)
EMPTY_QUEUE_KEPT_S = Parameter(COMPONENT, "EMPTY_QUEUE_KEPT_S", 300, "s", "until an empty task queue is deleted", 60)
RUNNING_LIMITS: Parameter[Any] = Parameter(
    COMPONENT, "RUNNING_LIMITS", None, "", "{site or *: {criteria: jobs, attribute: {value: jobs}}} at most running"
)
MATCHING_DELAYS: Parameter[Any] = Parameter(
    COMPONENT, "MATCHING_DELAYS", None, "", "{site or *: {criteria: s, attribute: {value: s}}} between two matches"
)
