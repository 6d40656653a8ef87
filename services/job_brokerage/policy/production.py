"""Production job brokerage (PanDA brokerage: ATLAS production job brokerage): checks, weights, caps, the best 10."""

from __future__ import annotations

import numpy as np

from services.job_brokerage.policy.stages import Real, conclude
from shared.brokerage.ability import SCOPE
from shared.brokerage.decision import Decision
from shared.brokerage.filters import capability, capacity, data, rules, software
from shared.brokerage.network import network_weight
from shared.brokerage.pipeline import Pipeline
from shared.brokerage.request import JobRequest, local_data
from shared.brokerage.weights import data_availability, nucleus_factor, production_basic
from shared.brokerage.world import World

PIPELINE = Pipeline((
    *SCOPE,
    data.link_is_open,
    capacity.link_is_not_saturated,
    capacity.nucleus_is_not_saturated,
    rules.nucleus_for_urgent_work_and_scouts,
    capacity.active,
    rules.zero_share,
    capability.no_jumbo_queue,
    data.little_input_to_move,
    data.few_files_to_move,
    capacity.disk_io,
    capability.core_count,
    capability.max_core_count,
    software.cpu_hardware,
    software.gpu_hardware,
    software.container,
    software.release,
    capability.memory_at_most,
    capability.memory_at_least,
    capability.direct_access,
    capability.scratch_disk,
    data.has_output_storage,
    data.free_space,
    data.write_storage_works,
    data.input_storage_works,
    capability.a_day_for_scouts_and_merging,
    capability.walltime_at_most,
    capability.walltime_at_least,
    capability.connectivity,
    capability.ip_stack,
    capability.event_service,
    capability.dynamic_number_of_events,
    capacity.transferring,
    rules.nucleus_for_t1_weight,
    rules.nucleus_for_full_chain,
    capacity.has_pilots,
    capacity.near_enough,
))  # fmt: skip
# Asked of what is left when the weights are known.
CAPS = Pipeline((capacity.not_too_many_waiting, capacity.not_too_many_queued))


def production_factors(world: World, request: JobRequest) -> dict[str, Real]:
    """The factors of the weight, in the order of the document; their product is the weight."""
    local = local_data(world.columns, request)
    factors = production_basic(world, local.missing_files <= 0)
    factors["data_availability"] = data_availability(request, local)
    network = network_weight(world, request)
    if network is not None:
        factors["network"] = network.weight
        factors["t1_weight"] = nucleus_factor(world, request)
    return {name: np.asarray(factor, np.float64) for name, factor in factors.items()}


class ProductionJobBrokerage:
    """Jobs may run anywhere that passes; data is moved to them, output to the nucleus."""

    name = "production"

    def decide(self, world: World, request: JobRequest, seed: int) -> Decision:
        """Checks, weights, the two caps on queued jobs, the best 10."""
        exclusions = PIPELINE.run(world, request)
        factors = production_factors(world, request)
        CAPS.run(world, request, exclusions)
        return conclude(self.name, world, request, seed, exclusions, factors)
