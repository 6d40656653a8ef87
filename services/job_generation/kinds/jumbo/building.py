"""Build jumbo jobs: of no job set, as long as their queue lets them."""

from __future__ import annotations

from services.job_generation.kinds.event_service.policy.building import JobSetBuilder, SetPlace, for_event_service
from services.job_generation.policy.values import JobInput, QueueFacts
from services.job_generation.specification.building import BuildRequest, NewJob
from services.job_generation.specification.requirements import Requirement


class JumboBuilder(JobSetBuilder):
    """Builds jumbo jobs: of no job set, as long as their queue lets them.

    They are as large as a job of one input, for they read one file after another, as their ranges come.
    """

    def _requirement(self, job: JobInput, queue: QueueFacts) -> Requirement:
        largest = max(job.master, key=lambda unit: (unit.size_bytes, -unit.file_id))
        needed = super()._requirement(JobInput((largest,), job.secondary), queue)
        return needed._replace(walltime_s=queue.max_time_s)


def build_jumbo(request: BuildRequest) -> list[NewJob]:
    """One jumbo job for each placed input. Raises UnresolvedPlaceholder."""
    return JumboBuilder(for_event_service(request), [SetPlace(0, {}) for _ in request.placed]).build()
