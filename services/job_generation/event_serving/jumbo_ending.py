"""The ends of jobs of the event service, and of the jumbo jobs that share the events of all job sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.job_generation.event_serving.announcing import announce, end_merging
from services.job_generation.event_serving.ending import EndingJobSets
from services.job_generation.event_serving.open_sets import NO_MORE_JOBS, TAKEN_BACK, Open
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.event_service.endings import ConsumerEnd, EndOfConsumer, judge
from services.job_generation.policy.kinds import JUMBO
from services.job_generation.store import job_set_ranges as store_ranges
from services.job_generation.store import job_sets as store_sets
from services.job_generation.store import jumbo as store_jumbo
from services.job_generation.store import results as store_results
from services.job_generation.store import waiting_sets as store_waiting
from services.job_generation.store.job_sets import JobSet, Member
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import QUEUED, JobStatus

#: states of a co-jumbo job that ends because jumbo jobs processed all that it was made for
ENDED_BY_OTHERS: tuple[JobStatus, ...] = ("waiting", "assigned", "activated")


class EndingEventService(EndingJobSets):
    """Applies the ends of jobs of one task whose row is locked."""

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> list[EndedJob]:
        """Apply those that belong to sets; the others come back. All jobs of these sets are locked."""
        members = await store_sets.members_of_jobs(work, [job.job_id for job in jobs])
        ours = [job for job in jobs if job.job_id in members]
        jumbo = [job for job in jobs if job.job_type == JUMBO.name]
        shared = await store_jumbo.sets_of_jumbo(work, held.task.task_id, [job.job_id for job in jumbo])
        sets = await store_sets.lock(work, sorted({*(members[job.job_id].job_set_id for job in ours), *shared}))
        for one in sets:
            for job in ours:
                if members[job.job_id].job_set_id == one.job_set_id:
                    await self.one(work, held, one.job_set_id, job, changes)
        for job in jumbo:
            await self._jumbo_ended(work, held, job, [one for one in sets if one.job_set_id in shared], changes)
        if held.task.use_jumbo is not None:
            await store_waiting.note_waiting(work, [one.job_set_id for one in sets])
        return [job for job in jobs if job.job_id not in members]

    async def _jumbo_ended(
        self, work: UnitOfWork, held: LockedTask, job: EndedJob, sets: Sequence[JobSet], changes: CounterChanges
    ) -> None:
        """Its open ranges are released; what it processed is done once the co-jumbo jobs of the set have ended."""
        await store_jumbo.end(work, held.task.task_id, job.job_id, was_closed=job.status == "closed")
        for one in sets:
            await self.release(work, held, one, job, takes_back=job.status == "cancelled", is_jumbo=True)
            await self.look(work, held, one.job_set_id, changes)

    async def give_up(
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
        await self._fail(work, held, at, job, verdict, changes, of_others="es_noqueue")
        return True

    async def give_way(self, work: UnitOfWork, held: LockedTask, job_set_id: int, changes: CounterChanges) -> None:
        """The job that waited without a queue ends: real co-jumbo jobs of its set were made."""
        found = (await store_sets.members_of_sets(work, [job_set_id])).get(job_set_id, [])
        waiting = [one.job_id for one in found if one.status == "waiting"]
        [row] = await store_sets.lock(work, [job_set_id])
        at = Open(row, {one.job_id: one for one in found})
        await self._close(work, held, at, waiting, "es_unused", "real co-jumbo jobs were made", changes)

    async def look(self, work: UnitOfWork, held: LockedTask, job_set_id: int, changes: CounterChanges) -> bool:
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
        await self.follow(work, held, at, await end_merging(work, job, verdict), verdict, changes)
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
