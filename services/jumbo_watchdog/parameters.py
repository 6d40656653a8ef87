"""Runtime parameters of this service besides those of its decision (`policy.switch`)."""

from __future__ import annotations

from shared.config.parameter import Parameter

PERIOD_S = Parameter("jumbo_dog", "PERIOD_S", 600.0, "s", "between looks at event service tasks")
