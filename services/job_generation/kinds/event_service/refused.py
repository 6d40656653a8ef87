"""Jobs of job sets that their sites do not take, by their advertisements.

They wait by themselves, and the task says why.

What lifts the refusal wakes them, or the time when the site will have advertised again.
"""

from __future__ import annotations

from services.job_generation.kinds.event_service.store import waiting_sets as store_waiting
from services.job_generation.policy.values import Task
from services.job_generation.specification.kind_of_job import KindOfJob
from services.job_generation.splitting.placement import Placement
from services.job_generation.steps.making import Making
from services.job_generation.store import held as store_held
from services.job_generation.store import tasks as store
from services.job_generation.supplying.matching import take_matches
from services.job_generation.throttle.waking import note_no_fit
from shared.db.unit_of_work import UnitOfWork
from shared.waits.store import note_placed

#: a part of the work "job sets", as those of each kind beside them, with what held it
NEXT_JOBS = "next jobs"


async def take_or_wait(
    work: UnitOfWork, making: Making, task: Task, placement: Placement, kind: KindOfJob, job_set_id: int | None = None
) -> bool:
    """Count the jobs that their sites take now; whether there is one.

    Without one the set waits, or all jobs of this kind where there is no set.
    """
    part = f"{kind.name} jobs" if job_set_id is None else NEXT_JOBS
    retry_at = await take_matches(work, task, placement, kind)
    if placement.jobs:
        await note_placed(work, "queue", task.task_id, part=(store_held.JOB_SETS, part))
    if retry_at is None or (placement.jobs and job_set_id is not None):
        return bool(placement.jobs)
    whose = f"{kind.name} jobs wait" if job_set_id is None else f"job set {job_set_id} waits with its {kind.name} job"
    reason = f"{whose}: {'; '.join(placement.reasons)}"
    await store.record_decision(work, task.task_id, "unplaceable", reason[:4000], retry_at=retry_at)
    if job_set_id is not None:
        await store_waiting.hold_set(work, job_set_id, retry_at)
    await store_waiting.ask_by(work, task.task_id, retry_at)
    await note_no_fit(work, task.task_id, None, retry_at, making.versions, part=(store_held.JOB_SETS, part))
    return bool(placement.jobs)
