"""Analysis job brokerage (PanDA brokerage: ATLAS analysis job brokerage): throttles, checks, weight."""

from __future__ import annotations

from services.job_brokerage.policy.analysis_weights import new_basic
from services.job_brokerage.policy.filters import analysis, capacity, data
from services.job_brokerage.policy.stages import Real, conclude
from services.job_brokerage.policy.weights import analysis_basic
from shared.brokerage.decision import Decision
from shared.brokerage.filters import capability, scope, software
from shared.brokerage.filters.analysis import no_virtual_placement
from shared.brokerage.filters.data import has_output_storage
from shared.brokerage.pipeline import Exclusions, Pipeline
from shared.brokerage.request import JobRequest
from shared.brokerage.weights import product
from shared.brokerage.world import World

# These hold for the task, whatever the queue.
THROTTLES = (
    analysis.running_jobs,
    analysis.queued_jobs,
    analysis.running_cores,
    analysis.queued_cores,
    analysis.disk_quota,
    analysis.share_usage,
)
CANDIDATES = (scope.queue_type, scope.excluded, scope.included, scope.preassigned)
PERSISTENT = (
    scope.status,
    data.input_is_local,
    capability.no_jumbo_queue,
    capacity.disk_io,
    capability.core_count,
    capability.max_core_count,
    no_virtual_placement,
    analysis.virtual_placement_has_room,
    software.cpu_hardware,
    software.gpu_hardware,
    software.container,
    software.release,
    capability.memory_at_most,
    capability.memory_at_least,
    capability.scratch_disk,
    has_output_storage,
    data.free_space,
    data.write_storage_works,
    data.read_storage_works,
    capability.walltime_at_most,
    capability.walltime_at_least,
    capability.connectivity,
    capability.ip_stack,
    capacity.has_pilots,
)
TEMPORARY = (
    analysis.few_bad_jobs,
    analysis.short_queue,
    analysis.user_has_few_queued,
    analysis.stable,
    analysis.few_sites,
)
PIPELINE = Pipeline((*THROTTLES, *CANDIDATES, *PERSISTENT, *TEMPORARY))
# The document's persistent issues, whether or not they may pass by themselves.
WITHOUT_TEMPORARY = Pipeline((*CANDIDATES, *PERSISTENT))
ANYWHERE = PIPELINE.without(data.INPUT_LOCALITY.name)


def weight_factors(world: World, request: JobRequest, exclusions: Exclusions) -> dict[str, Real]:
    """The original basic weight, or the new one where a runtime parameter says so."""
    facts = request.analysis_facts(world.columns)
    if facts is not None and facts.limits.new_weight:
        return new_basic(facts, exclusions.alive, request.n_jobs)
    return analysis_basic(world)


class AnalysisJobBrokerage:
    """Queues that hold the input; if all are left out for persistent reasons, any queue."""

    name = "analysis"

    def decide(self, world: World, request: JobRequest, seed: int) -> Decision:
        """Checks, the second pass without locality, weights, the limit on sites, the best 10."""
        exclusions = PIPELINE.run(world, request)
        if not exclusions.alive.any() and not WITHOUT_TEMPORARY.run(world, request).alive.any():
            exclusions = ANYWHERE.run(world, request)
        factors = weight_factors(world, request, exclusions)
        analysis.leave_out_surplus_sites(world, request, exclusions, product(factors))
        return conclude(self.name, world, request, seed, exclusions, factors)
