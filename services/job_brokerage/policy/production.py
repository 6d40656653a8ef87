"""Production job brokerage: checks, weights, caps, the best 10.

Source: PanDA brokerage, ATLAS production job brokerage.
"""

from __future__ import annotations

import numpy as np

from services.job_brokerage.policy.filters import capacity, data, nucleus
from services.job_brokerage.policy.network import network_weight
from services.job_brokerage.policy.stages import Real, conclude
from services.job_brokerage.policy.weights import data_availability, nucleus_factor, production_basic
from shared.brokerage.ability import SCOPE
from shared.brokerage.decision import Decision
from shared.brokerage.filters import capability, rules, software
from shared.brokerage.filters.data import has_output_storage
from shared.brokerage.pipeline import Exclusions, Pipeline
from shared.brokerage.request import JobRequest, local_data
from shared.brokerage.world import World

PIPELINE = Pipeline((
    *SCOPE,
    data.link_is_open,
    capacity.link_is_not_saturated,
    capacity.nucleus_is_not_saturated,
    nucleus.nucleus_for_urgent_work_and_scouts,
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
    has_output_storage,
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
    nucleus.nucleus_for_t1_weight,
    nucleus.nucleus_for_full_chain,
    capacity.has_pilots,
    capacity.near_enough,
))  # fmt: skip
# The IO cutoff of work that reads much: first by what is on disk, then also by what is on tape, then not at all.
CUTOFF = (data.MOVE_BYTES, data.MOVE_FILES)
WITH_TAPE = PIPELINE.replacing(data.little_input_to_move_with_tape, data.few_files_to_move_with_tape)
WITHOUT_CUTOFF = PIPELINE.without(*(one.name for one in CUTOFF))
TAPE_NOTE = "no queue has enough of the input on disk: copies on tape count for the IO cutoff"
NO_CUTOFF_NOTE = "the IO cutoff is off: no queue that could take the work has enough of its input"
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


def passing(world: World, request: JobRequest) -> tuple[Exclusions, tuple[str, ...]]:
    """The checks before the weight, and what is to be said of the IO cutoff.

    The document has the cutoff as a check like others and does not say what holds if no queue passes it. Taken, as in
    the field: it is judged among the queues that pass every persistent check. If none does, copies on tape count too;
    if still none does, the cutoff is off. A queue with the input that is left out for a passing reason is waited for.
    """
    exclusions = PIPELINE.run(world, request)
    cut_off = np.isin(exclusions.codes, [one.code for one in CUTOFF]).any()
    if exclusions.alive.any() or not cut_off or PIPELINE.run(world, request, persistent_only=True).alive.any():
        return exclusions, ()
    if WITH_TAPE.run(world, request, persistent_only=True).alive.any():
        return WITH_TAPE.run(world, request), (TAPE_NOTE,)
    if WITHOUT_CUTOFF.run(world, request, persistent_only=True).alive.any():
        return WITHOUT_CUTOFF.run(world, request), (NO_CUTOFF_NOTE,)
    return exclusions, ()


class ProductionJobBrokerage:
    """Jobs may run anywhere that passes; data is moved to them, output to the nucleus."""

    name = "production"

    def decide(self, world: World, request: JobRequest, seed: int) -> Decision:
        """Checks, weights, the two caps on queued jobs, the best 10."""
        exclusions, notes = passing(world, request)
        factors = production_factors(world, request)
        CAPS.run(world, request, exclusions)
        return conclude(self.name, world, request, seed, exclusions, factors, notes)
