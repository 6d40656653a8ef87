"""What the end of a job means for its job set, its ranges and its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.job_generation.kinds.event_service.beside import beside
from services.job_generation.kinds.event_service.failing import FailingJobSets
from services.job_generation.kinds.event_service.leaving import LeavingJobs
from services.job_generation.kinds.event_service.merging import EndingMergesOfSets
from services.job_generation.kinds.event_service.open_sets import NO_MORE_JOBS, TAKEN_BACK, Open
from services.job_generation.kinds.event_service.policy.endings import (
    ConsumerEnd,
    EndOfConsumer,
    Outcome,
    SubStatus,
    fine_grained,
    given_up,
    judge,
    outcome_of,
    waits_alone,
)
from services.job_generation.kinds.event_service.store import job_set_ranges as store_ranges
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store.job_sets import Member
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.steps.counting import announce
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import QUEUED


class EndingJobSets:
    """Count jobs of job sets, and settle what becomes of the sets."""

    def __init__(self, steps: Steps) -> None:
        self._kinds, self._leaving = steps.kinds, LeavingJobs(steps)
        self._failing, self._merges = FailingJobSets(steps), EndingMergesOfSets(steps)

    async def ended(
        self, work: UnitOfWork, held: LockedTask, jobs: Sequence[EndedJob], changes: CounterChanges
    ) -> list[EndedJob]:
        """Count those that belong to sets; the others come back. All jobs of these sets are locked."""
        members = await store_sets.members_of_jobs(work, [job.job_id for job in jobs])
        ours = [job for job in jobs if job.job_id in members]
        others = await beside(self._kinds).sets_of(work, held.task, jobs)
        of_ours = {members[job.job_id].job_set_id for job in ours}
        sets = await store_sets.lock(work, sorted(of_ours.union(others)))
        for row in sets:
            for job in ours:
                if members[job.job_id].job_set_id == row.job_set_id:
                    await self.one(work, held, row.job_set_id, job, changes)
        await beside(self._kinds).changed(work, held.task, sorted(of_ours))
        return [job for job in jobs if job.job_id not in members]

    async def one(
        self, work: UnitOfWork, held: LockedTask, job_set_id: int, job: EndedJob, changes: CounterChanges
    ) -> None:
        """One job, with its set as it is now: the job before it may have ended that."""
        found = (await store_sets.members_of_sets(work, [job_set_id])).get(job_set_id, [])
        member = next((one for one in found if one.job_id == job.job_id), None)
        if member is None or (job.status == "merging" and member.sub_status is not None):
            return  # it ended with its set, or was judged before
        [row] = await store_sets.lock(work, [job_set_id])
        at = Open(row, {one.job_id: one for one in found if one.job_id != job.job_id})
        if member.role == "merge":
            await self._merges.ended(work, held, at, job, changes)
        else:
            await self._consumer_ended(work, held, at, job, member, changes)

    async def _consumer_ended(
        self,
        work: UnitOfWork,
        held: LockedTask,
        at: Open,
        job: EndedJob,
        member: Member,
        changes: CounterChanges,
    ) -> None:
        outcome = outcome_of(job.status, job.error_source, job.error_code, had_pilot=job.had_pilot)
        n_processed, n_discarded = await self._leaving.release(work, held, at.row, job, takes_back=outcome == "killed")
        if at.row.stage == "merging" and not n_discarded:
            await self._late(work, held, at, job, outcome, changes)
            return
        if n_discarded:
            await self._stop_merge(work, held, at, changes)
        [row] = await store_sets.lock(work, [at.row.job_set_id])
        at.row = row
        live = [one for one in at.members.values() if one.role == "consumer" and one.status in TAKEN_BACK]
        end, most_attempts = ConsumerEnd(outcome, n_processed, member.attempt), held.task.rules.consumer_attempts
        verdict = judge(
            end,
            replace(row.state, n_live=len(live)),
            most_attempts=most_attempts,
            accepts_partial=held.task.status == "finishing",
            loses_some=held.task.rules.loses_some,
        )
        if verdict.next == "wait" and not at.members:
            verdict = waits_alone(end, verdict, most_attempts)
        if held.task.status in NO_MORE_JOBS and verdict.next != "wait":
            verdict = given_up(verdict, f"the task is {held.task.status}; {verdict.reason}")
        if held.task.rules.is_fine_grained:
            verdict = fine_grained(verdict)
        await store_sets.end_members(work, [(job.job_id, verdict.sub_status, n_processed)])
        job = await end_merging(work, job, verdict)
        await self.follow(work, held, at, job, verdict, changes)

    async def _late(
        self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, outcome: Outcome, changes: CounterChanges
    ) -> None:
        """A job ended while its set is merged: it had no range, and its good end is none that the set can be in."""
        is_bad = job.status == "merging"
        end: SubStatus = "es_toolong" if outcome == "too_long" else "es_killed"
        await store_sets.end_members(work, [(job.job_id, "es_badstatus" if is_bad else end, 0)])
        if is_bad:
            why = "its job set was being merged when it ended"
            moved = await store_sets.end_live(work, [job.job_id], "closed", ("merging",), why)
            announce(work, moved)
            job = moved[0][0] if moved else job
        await self._leaving.leave(work, held, at, job, changes)

    async def _stop_merge(self, work: UnitOfWork, held: LockedTask, at: Open, changes: CounterChanges) -> None:
        """Events that are being merged were taken back: the merge job is not wanted any more."""
        merges = [one.job_id for one in at.members.values() if one.role == "merge"]
        await self._leaving.close(work, held, at, merges, "es_killed", "events of its job set were taken back", changes)
        await store_sets.change(work, at.row.job_set_id, "open", "events were taken back")

    async def follow(
        self,
        work: UnitOfWork,
        held: LockedTask,
        at: Open,
        job: EndedJob,
        verdict: EndOfConsumer,
        changes: CounterChanges,
    ) -> None:
        """What becomes of the set, and of the job if it is over."""
        set_id, reason = at.row.job_set_id, verdict.reason
        if verdict.next in ("fail", "give_back"):
            await self._failing.fail(work, held, at, job, verdict, changes)
            return
        if verdict.next == "retry":
            n_attempts = int(verdict.sub_status != "es_unused")
            await store_sets.change(work, set_id, "open", reason, wants="consumer", attempts=n_attempts)
        elif verdict.next == "merge":
            await self._begin_merge(work, held, at, reason, changes)
        await self._leaving.leave(work, held, at, job, changes)

    async def _begin_merge(
        self, work: UnitOfWork, held: LockedTask, at: Open, reason: str, changes: CounterChanges
    ) -> None:
        """No range is left: jobs that still look for some are taken back, and a merge job is wanted."""
        left = await store_ranges.ranges_of_set(work, held.task.task_id, at.row.job_set_id, ("ready",))
        await store_ranges.move_ranges(work, held.task.task_id, left, "fatal", "merged without it")
        live = [one for one in at.members.values() if one.role == "consumer" and one.status in TAKEN_BACK]
        taken = [one.job_id for one in live if one.status not in QUEUED]
        unused = [one.job_id for one in live if one.status in QUEUED]
        why = "all ranges of its job set were processed"
        await self._leaving.close(work, held, at, taken, "es_killed", why, changes)
        await self._leaving.close(work, held, at, unused, "es_unused", why, changes)
        await store_sets.change(work, at.row.job_set_id, "merging", reason, wants="merge")


async def end_merging(work: UnitOfWork, job: EndedJob, verdict: EndOfConsumer) -> EndedJob:
    """The job in its final state, where it waits in merging and does not stay there."""
    if job.status != "merging" or verdict.status == "merging":
        return job
    error = verdict.reason if verdict.status == "failed" else None
    moved = await store_sets.end_live(work, [job.job_id], verdict.status, ("merging",), verdict.reason, error=error)
    announce(work, moved)
    return moved[0][0] if moved else job
