"""Runtime parameters of this service."""

from __future__ import annotations

from shared.config.parameter import Parameter

OPEN_DATASET_CHECK_S = Parameter(
    "taskrefiner", "OPEN_DATASET_CHECK_S", 300.0, "s", "until an open dataset is looked at again", 1
)
WAIT_FOR_PENDING_S: Parameter[float | None] = Parameter(
    "taskrefiner",
    "WAIT_FOR_PENDING_S",
    None,
    "s",
    "until a held task is tried again; else by priority",
    1,
    kind="float",
)
SETTLE_AFTER_S = Parameter(
    "postprocessor", "SETTLE_AFTER_S", 60.0, "s", "until a task whose state did not change is taken up again"
)
REQUEST_LOST_AFTER_S = Parameter(
    "catalogue", "REQUEST_LOST_AFTER_S", 60.0, "s", "until a requested transfer is taken up again"
)
