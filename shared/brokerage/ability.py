"""Whether a queue could ever run some work: checks on what a queue is, in the documents' order.

Production and analysis each have their own, because each brokerage has checks that the other has not: a task's nucleus
must have a queue for its production, and work that no queue could ever run is refused at submission.
"""

from __future__ import annotations

from shared.brokerage.filters import analysis, capability, data, rules, scope, software
from shared.brokerage.pipeline import Pipeline

SCOPE = (scope.preassigned, scope.included, scope.excluded, scope.not_a_test_queue, scope.queue_type, scope.status)
CAPABILITY = (
    rules.zero_share, capability.no_jumbo_queue, capability.core_count, capability.max_core_count,
    software.cpu_hardware, software.gpu_hardware, software.container, software.release, capability.memory_at_most,
    capability.memory_at_least, capability.direct_access, capability.scratch_disk,
    capability.a_day_for_scouts_and_merging, capability.walltime_at_most, capability.walltime_at_least,
    capability.connectivity, capability.ip_stack,
    capability.event_service, capability.dynamic_number_of_events,
)  # fmt: skip

ABILITY = Pipeline((*SCOPE, *CAPABILITY, data.has_output_storage))

# Analysis knows no zero share, no event service and no demand for direct access; its queues may be called test.
ANALYSIS_ABILITY = Pipeline((
    scope.queue_type, scope.excluded, scope.included, scope.preassigned, scope.status,
    capability.no_jumbo_queue, capability.core_count, capability.max_core_count, analysis.no_virtual_placement,
    software.cpu_hardware, software.gpu_hardware, software.container, software.release, capability.memory_at_most,
    capability.memory_at_least,
    capability.scratch_disk, data.has_output_storage, capability.walltime_at_most, capability.walltime_at_least,
    capability.connectivity, capability.ip_stack,
))  # fmt: skip
