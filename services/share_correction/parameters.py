"""Runtime parameters of this service."""

from __future__ import annotations

from typing import Any

from shared.config.parameter import Parameter

COMPONENT = "share_correction"

ENABLE_SHARES_CORRECTION = Parameter(COMPONENT, "EnableSharesCorrection", True, "", "false: all factors are 1")
#: one section for each VO that has its own, as DIRAC has it below /Operations/<vo>/.../JobScheduling
SHARE_CORRECTIONS: Parameter[Any] = Parameter(
    COMPONENT, "ShareCorrections", None, "", "ShareCorrectorsToStart, and correctors with instances, of a VO or of all"
)
UPDATE_HISTORY_PERIOD = Parameter(COMPONENT, "UpdateHistoryPeriod", 900.0, "s", "between two corrections")
TERMS_KEPT_S = Parameter(COMPONENT, "TERMS_KEPT_S", 604_800, "s", "for which the terms of corrections are kept", 3600)
