"""Runtime parameters of this service; which correctors there are is in `shared.order.parameters`."""

from __future__ import annotations

from shared.config.parameter import Parameter
from shared.order.parameters import CORRECTION

UPDATE_HISTORY_PERIOD = Parameter(CORRECTION, "UpdateHistoryPeriod", 900.0, "s", "between two corrections")
TERMS_KEPT_S = Parameter(CORRECTION, "TERMS_KEPT_S", 604_800, "s", "for which the terms of corrections are kept", 3600)
