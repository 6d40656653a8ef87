"""Runtime parameters of this service: those of a decision (`shared.brokerage.limits`)."""

from __future__ import annotations

from shared.brokerage.limits import TaskLimits
from shared.config.parameter import SHARE
from shared.config.parameters import Parameters


def limits_from(parameters: Parameters, *, vo: str | None, gshare: str | None) -> TaskLimits:
    """What holds for a share."""
    return parameters.filled(TaskLimits, vo=vo, names={SHARE: gshare})
