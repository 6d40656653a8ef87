"""Makes the jumbo jobs of tasks, and takes back those for which nothing is left."""

from __future__ import annotations

from collections.abc import Sequence

from services.job_generation.kinds.event_service.refused import take_or_wait
from services.job_generation.kinds.event_service.store import job_sets as store_sets
from services.job_generation.kinds.jumbo.building import build_jumbo
from services.job_generation.kinds.jumbo.job import JUMBO
from services.job_generation.kinds.jumbo.policy import (
    JumboNumbers,
    JumboPlan,
    JumboQueue,
    JumboWork,
    is_close_to_done,
    plan,
)
from services.job_generation.kinds.jumbo.store import jumbo as store
from services.job_generation.kinds.jumbo.store.jumbo import JumboJob
from services.job_generation.kinds.room import Steps
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.values import JobInput, PlacedJob, QueueFacts
from services.job_generation.specification.job_source import JobSource, Undefinable
from services.job_generation.splitting.placement import Placement
from services.job_generation.steps.counting import announce
from services.job_generation.store import counters as store_counters
from services.job_generation.store import tasks as store_tasks
from services.job_generation.store.tasks import Chunk, LockedTask
from services.job_generation.supplying.numbering import seeds_for
from shared.db.unit_of_work import UnitOfWork
from shared.events import QueueChoice
from shared.model import command_line
from shared.states.job import LIVE, QUEUED
from shared.states.task import TaskStatus

#: states of a task in which jumbo jobs are made: its scouts were judged
MAKING: tuple[TaskStatus, ...] = ("running", "scouted", "pending", "throttled")
#: the part of the work "job sets" that waits for a site
JUMBO_JOBS = "jumbo jobs"
NOTHING_LEFT = "no events are left for a jumbo job"


