"""Which queues may get jumbo jobs of a task."""

from __future__ import annotations

import numpy as np

from services.job_brokerage.policy.filters.capacity import CAP_QUEUED, CAP_WAITING
from services.job_brokerage.policy.stages import best_rows, candidate_of
from shared.brokerage.decision import Candidate, Decision
from shared.brokerage.pipeline import PASSED
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World

#: they bound the co-jumbo jobs at a queue, and are no filters
CAPS = (CAP_WAITING.code, CAP_QUEUED.code)


def jumbo_queues(world: World, request: JobRequest, decision: Decision) -> tuple[Candidate, ...]:
    """Queues with useJumboJobs that passed every filter, the best first, each once; ranked or not.

    The number of ranked queues and the caps on queued jobs are for co-jumbo jobs: a task has one jumbo job at each
    queue for them, also while queues are full. None for a task without jumbo jobs, or for merging.

    Example: of J1 (ranked), J2 (eleventh), J3 (above its cap) and J4 (offline): J1, J2 and J3. Source: JEDI, Jumbo jobs
    and co-jumbo jobs.
    """
    if not request.uses_jumbo or request.is_merge or decision.names != world.columns.labels:
        return ()
    passed = np.isin(decision.codes, (PASSED, *CAPS)) & world.columns.runs_jumbo_jobs
    rows = best_rows(world, passed, decision.weights, len(decision.names))
    found = [candidate_of(world, request, row, float(decision.weights[row])) for row in rows]
    return tuple({one.queue: one for one in reversed(found)}.values())[::-1]
