"""Which job sets are left to jumbo jobs because only queues for these were ranked."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.policy.values import QueueFacts, Task
from services.job_generation.specification.kind_of_job import NORMAL, KindOfJob


def waits_for_jumbo(task: Task, kind: KindOfJob, ranked: Sequence[QueueFacts]) -> bool:
    """Whether job sets get jobs without a queue, because only queues for jumbo jobs were ranked.

    Such a job waits until a real co-jumbo job is made, or until jumbo jobs processed all events of the set. Scouts do
    not wait: there are no jumbo jobs before they were judged.

    Source: JEDI, Jumbo jobs and co-jumbo jobs. Example: ranked J1 and J2, both with useJumboJobs: True; with A besides:
    False.
    """
    return task.uses_jumbo and kind.name == NORMAL.name and bool(ranked) and all(one.runs_jumbo_jobs for one in ranked)


def left_to_jumbo(ranked: Sequence[QueueFacts]) -> str:
    """Why job sets wait, as the decision of the task says it."""
    names = ", ".join(one.key for one in ranked)
    return f"only queues for jumbo jobs were ranked ({names}): the events of its job sets are left to jumbo jobs"
