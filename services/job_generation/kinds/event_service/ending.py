"""What the end of a job means for its job set, its ranges and its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.job_generation.kinds.event_service.beside import beside
from services.job_generation.kinds.event_service.open_sets import NO_MORE_JOBS, TAKEN_BACK, Open
from services.job_generation.kinds.event_service.policy.endings import (
    NO_QUEUE,
    ConsumerEnd,
    EndOfConsumer,
    Outcome,
    SubStatus,
    end_of_input,
    fine_grained,
    given_up,
    judge,
    outcome_of,
    waits_alone,
)
from services.job_generation.kinds.event_service.policy.merges import after_merge
from services.job_generation.kinds.event_service.store import job_set_ranges as store_ranges
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.event_service.store.job_sets import JobSet, Member
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.outcomes import Ended
from services.job_generation.steps.counting import announce
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store.results import EndedJob
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import FINAL, QUEUED


class EndingJobSets:
    """What the end of one job of a set means."""

    def __init__(self, steps: Steps) -> None:
        self._counting, self._kinds = steps.counting, steps.kinds

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
            await self._merge_ended(work, held, at, job, changes)
        else:
            await self._consumer_ended(work, held, at, job, member, changes)

    # -- jobs that process events

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
        n_processed, n_discarded = await self.release(work, held, at.row, job, takes_back=outcome == "killed")
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
        await self._leave(work, held, at, job, changes)

    async def _stop_merge(self, work: UnitOfWork, held: LockedTask, at: Open, changes: CounterChanges) -> None:
        """Events that are being merged were taken back: the merge job is not wanted any more."""
        merges = [one.job_id for one in at.members.values() if one.role == "merge"]
        await self.close(work, held, at, merges, "es_killed", "events of its job set were taken back", changes)
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
            await self.fail(work, held, at, job, verdict, changes)
            return
        if verdict.next == "retry":
            n_attempts = int(verdict.sub_status != "es_unused")
            await store_sets.change(work, set_id, "open", reason, wants="consumer", attempts=n_attempts)
        elif verdict.next == "merge":
            await self._begin_merge(work, held, at, reason, changes)
        await self._leave(work, held, at, job, changes)

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
        await self.close(work, held, at, taken, "es_killed", why, changes)
        await self.close(work, held, at, unused, "es_unused", why, changes)
        await store_sets.change(work, at.row.job_set_id, "merging", reason, wants="merge")

    async def _leave(
        self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, changes: CounterChanges
    ) -> None:
        """A job that is over is counted; its input goes to another job of the set, or to none until there is one."""
        if job.status not in FINAL:
            return
        await store_sets.own_input(work, at.row.job_set_id, min(at.members, default=None))
        await self._counting.write(work, held, [job], {job.job_id: Ended(job.status, job.error_source)}, changes)

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
        await self.close(work, held, at, live, "es_aborted", f"its job set was given up: {reason}", changes)
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
        await store.apply_counters(work, changes)
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

    # -- jobs that merge

    async def _merge_ended(
        self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, changes: CounterChanges
    ) -> None:
        set_id, task_id = at.row.job_set_id, held.task.task_id
        if at.row.stage != "merging":
            await self._useless_merge(work, held, at, job, changes)
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
            await self.fail(work, held, at, job, verdict, changes, of_others="es_merge_failed")
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

    async def _useless_merge(
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


async def end_merging(work: UnitOfWork, job: EndedJob, verdict: EndOfConsumer) -> EndedJob:
    """The job in its final state, where it waits in merging and does not stay there."""
    if job.status != "merging" or verdict.status == "merging":
        return job
    error = verdict.reason if verdict.status == "failed" else None
    moved = await store_sets.end_live(work, [job.job_id], verdict.status, ("merging",), verdict.reason, error=error)
    announce(work, moved)
    return moved[0][0] if moved else job
