"""An example of another VO's task brokerage, without rules on data.

The nucleus with most free space gets most tasks.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np

from services.task_brokerage.policy.columns import build_nuclei
from services.task_brokerage.policy.filters import FILTERS, LOCALITY
from services.task_brokerage.policy.production import run_filters
from shared.brokerage.decision import Decision
from shared.brokerage.draw import uniform_of, weighted_choice
from shared.brokerage.nucleus import TaskRequest
from shared.brokerage.world import World

OWN_FILTERS = tuple(one for one in FILTERS if one.check not in LOCALITY)


class ExampleTaskBrokerage:
    """weight = free space in GB. The input is not looked at: this VO reads over the network."""

    name = "example"

    def decide(self, world: World, request: TaskRequest, seed: int) -> Decision:
        """A few of the shared checks, and one nucleus drawn among equals."""
        nuclei = build_nuclei(world, replace(request, inputs=()))
        exclusions = run_filters(OWN_FILTERS, nuclei, request)
        weights = np.where(exclusions.alive, np.nan_to_num(nuclei.space_free_gb, nan=0.0), 0.0)
        by_name = {name: float(weights[place]) for place, name in enumerate(nuclei.names) if exclusions.alive[place]}
        nucleus = weighted_choice(by_name, uniform_of(seed))
        return Decision(
            kind="task",
            task_id=request.task_id,
            plugin=self.name,
            seed=seed,
            world_version=world.version,
            decided_at=request.now,
            names=nuclei.names,
            codes=exclusions.codes,
            found=exclusions.found,
            wanted=exclusions.wanted,
            weights=weights,
            checks=exclusions.checks,
            chosen=(nucleus,) if nucleus else (),
            terms={"free_space_gb": np.where(exclusions.alive, nuclei.space_free_gb, np.nan)},
            retry_at=None if nucleus else request.now + timedelta(seconds=request.limits.retry_s),
        )
