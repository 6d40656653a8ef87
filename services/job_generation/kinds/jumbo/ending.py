"""Count jumbo jobs that ended, and let job sets go on that waited for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.job_generation.kinds.event_service.ending import EndingJobSets, end_merging
from services.job_generation.kinds.event_service.leaving import LeavingJobs
from services.job_generation.kinds.event_service.open_sets import NO_MORE_JOBS, TAKEN_BACK, Open
from services.job_generation.kinds.event_service.policy.endings import ConsumerEnd, judge
from services.job_generation.kinds.event_service.store import job_set_ranges as store_ranges
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store import waiting_sets as store_waiting
from services.job_generation.kinds.event_service.store.job_sets import JobSet, Member
from services.job_generation.kinds.jumbo.store import jumbo as store_jumbo
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.steps.counting import announce
from services.job_generation.store import counters as store_counters
from services.job_generation.store import results as store_results
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import QUEUED, JobStatus

#: states of a co-jumbo job that ends because jumbo jobs processed all that it was made for
ENDED_BY_OTHERS: tuple[JobStatus, ...] = ("waiting", "assigned", "activated")


class EndingJumboJobs:
    """What the end of jumbo jobs means for the sets whose events they had."""

    def __init__(self, steps: Steps) -> None:
        self._job_sets, self._leaving = EndingJobSets(steps), LeavingJobs(steps)

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jumbo: Sequence[EndedJob], changes: CounterChanges
    ) -> None:
        """Release the open ranges of these jobs.

        What they processed is done when the co-jumbo jobs of the set end.
        """
        task_id = held.task.task_id
        sets = await store_sets.lock(
            work, await store_jumbo.sets_of_jumbo(work, task_id, [job.job_id for job in jumbo])
        )
        for job in jumbo:
            await store_jumbo.end(work, task_id, job.job_id, was_closed=job.status == "closed")
            for one in sets:
                takes_back = job.status == "cancelled"
                await self._leaving.release(work, held, one, job, takes_back=takes_back, is_beside=True)
                await self._look(work, held, one.job_set_id, changes)
        await store_waiting.note_waiting(work, [one.job_set_id for one in sets])

    async def finish_co_jumbo(self, work: UnitOfWork, held: LockedTask, set_ids: Sequence[int]) -> int:
        """Merge co-jumbo jobs without events left, thanks to jumbo jobs; how many sets went on."""
        await store_results.lock_jobs(work, await store_jumbo.jobs_of_sets(work, set_ids))
        await store_sets.lock(work, set_ids)
        changes, n_sets = CounterChanges(), 0
        for set_id in sorted(set_ids):
            n_sets += await self._look(work, held, set_id, changes)
        await store_waiting.note_waiting(work, set_ids)
        await store_counters.apply(work, changes)
        return n_sets

    async def give_way(self, work: UnitOfWork, held: LockedTask, set_ids: Sequence[int]) -> None:
        """End jobs that waited without a queue, now that their sets have real co-jumbo jobs; all are locked."""
        changes = CounterChanges()
        for set_id in sorted(set_ids):
            found = (await store_sets.members_of_sets(work, [set_id])).get(set_id, [])
            waiting = [one.job_id for one in found if one.status == "waiting"]
            [row] = await store_sets.lock(work, [set_id])
            at = Open(row, {one.job_id: one for one in found})
            why = "real co-jumbo jobs were made"
            await self._leaving.close(work, held, at, waiting, "es_unused", why, changes)
        await store_counters.apply(work, changes)
        await store_waiting.note_waiting(work, set_ids)

    async def _look(self, work: UnitOfWork, held: LockedTask, job_set_id: int, changes: CounterChanges) -> bool:
        """A set without a job that runs goes on, if jumbo jobs left it nothing to wait for; whether it did.

        One of its jobs stands for the set: one that waits in merging, else one that no pilot has. All jobs of the set
        are locked.
        """
        found = (await store_sets.members_of_sets(work, [job_set_id])).get(job_set_id, [])
        [row] = await store_sets.lock(work, [job_set_id])
        consumers = [one for one in found if one.role == "consumer"]
        live = [one for one in consumers if one.status in TAKEN_BACK]
        first = first_of_set(row, consumers, live)
        if first is None:
            return False
        finished = await store_jumbo.finished_by_jumbo(work, held.task.task_id, job_set_id)
        await store_ranges.move_ranges(work, held.task.task_id, finished, "done", "no job of its set works on it")
        [row] = await store_sets.lock(work, [job_set_id])
        verdict = judge(
            ConsumerEnd("succeeded", max(1, first.n_processed), first.attempt),
            replace(row.state, n_live=len([one for one in live if one is not first])),
            most_attempts=held.task.rules.consumer_attempts,
            accepts_partial=held.task.status == "finishing",
            loses_some=held.task.rules.loses_some,
        )
        if verdict.next == "wait":
            return False
        if held.task.status in NO_MORE_JOBS:
            verdict = replace(verdict, next="fail", reason=f"the task is {held.task.status}; {verdict.reason}")
        job = await self._in_merging(work, first)
        await store_sets.end_members(work, [(job.job_id, verdict.sub_status, 0)])
        at = Open(row, {one.job_id: one for one in found if one is not first})
        await self._job_sets.follow(work, held, at, await end_merging(work, job, verdict), verdict, changes)
        return True

    async def _in_merging(self, work: UnitOfWork, member: Member) -> EndedJob:
        """The job in state merging, if need be without having been with a pilot."""
        moved = await store_sets.end_live(
            work, [member.job_id], "merging", ENDED_BY_OTHERS, "all ranges of its job set were processed by others"
        )
        announce(work, moved)
        [job] = await store_results.lock_jobs(work, [member.job_id])
        return job


def first_of_set(row: JobSet, consumers: Sequence[Member], live: Sequence[Member]) -> Member | None:
    """The job that stands for a set whose jobs wait for jumbo jobs; None: it ends with its own jobs.

    While one that no pilot has may take ranges the set waits for it, until none is left or one cannot be processed.
    """
    if row.stage != "open" or row.wants is not None or any(one.status not in QUEUED for one in live):
        return None
    if any(one.status == "merging" and one.sub_status is None for one in consumers):
        return None  # its end is about to be counted, with the ranges that it has
    state = row.state
    if live and (state.n_processing or (state.n_ready and not state.n_lost)):
        return None
    able = [one for one in consumers if one.status == "merging"] or [
        one for one in live if one.status in ENDED_BY_OTHERS
    ]
    return min(able, key=lambda one: one.job_id, default=None)
