"""What a runtime parameter that is set does nothing without. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.config.parameter import Parameter
from shared.order.parameters import (
    CONSOLIDATION,
    CPU_SEGMENTS_S,
    ENABLE_SHARES_CORRECTION,
    MATCHING_DELAYS,
    OFF,
    RUNNING_LIMITS,
    SHARE_CORRECTIONS,
    TASK_QUEUES,
)

#: what only the jobs of VOs with task queues are asked for
OF_TASK_QUEUES: tuple[Parameter[Any], ...] = (RUNNING_LIMITS, MATCHING_DELAYS, CONSOLIDATION, CPU_SEGMENTS_S)

#: values as they are stored, by parameter and VO ("": all)
Stored = Mapping[tuple[str, str], Mapping[str, str]]


def name_of(parameter: Parameter[Any]) -> tuple[str, str]:
    """What parameters are found by."""
    return parameter.component, parameter.key


def without_effect(stored: Stored, component: str, key: str, vo: str) -> str | None:
    """Why what was just set does nothing yet, and what it needs; None where it holds.

    Example: RUNNING_LIMITS of cms, which uses no task queues: nothing asks them before order.TASK_QUEUES is within or
    instead for cms.
    """
    whose = f" for {vo}" if vo else ""
    if (component, key) in map(name_of, OF_TASK_QUEUES):
        modes = _modes(stored, TASK_QUEUES, OFF, vo)
        if all(mode == OFF for mode in modes):
            need = f"{TASK_QUEUES.component}.{TASK_QUEUES.key} within or instead{whose}"
            return f"it has no effect: no jobs{whose} are in task queues; needed: {need}"
    if (component, key) == name_of(TASK_QUEUES):
        unused = [one.key for one in OF_TASK_QUEUES if vo in stored.get(name_of(one), {})]
        if unused and all(mode == OFF for mode in _modes(stored, TASK_QUEUES, OFF, vo)):
            return f"{', '.join(unused)}{whose} {'has' if len(unused) == 1 else 'have'} no effect any more"
    if (component, key) == name_of(SHARE_CORRECTIONS):
        switches = _modes(stored, ENABLE_SHARES_CORRECTION, "true", vo)
        switch = f"{ENABLE_SHARES_CORRECTION.component}.{ENABLE_SHARES_CORRECTION.key}"
        if not any(one.lower() == "true" for one in switches):
            return f"it has no effect: all factors are 1; needed: {switch} true{whose}"
        if not stored.get(name_of(ENABLE_SHARES_CORRECTION)):
            return f"it is in force at once: {switch} is true here where it is not set (in DIRAC it is false)"
    return None


def _modes(stored: Stored, parameter: Parameter[Any], default: str, vo: str) -> list[str]:
    """The values that hold for a VO, or for any of them."""
    values = stored.get(name_of(parameter), {})
    usual = values.get("", default)
    return [values.get(vo, usual)] if vo else [usual, *values.values()]
