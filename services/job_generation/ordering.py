"""New jobs get the order keys of their task queues, where their VO uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.job_generation.policy.building import NewJob
from services.job_generation.policy.order_facts import task_queue_of, user_priority_of
from services.job_generation.policy.values import Task
from services.job_generation.store.order_keys import intern
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.order.cpu_segments import segments_of
from shared.order.parameters import CPU_SEGMENTS_S, OFF, TASK_QUEUES


async def order_keys_of_jobs(
    work: UnitOfWork, parameters: Parameters, task: Task, kind: str, jobs: Sequence[NewJob]
) -> Mapping[int, int]:
    """The order key of each job by its id; none where the VO does without task queues."""
    if parameters.read(TASK_QUEUES, vo=task.vo) == OFF:
        return {}
    segments_s = segments_of(parameters.read(CPU_SEGMENTS_S, vo=task.vo))
    user_priority = user_priority_of(task)
    facts = {job.job_id: (task_queue_of(task, job.requirement, kind, segments_s), user_priority) for job in jobs}
    ids = await intern(work, set(facts.values()))
    return {job_id: ids[one] for job_id, one in facts.items()}
