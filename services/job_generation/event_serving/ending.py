"""What the end of a job means for its job set, its ranges and its input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from services.job_generation.event_serving.announcing import announce, end_merging
from services.job_generation.event_serving.open_sets import NO_MORE_JOBS, TAKEN_BACK, Open
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.event_service.endings import (
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
from services.job_generation.policy.event_service.merges import after_merge
from services.job_generation.policy.outcomes import Ended
from services.job_generation.store import job_set_ranges as store_ranges
from services.job_generation.store import job_sets as store_sets
from services.job_generation.store import jumbo as store_jumbo
from services.job_generation.store.job_sets import JobSet, Member
from services.job_generation.store.results import EndedJob, JobFile
from services.job_generation.store.tasks import LockedTask
from shared.db.unit_of_work import UnitOfWork
from shared.states.job import FINAL, QUEUED

Write = Callable[
    [UnitOfWork, LockedTask, Sequence[EndedJob], Mapping[int, Ended], CounterChanges], Awaitable[list[JobFile]]
]
WriteInput = Callable[[UnitOfWork, LockedTask, int, int, Ended, CounterChanges], Awaitable[None]]


class EndingJobSets:
    """What the end of one job of a set means.

    `write` counts jobs and ends the input that they own, `write_input` ends that of a set whose jobs were all counted.
    """

    def __init__(self, write: Write, write_input: WriteInput) -> None:
        self._write, self._write_input = write, write_input

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
        is_jumbo: bool = False,
    ) -> tuple[int, int]:
        """Its processed ranges are done, the others ready again; how many were processed and discarded.

        With `takes_back`, when it was killed, what it processed is discarded and processed again. What jumbo jobs
        processed is done when another job of the set ends.
        """
        task_id = held.task.task_id
        own = await store_ranges.ranges_of_job(
            work, task_id, job.job_id, row.job_set_id, ("sent", "running", "finished", "done")
        )
        open_ones = [one for one in own if one.status in ("sent", "running")]
        finished = [one for one in own if one.status == "finished"]
        counts = not held.task.rules.attempts_only_of_failed or job.status == "failed"
        await store_ranges.move_ranges(work, task_id, open_ones, "ready", "its job ended", attempts=int(counts))
        if held.task.use_jumbo is not None and not is_jumbo:
            by_jumbo = await store_jumbo.finished_by_jumbo(work, task_id, row.job_set_id)
            await store_ranges.move_ranges(work, task_id, by_jumbo, "done", "a co-jumbo job of its set ended")
        if takes_back:
            processed = finished if is_jumbo else [one for one in own if one.status in ("finished", "done")]
            await store_ranges.move_ranges(work, task_id, processed, "discarded", "its job was killed")
            await store_ranges.copy_ranges(work, task_id, processed, "its job was killed")
            return 0, len(processed)
        if is_jumbo:
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
        await self._close(work, held, at, merges, "es_killed", "events of its job set were taken back", changes)
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
            await self._fail(work, held, at, job, verdict, changes)
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
        await self._close(work, held, at, taken, "es_killed", why, changes)
        await self._close(work, held, at, unused, "es_unused", why, changes)
        await store_sets.change(work, at.row.job_set_id, "merging", reason, wants="merge")

    async def _leave(
        self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, changes: CounterChanges
    ) -> None:
        """A job that is over is counted; its input goes to another job of the set, or to none until there is one."""
        if job.status not in FINAL:
            return
        await store_sets.own_input(work, at.row.job_set_id, min(at.members, default=None))
        await self._write(work, held, [job], {job.job_id: Ended(job.status, job.error_source)}, changes)

    async def _close(
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
            await self._write(work, held, jobs, {job.job_id: Ended("closed") for job in jobs}, changes)

    async def _fail(
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
        await self._close(work, held, at, live, "es_aborted", f"its job set was given up: {reason}", changes)
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
            await self._write_input(work, held, set_id, await store_sets.last_job(work, set_id), NO_QUEUE, changes)
            return
        await store_sets.own_input(work, set_id, job.job_id)
        ends = {one.job_id: Ended(one.status) for one, _ in failed}
        ends[job.job_id] = end_of_input(Ended(job.status, job.error_source), verdict)
        await self._write(work, held, [*(one for one, _ in failed), job], ends, changes)

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
            await self._fail(work, held, at, job, verdict, changes, of_others="es_merge_failed")
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
        await self._write(work, held, [job], {job.job_id: Ended(job.status, job.error_source)}, changes)

    async def _useless_merge(
        self, work: UnitOfWork, held: LockedTask, at: Open, job: EndedJob, changes: CounterChanges
    ) -> None:
        """What it merged was taken back, or its set was given up: neither its end nor its output counts."""
        await store_sets.end_members(work, [(job.job_id, "es_killed", 0)])
        if at.row.stage == "open":
            await store_sets.own_input(work, at.row.job_set_id, min(at.members, default=None))
        await self._write(work, held, [job], {job.job_id: Ended("closed")}, changes)

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
        await self._write(work, held, jobs, {one.job_id: Ended("finished") for one in jobs}, changes)
