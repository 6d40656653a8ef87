"""Jobs leave their set: what they had of it is released, and they are counted."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.kinds.event_service.beside import beside
from services.job_generation.kinds.event_service.open_sets import TAKEN_BACK, Open
from services.job_generation.kinds.event_service.policy.endings import (
    SubStatus,
)
from services.job_generation.kinds.event_service.store import job_set_ranges as store_ranges
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store.job_sets import JobSet
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.outcomes import Ended
from services.job_generation.steps.counting import announce
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import FINAL


class LeavingJobs:
    """Release what jobs had, and count them."""

    def __init__(self, steps: Steps) -> None:
        self._counting, self._kinds = steps.counting, steps.kinds

    async def release(
        self,
        work: UnitOfWork,
        held: LockedTask,
        row: JobSet,
        job: EndedJob,
        *,
        takes_back: bool,
        is_beside: bool = False,
    ) -> tuple[int, int]:
        """Its processed ranges are done, the others ready again; how many were processed and discarded.

        With `takes_back`, when it was killed, what it processed is discarded and processed again. What a job that
        `is_beside` the set processed is done when one of the set ends.
        """
        task_id = held.task.task_id
        own = await store_ranges.ranges_of_job(
            work, task_id, job.job_id, row.job_set_id, ("sent", "running", "finished", "done")
        )
        open_ones = [one for one in own if one.status in ("sent", "running")]
        finished = [one for one in own if one.status == "finished"]
        counts = not held.task.rules.attempts_only_of_failed or job.status == "failed"
        await store_ranges.move_ranges(work, task_id, open_ones, "ready", "its job ended", attempts=int(counts))
        if not is_beside:
            by_others = await beside(self._kinds).processed(work, held.task, row.job_set_id)
            await store_ranges.move_ranges(work, task_id, by_others, "done", "a co-jumbo job of its set ended")
        if takes_back:
            processed = finished if is_beside else [one for one in own if one.status in ("finished", "done")]
            await store_ranges.move_ranges(work, task_id, processed, "discarded", "its job was killed")
            await store_ranges.copy_ranges(work, task_id, processed, "its job was killed")
            return 0, len(processed)
        if is_beside:
            return len(finished), 0
        return await store_ranges.move_ranges(work, task_id, finished, "done", "its job ended"), 0

    async def close(
        self,
        work: UnitOfWork,
        held: LockedTask,
        at: Open,
        job_ids: Sequence[int],
        sub_status: SubStatus,
        reason: str,
        changes: CounterChanges,
    ) -> None:
        """Jobs of the set that are not wanted any more; what they had of its ranges is released."""
        closed = await store_sets.end_live(work, job_ids, "closed", TAKEN_BACK, reason)
        jobs = [job for job, _ in closed]
        for job in jobs:
            await self.release(work, held, at.row, job, takes_back=False)
            at.members.pop(job.job_id, None)
        await store_sets.end_members(work, [(job.job_id, sub_status, 0) for job in jobs])
        announce(work, closed)
        if jobs:
            await store_sets.own_input(work, at.row.job_set_id, min(at.members, default=None))
            await self._counting.write(work, held, jobs, {job.job_id: Ended("closed") for job in jobs}, changes)

    async def leave(self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, changes: CounterChanges) -> None:
        """Count a job that is over; another job of the set gets its input, or none until there is one."""
        if job.status not in FINAL:
            return
        await store_sets.own_input(work, at.row.job_set_id, min(at.members, default=None))
        await self._counting.write(work, held, [job], {job.job_id: Ended(job.status, job.error_source)}, changes)
