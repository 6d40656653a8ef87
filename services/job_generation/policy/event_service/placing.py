"""At which queues the jobs of a job set run."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.policy.values import QueueFacts


def consumer_queues(drawn: QueueFacts, ranked: Sequence[QueueFacts], n_sites: int) -> list[QueueFacts]:
    """The queue that was drawn, and the best of other sites, `n_sites` in all (nSitesPerJob).

    Fewer where fewer sites were ranked. Example: drawn A of site a, ranked A, B (site a), C (site c), two sites: A, C.
    """
    chosen, sites = [drawn], {drawn.site}
    for queue in ranked:
        if len(chosen) >= n_sites:
            break
        if queue.site not in sites:
            chosen.append(queue)
            sites.add(queue.site)
    return chosen


def next_queue(ranked: Sequence[QueueFacts], n_tried: int) -> QueueFacts | None:
    """The queue of the next attempt: each attempt one further down, then from the top again."""
    return ranked[n_tried % len(ranked)] if ranked else None


def without_jumbo(ranked: Sequence[QueueFacts]) -> list[QueueFacts]:
    """Queues for other jobs: those with useJumboJobs are left to jumbo jobs unless there is no other."""
    return [queue for queue in ranked if not queue.runs_jumbo_jobs] or list(ranked)
