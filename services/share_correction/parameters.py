"""Runtime parameters of this service."""

from __future__ import annotations

from typing import Any

from shared.config.parameter import Parameter

COMPONENT = "share_correction"

ENABLE_SHARES_CORRECTION = Parameter(COMPONENT, "EnableSharesCorrection", True, "", "false: all factors are 1")
SHARE_CORRECTORS_TO_START = Parameter(COMPONENT, "ShareCorrectorsToStart", ["WMSHistory"], "", "names of correctors")
#: the configuration of one corrector; that of a plugin has its name as key
WMS_HISTORY: Parameter[Any] = Parameter(
    COMPONENT, "WMSHistory", None, "", "instances with their slices, as DIRAC has them"
)
UPDATE_HISTORY_PERIOD = Parameter(COMPONENT, "UpdateHistoryPeriod", 900.0, "s", "between two corrections")
USAGE_PERIOD_S = Parameter(COMPONENT, "USAGE_PERIOD_S", 60.0, "s", "between two samples of usage")