class MakingJumboJobs:
    """Looks after the jumbo jobs of a task whose row is locked."""

    def __init__(self, steps: Steps) -> None:
        self._parameters, self._making = steps.parameters, steps.making
        self._requesting = steps.requesting

    async def serve(self, work: UnitOfWork, held: LockedTask) -> int:
        """Make the jumbo jobs that the task lacks, or take back idle ones; how many were made."""
        task = held.task
        if not task.rules.uses_event_service or task.use_jumbo is None:
            return 0
        jobs = await store.jumbo_of_task(work, task.task_id)
        if not task.uses_jumbo or not await store.has_open_set(work, task.task_id):
            await self._take_back(work, jobs, NOTHING_LEFT if task.uses_jumbo else "jumbo jobs are off for its task")
            return 0
        if task.status not in MAKING:
            return 0
        if await self._is_close_to_done(work, held):
            await work.because("close to 100 % done")
            await store.note_use(work, task.task_id, "D")
            await self._take_back(work, jobs, "its task is close to 100 % done")
            return 0
        n_live, per_task = sum(job.status in LIVE for job in jobs), self._per_task(held)
        if n_live >= per_task:
            # most often: nothing else is read, for this is asked after every end of a job
            await self._note(work, held, JumboPlan((), "R", f"{n_live} of {per_task} jumbo jobs"))
            return 0
        if held.co_jumbo_retry_at is not None and await store.waits_for_a_site(work, task.task_id, JUMBO_JOBS):
            return 0
        n_ready = await store.count_ready(work, task.task_id)
        queues = await self._jumbo_queues(work, held)
        planned = self._plan(held, n_ready, queues, jobs)
        await self._note(work, held, planned)
        by_name = {one.queue: one for one in queues}
        return await self._make(work, held, [by_name[name] for name in planned.queues])

    async def _note(self, work: UnitOfWork, held: LockedTask, planned: JumboPlan) -> None:
        """Column USEJUMBO, where it changes."""
        if planned.use_jumbo != held.task.use_jumbo:
            await work.because(planned.reason)
            await store.note_use(work, held.task.task_id, planned.use_jumbo)

    def _per_task(self, held: LockedTask) -> int:
        return held.task.rules.n_jumbo_jobs or self._parameters.filled(JumboNumbers).n_per_task

    async def _is_close_to_done(self, work: UnitOfWork, held: LockedTask) -> bool:
        """By the files of its masters."""
        masters = [one for one in await store_tasks.datasets(work, held.task.task_id) if one.is_master]
        percent = self._parameters.filled(JumboNumbers).unset_percent
        n_finished = sum(one.n_files_finished for one in masters)
        return is_close_to_done(n_finished, sum(one.n_files for one in masters), percent)

    async def _jumbo_queues(self, work: UnitOfWork, held: LockedTask) -> list[QueueFacts]:
        """Queues with useJumboJobs: those ranked for what is open of the task, then all that passed."""
        ranked = await store.queues_of_task(work, held.task.task_id)
        choices = [QueueChoice(queue=name, resource_type=kind, weight=1.0) for name, kind in ranked]
        queues = await self._making.queues(work, held.task, choices)
        return list({one.queue: one for one in reversed(queues) if one.runs_jumbo_jobs}.values())[::-1]

    def _plan(
        self, held: LockedTask, n_ready: int, queues: Sequence[QueueFacts], jobs: Sequence[JumboJob]
    ) -> JumboPlan:
        rules, limits = held.task.rules, self._parameters.filled(JumboNumbers)
        ranked = {one.queue for one in queues}
        elsewhere = [job for job in jobs if job.status in LIVE and job.queue not in ranked]
        return plan(
            [
                *(_state(one, [job for job in jobs if job.queue == one.queue]) for one in queues),
                *(JumboQueue(job.queue, job.site, n_live=1) for job in elsewhere),  # ranked no more, but still at work
            ],
            JumboWork(n_ready, bool(jobs)),
            per_task=self._per_task(held),
            per_site=rules.n_jumbo_jobs_per_site or limits.n_per_site,
            most_in_vain=rules.consumer_attempts,
        )

    async def _take_back(self, work: UnitOfWork, jobs: Sequence[JumboJob], reason: str) -> None:
        """Those that no pilot has; the others end when they are given no more ranges."""
        waiting = [job.job_id for job in jobs if job.status in QUEUED]
        announce(work, await store_sets.end_live(work, waiting, "closed", QUEUED, reason))

    async def _make(self, work: UnitOfWork, held: LockedTask, queues: Sequence[QueueFacts]) -> int:
        """One jumbo job at each of these queues whose site takes one now; how many. Raises Undefinable."""
        first_set = await store.first_set(work, held.task.task_id) if queues else None
        if first_set is None:
            return 0
        first_set_id, chunk_id = first_set
        definition = await self._making.source(work, held.task)
        first = await store_sets.input_of_set(work, first_set_id)
        masters = await store.masters_of_open_sets(work, held.task.task_id)
        job = JobInput(masters or first.master, first.secondary)
        chunk = Chunk(chunk_id, JUMBO.name, job.master[0].dataset_id, None, len(job.master))
        changes = CounterChanges()
        placement = Placement([PlacedJob(queue, job) for queue in queues])
        if await take_or_wait(work, self._making, definition.task, placement, JUMBO):
            await self._insert(work, definition, chunk, placement.jobs, changes)
            await store_counters.apply(work, changes)
        return len(placement.jobs)

    async def _insert(
        self,
        work: UnitOfWork,
        definition: JobSource,
        chunk: Chunk,
        placed: Sequence[PlacedJob],
        changes: CounterChanges,
    ) -> None:
        seeds = await seeds_for(work, definition, definition.text_for(JUMBO), len(placed))
        request = await self._requesting.request(work, definition, JUMBO, placed, seeds)
        try:
            jobs = build_jumbo(request)
        except command_line.UnresolvedPlaceholder as error:
            raise Undefinable(str(error)) from error
        await self._requesting.insert(work, definition, chunk, JUMBO, jobs, changes, seeds, takes_input=False)
        rows = [(job.job_id, one.queue.queue, one.queue.site) for job, one in zip(jobs, placed, strict=True)]
        await store.insert(work, definition.task.task_id, rows)


def _state(queue: QueueFacts, jobs: Sequence[JumboJob]) -> JumboQueue:
    """A queue with the task's jumbo jobs there; one that was taken back is no attempt."""
    n_in_vain = 0
    for job in jobs:
        if job.status is None:
            n_in_vain = 0 if job.n_processed else n_in_vain + (not job.was_closed)
    n_live = sum(job.status in LIVE for job in jobs)
    return JumboQueue(queue.queue, queue.site, queue.min_ranges_for_jumbo, n_live, n_in_vain)
