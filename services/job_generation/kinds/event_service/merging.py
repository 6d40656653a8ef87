"""What the end of a merge job means for its job set."""

from __future__ import annotations

from dataclasses import replace

from services.job_generation.kinds.event_service.failing import FailingJobSets
from services.job_generation.kinds.event_service.open_sets import NO_MORE_JOBS, Open
from services.job_generation.kinds.event_service.policy.endings import (
    EndOfConsumer,
    outcome_of,
)
from services.job_generation.kinds.event_service.policy.merges import after_merge
from services.job_generation.kinds.event_service.store import job_set_ranges as store_ranges
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.outcomes import Ended
from services.job_generation.steps.counting import announce
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork


class EndingMergesOfSets:
    """Count merge jobs of job sets."""

    def __init__(self, steps: Steps) -> None:
        self._counting, self._failing = steps.counting, FailingJobSets(steps)

    async def ended(self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, changes: CounterChanges) -> None:
        """Finish the set, have it merged or its events processed again, or give it up; the job is counted."""
        set_id, task_id = at.row.job_set_id, held.task.task_id
        if at.row.stage != "merging":
            await self._useless(work, held, at, job, changes)
            return
        is_too_long = outcome_of(job.status, job.error_source, job.error_code, had_pilot=job.had_pilot) == "too_long"
        if is_too_long:
            await store_sets.end_members(work, [(job.job_id, "es_toolong", 0)])
        then = after_merge("failed" if is_too_long else job.status, job.error_code, at.row.n_merges + 1)
        if held.task.status in NO_MORE_JOBS and then.next != "finish":
            then = replace(then, next="fail")
        if then.next == "finish":
            await self._merged(work, held, at, job, changes)
            return
        if then.next == "fail":
            verdict = EndOfConsumer(job.status, None, "fail", then.reason)
            await self._failing.fail(work, held, at, job, verdict, changes, of_others="es_merge_failed")
            return
        if job.status == "closed" and not is_too_long:
            await store_sets.end_members(work, [(job.job_id, "es_unused", 0)])
        n_merges = int(is_too_long or job.status != "closed")
        if then.next == "process_again":
            done = await store_ranges.ranges_of_set(work, task_id, set_id, ("done",))
            await store_ranges.move_ranges(work, task_id, done, "corrupted", then.reason)
            await store_ranges.copy_ranges(work, task_id, done, then.reason)
            await store_sets.change(work, set_id, "open", then.reason, wants="consumer", merges=n_merges)
        else:
            await store_sets.change(work, set_id, "merging", then.reason, wants="merge", merges=n_merges)
        await store_sets.own_input(work, set_id, min(at.members, default=None))
        await self._counting.write(work, held, [job], {job.job_id: Ended(job.status, job.error_source)}, changes)

    async def _useless(
        self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, changes: CounterChanges
    ) -> None:
        """What it merged was taken back, or its set was given up: neither its end nor its output counts."""
        await store_sets.end_members(work, [(job.job_id, "es_killed", 0)])
        if at.row.stage == "open":
            await store_sets.own_input(work, at.row.job_set_id, min(at.members, default=None))
        await self._counting.write(work, held, [job], {job.job_id: Ended("closed")}, changes)

    async def _merged(
        self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, changes: CounterChanges
    ) -> None:
        """Its output is the output of the set's input; the jobs that processed the events are finished."""
        set_id = at.row.job_set_id
        done = await store_ranges.ranges_of_set(work, held.task.task_id, set_id, ("done",))
        await store_ranges.move_ranges(work, held.task.task_id, done, "merged", "merge job finished")
        waiting = [one.job_id for one in at.members.values() if one.status == "merging"]
        reason = f"merged by job {job.job_id}"
        finished = await store_sets.end_live(work, waiting, "finished", ("merging",), reason)
        announce(work, finished)
        await store_sets.change(work, set_id, "finished", reason)
        await store_sets.own_input(work, set_id, job.job_id)
        jobs = [*(one for one, _ in finished), job]
        await self._counting.write(work, held, jobs, {one.job_id: Ended("finished") for one in jobs}, changes)
