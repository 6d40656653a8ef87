"""An example of another VO's job brokerage: the same checks less the network, and a weight of its own.

This VO has no nuclei. It prefers queues with free slots and fast cores, and input that is at hand.
"""

from __future__ import annotations

import numpy as np

from services.job_brokerage.policy.filters import data
from services.job_brokerage.policy.stages import Real, conclude
from services.job_brokerage.policy.weights import data_availability
from shared.brokerage.ability import ABILITY
from shared.brokerage.decision import Decision
from shared.brokerage.pipeline import Pipeline
from shared.brokerage.request import JobRequest, local_data
from shared.brokerage.weights import running_number
from shared.brokerage.world import World

PIPELINE = Pipeline((*ABILITY.filters, data.free_space, data.write_storage_works))


class ExampleJobBrokerage:
    """weight = (running + 1) / (queued + 1) x core power / 10 HS06 x data availability."""

    name = "example"

    def decide(self, world: World, request: JobRequest, seed: int) -> Decision:
        """A few of the shared checks, and a weight of its own."""
        exclusions = PIPELINE.run(world, request)
        power = world.columns.core_power_hs06
        factors: dict[str, Real] = {
            "free": (running_number(world) + 1) / (world.load.queued + 1),
            "core_power": np.where(power > 0, power, 10.0) / 10.0,
            "data_availability": data_availability(request, local_data(world.columns, request)),
        }
        return conclude(self.name, world, request, seed, exclusions, factors)
