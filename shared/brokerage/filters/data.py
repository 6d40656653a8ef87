"""Where output may go."""

from __future__ import annotations

import numpy as np

from shared.brokerage.check import Check, Tier, Verdict, decides
from shared.brokerage.request import JobRequest
from shared.brokerage.world import OutputStorage, World

OUTPUT_STORAGE = Check(205, "output_storage", Tier.CONFIGURATION, False, "output storages", "at least", "storages")


def output_of(world: World, request: JobRequest) -> OutputStorage:
    """The storages that output of this kind of work goes to, one for each queue."""
    return world.analysis_output if request.is_analysis else world.production_output


@decides(OUTPUT_STORAGE)
def has_output_storage(world: World, request: JobRequest) -> Verdict | None:
    """A queue without a storage for its output can run nothing."""
    has = ~np.isnan(output_of(world, request).usable_gb)
    return Verdict(has, has, 1.0)
