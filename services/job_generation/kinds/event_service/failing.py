"""A job set is given up: its jobs and ranges end, and its input is tried again or fails."""

from __future__ import annotations

from services.job_generation.kinds.event_service.beside import beside
from services.job_generation.kinds.event_service.leaving import LeavingJobs
from services.job_generation.kinds.event_service.open_sets import TAKEN_BACK, Open
from services.job_generation.kinds.event_service.policy.endings import (
    NO_QUEUE,
    EndOfConsumer,
    SubStatus,
    end_of_input,
)
from services.job_generation.kinds.event_service.store import job_set_ranges as store_ranges
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.outcomes import Ended
from services.job_generation.steps.counting import announce
from services.job_generation.store import counters as store_counters
from services.job_generation.store import results as store_results
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork


class FailingJobSets:
    """Give job sets up."""

    def __init__(self, steps: Steps) -> None:
        self._counting, self._kinds, self._leaving = steps.counting, steps.kinds, LeavingJobs(steps)

    async def fail(
        self,
        work: UnitOfWork,
        held: LockedTask,
        at: Open,
        job: EndedJob | None,
        verdict: EndOfConsumer,
        changes: CounterChanges,
        *,
        of_others: SubStatus = "es_discard",
    ) -> None:
        """The set is given up: its other jobs end, its ranges too, and its input is tried again or fails.

        It ends with `job`; None: all jobs were counted before.
        """
        set_id, task_id, reason = at.row.job_set_id, held.task.task_id, verdict.reason
        live = [one.job_id for one in at.members.values() if one.status in TAKEN_BACK]
        await self._leaving.close(work, held, at, live, "es_aborted", f"its job set was given up: {reason}", changes)
        waiting = [one.job_id for one in at.members.values() if one.status == "merging"]
        failed = await store_sets.end_live(work, waiting, "failed", ("merging",), reason, error=reason)
        await store_sets.end_members(work, [(one.job_id, of_others, 0) for one, _ in failed])
        announce(work, failed)
        left = await store_ranges.ranges_of_set(work, task_id, set_id, ("ready", "sent", "running"))
        await store_ranges.move_ranges(work, task_id, left, "cancelled", reason)
        if not held.task.rules.keeps_processed_events:
            done = await store_ranges.ranges_of_set(work, task_id, set_id, ("finished", "done"))
            await store_ranges.move_ranges(work, task_id, done, "discarded", reason)
        await store_sets.change(work, set_id, "failed", reason)
        if job is None:
            await self.end_input(work, held, set_id, NO_QUEUE, changes)
            return
        await store_sets.own_input(work, set_id, job.job_id)
        ends = {one.job_id: Ended(one.status) for one, _ in failed}
        ends[job.job_id] = end_of_input(Ended(job.status, job.error_source), verdict)
        await self._counting.write(work, held, [*(one for one, _ in failed), job], ends, changes)

    async def end_input(
        self, work: UnitOfWork, held: LockedTask, set_id: int, ended: Ended, changes: CounterChanges
    ) -> None:
        """End the input of a set whose jobs were all counted, as that of the last one."""
        job_id = await store_sets.last_job(work, set_id)
        await store_sets.own_input(work, set_id, job_id)
        files = await store_results.input_of_set(work, set_id)
        await self._counting.write_input(work, held, files, job_id, ended, changes)

    async def give_up(self, work: UnitOfWork, held: LockedTask, set_id: int, reason: str) -> bool:
        """Have a set fail for which no queue is left, unless other jobs of it go on; they are locked."""
        changes = CounterChanges()
        is_over = await self._give_up(work, held, set_id, reason, changes)
        await beside(self._kinds).changed(work, held.task, [set_id])
        await store_counters.apply(work, changes)
        return is_over

    async def _give_up(
        self, work: UnitOfWork, held: LockedTask, job_set_id: int, reason: str, changes: CounterChanges
    ) -> bool:
        """A set for which no queue is left fails, once no other job of it can take ranges; whether it did.

        All jobs of the set are locked. A job that waits in merging fails as es_noqueue; the input is tried again.
        """
        found = (await store_sets.members_of_sets(work, [job_set_id])).get(job_set_id, [])
        [row] = await store_sets.lock(work, [job_set_id])
        n_live = len([one for one in found if one.role == "consumer" and one.status in TAKEN_BACK])
        if n_live and row.stage == "open":
            await store_sets.change(work, job_set_id, "open", f"{reason}; {n_live} other jobs of it go on")
            return False
        waiting = min((one.job_id for one in found if one.status == "merging"), default=None)
        at, job = Open(row, {one.job_id: one for one in found if one.job_id != waiting}), None
        if waiting is not None:
            failed = await store_sets.end_live(work, [waiting], "failed", ("merging",), reason, error=reason)
            announce(work, failed)
            await store_sets.end_members(work, [(waiting, "es_noqueue", 0)])
            [(job, _)] = failed
        verdict = EndOfConsumer("failed", "es_noqueue", "fail", reason)
        await self.fail(work, held, at, job, verdict, changes, of_others="es_noqueue")
        return True
