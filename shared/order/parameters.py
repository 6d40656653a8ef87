"""Runtime parameters of task queues: whether a VO uses them, and how they are ordered."""

from __future__ import annotations

from typing import Any

from shared.config.parameter import Parameter
from shared.order.configuration import corrections_of
from shared.order.cpu_segments import check_segments
from shared.order.site_limits import rules_of

COMPONENT = "order"

OFF, WITHIN, INSTEAD = "off", "within", "instead"

TASK_QUEUES = Parameter(
    COMPONENT, "TASK_QUEUES", OFF, "", "order jobs of the VO within a leaf of the share tree, or instead of it",
    choices=(OFF, WITHIN, INSTEAD), per_vo=True,
)  # fmt: skip
CONSOLIDATION = Parameter(
    COMPONENT,
    "CONSOLIDATION",
    "sum",
    "",
    "of the user priorities of a task queue's jobs",
    choices=("sum", "average"),
    per_vo=True,
)
CPU_SEGMENTS_S: Parameter[Any] = Parameter(
    COMPONENT, "CPU_SEGMENTS_S", None, "", "[seconds] strictly increasing; else the documents' thirteen",
    check=check_segments,
)  # fmt: skip
RECALCULATE_S = Parameter(COMPONENT, "RECALCULATE_S", 120, "s", "between two calculations of all priorities", 1)
EMPTY_QUEUE_KEPT_S = Parameter(COMPONENT, "EMPTY_QUEUE_KEPT_S", 300, "s", "until an empty task queue is deleted", 60)
RUNNING_LIMITS: Parameter[Any] = Parameter(
    COMPONENT, "RUNNING_LIMITS", None, "",
    "{site or *: {criteria: jobs, attribute: {value: jobs}}} at most running, of VOs with TASK_QUEUES",
    check=lambda value: rules_of(value, "RUNNING_LIMITS"), per_vo=True,
)  # fmt: skip
MATCHING_DELAYS: Parameter[Any] = Parameter(
    COMPONENT, "MATCHING_DELAYS", None, "",
    "{site or *: {criteria: s, attribute: {value: s}}} between two matches, of VOs with TASK_QUEUES",
    check=lambda value: rules_of(value, "MATCHING_DELAYS"), per_vo=True,
)  # fmt: skip

CORRECTION = "share_correction"
ENABLE_SHARES_CORRECTION = Parameter(
    CORRECTION,
    "EnableSharesCorrection",
    True,
    "",
    "false: all factors are 1 (what DIRAC has where nothing is said)",
    per_vo=True,
)
#: one section for each VO that has its own, as DIRAC has it below /Operations/<vo>/.../JobScheduling
SHARE_CORRECTIONS: Parameter[Any] = Parameter(
    CORRECTION, "ShareCorrections", None, "",
    "ShareCorrectorsToStart, and correctors with instances, of a VO or of all",
    check=lambda value: None if value is None else corrections_of(value), per_vo=True,
)  # fmt: skip
