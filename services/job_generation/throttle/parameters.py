"""Runtime parameters of gates, read once for each decision."""

from __future__ import annotations

from services.job_generation.throttle.gate_order import CycleRule
from services.job_generation.throttle.throttle import (
    BASE,
    N_QUEUE_CAP,
    N_QUEUE_LIMIT,
    N_RUNNING_CAP,
    SHORTAGE_THRESHOLD,
    THROTTLE_THRESHOLD,
    WORK_SHORTAGE,
    ThrottleLimits,
)
from shared.config.parameter import SHARE, Parameter
from shared.config.parameters import Parameters


def cycle_rule(parameters: Parameters, name: str) -> CycleRule:
    """How tasks of a share, or of a work queue that is throttled by itself, take turns."""
    return parameters.filled(CycleRule, names={SHARE: name})


def throttle_limits(parameters: Parameters, gshare: str, resource_type: str, *, analysis: bool) -> ThrottleLimits:
    """Each limit by its most specific key.

    The order is `_<share>_<resource type>`, `_<share>_<MCORE|SCORE>*`, `_<share>`, plain.

    The component of the kind of work goes before the one for both; a negative number says nothing.
    """
    component = "anal_job_throttler" if analysis else "prod_job_throttler"
    family = "MCORE*" if resource_type.startswith("MCORE") else "SCORE*"
    names = (f"{gshare}_{resource_type}", f"{gshare}_{family}", gshare)

    def limit(parameter: Parameter[int | None]) -> int | None:
        for where in (component, BASE):
            for value in parameters.found(parameter, *names, components=(where,)):
                if value is not None and value >= 0:
                    return value
        return parameter.default

    threshold = SHORTAGE_THRESHOLD if parameters.read(WORK_SHORTAGE) else THROTTLE_THRESHOLD
    return ThrottleLimits(
        threshold=parameters.read(threshold, components=(component,)),
        n_queue_limit=limit(N_QUEUE_LIMIT),
        n_queue_cap=limit(N_QUEUE_CAP),
        n_running_cap=limit(N_RUNNING_CAP),
    )
