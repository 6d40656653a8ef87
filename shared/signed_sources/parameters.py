"""Runtime parameters of signed source URLs."""

from __future__ import annotations

from shared.config.parameter import Parameter

COMPONENT = "sources"

SIGNED_SOURCES = Parameter(
    COMPONENT, "SIGNED_SOURCES", True, "",
    "jobs are told source URLs with a permission; false: who knows the name of an archive may fetch it",
)  # fmt: skip
PERMISSION_HOURS = Parameter(
    COMPONENT, "PERMISSION_HOURS", 240.0, "h", "for which a job may fetch archives after it was handed out", 1, 8760
)
