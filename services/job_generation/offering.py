"""Taking input into chunks and offering them to the brokerage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.job_generation.parameters import GenerationParameters, generation_parameters, throttle_limits
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.picking import GENERATING, Pick, next_pick, wants_scouts
from services.job_generation.policy.throttle import (
    ALL_TYPES,
    ENOUGH_WALLTIME_S,
    GROWING_SHARES,
    JUDGED_WHOLE,
    OFFERED,
    UNTHROTTLED_LABELS,
    USER_LABEL,
    CountedStatus,
    Gate,
    ThrottleDecision,
    ThrottleLimits,
    ThrottleScope,
    for_task,
    judge,
    with_priorities,
)
from services.job_generation.policy.values import Dataset, Task
from services.job_generation.store import statistics as store_statistics
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.statistics import ResourceQueue
from services.job_generation.store.tasks import LockedTask
from services.job_generation.waking import causes_of_share
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkOffered
from shared.model.dataset_types import INPUT_TYPES
from shared.waits.store import note_placed, note_wait
from shared.waits.waker import WakeMetrics

COUNTS_ARE_FRESH_FOR = timedelta(seconds=5)
#: walltimes are asked for in whole hours: more jobs than that take long enough, or one is not known
ENOUGH_JOBS = int(ENOUGH_WALLTIME_S // 3600) + 1


@dataclass
class _CountedJobs:
    """Jobs of one scope by state, its name in limits, and whether it may be throttled at all.

    `walltime_s` and `priorities` of a share are read when something depends on them.
    """

    scope: ThrottleScope
    at: datetime
    by_status: dict[CountedStatus, int]
    name: str
    throttled: bool
    walltime_s: float | None = None
    walltime_was_read: bool = False
    priorities: tuple[int | None, int | None] | None = None


class Offering:
    """Offers the next chunks of a task whose row is locked."""

    def __init__(self, parameters: Parameters, wakes: WakeMetrics) -> None:
        self._parameters, self._wakes = parameters, wakes
        self._counted: dict[ThrottleScope, _CountedJobs] = {}
        self._resource_queues: tuple[datetime, Mapping[int, ResourceQueue]] | None = None

    async def offer(self, work: UnitOfWork, held: LockedTask, *, force: bool = False) -> int:
        """Pick input for as many chunks as may be open; how many were offered.

        Nothing happens to a task in a state that makes no jobs, before its `retry_at` (unless forced), or while its
        share has enough queued.
        """
        task = held.task
        if task.status not in GENERATING or (held.retry_at and held.retry_at > work.now and not force):
            return 0
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        if not limits.is_on:
            return 0
        datasets, scouts = await self._opened(work, task)
        if not any(_has_open_input(dataset) for dataset in datasets):
            return 0
        decision = await self._throttle(work, task)
        if force and not decision.passes:
            # What it was told to go on for may have just happened.
            self._counted.pop(await self._scope(work, task), None)
            decision = await self._throttle(work, task)
        if not decision.passes:
            await self._hold_back(work, task, datasets, decision, limits)
            return 0
        n_offered = await self._pick_all(work, task, datasets, limits, decision, scouts=scouts, force=force)
        if held.retry_at and (n_offered or force):
            # Told to go on: input that is still in a chunk is followed by more as soon as that comes back.
            await store.set_retry_at(work, task.task_id, None)
        if held.retry_at and n_offered:
            self._wakes.placed(await note_placed(work, "share", task.task_id))
        return n_offered

    async def _opened(self, work: UnitOfWork, task: Task) -> tuple[list[Dataset], bool]:
        """Datasets of the task, and whether jobs made now are scouts; without scouts all input is opened."""
        datasets = await store.datasets(work, task.task_id)
        masters = [dataset for dataset in datasets if dataset.is_master]
        all_opened = all(dataset.n_files_to_be_used >= dataset.n_files for dataset in masters)
        made = await store.scouts_were_made(work, task.task_id) if task.status == "ready" else True
        scouts = wants_scouts(task.status, task.rules, scouts_made=made, all_opened=all_opened)
        if not scouts and not all_opened and await store_units.open_all_files(work, task.task_id):
            datasets = await store.datasets(work, task.task_id)
        return datasets, scouts

    async def _pick_all(
        self,
        work: UnitOfWork,
        task: Task,
        datasets: Sequence[Dataset],
        limits: GenerationParameters,
        decision: ThrottleDecision,
        *,
        scouts: bool,
        force: bool,
    ) -> int:
        chunks = await store.open_chunks(work, task.task_id)
        busy = {(chunk.dataset_id or 0, chunk.ram_mb) for chunk in chunks if chunk.kind != "merge"}
        n_open, n_offered = len(busy), 0
        raised = await store_units.raised_memory(work, task, [one.dataset_id for one in datasets if one.is_master])
        if raised and not force:
            busy |= await store_units.held_memory(work, task.task_id)
        awaited = await self._awaited(work, task, datasets)
        while n_open + n_offered < limits.open_chunks_of_task and decision.passes:
            max_jobs = max(1, min(limits.jobs_of_chunk, decision.max_jobs))
            pick = next_pick(
                datasets,
                task.rules,
                scouts=scouts,
                max_files=limits.files_of_chunk,
                max_jobs=max_jobs,
                busy=frozenset(busy),
                raised=raised,
                awaited=awaited,
            )
            if pick is None:
                break
            busy.add((pick.dataset_id, pick.ram_mb))
            n_files = await self._pick(work, task, pick, max_jobs)
            n_offered += n_files > 0
            datasets = [
                replace(one, n_files_used=one.n_files_used + n_files) if one.dataset_id == pick.dataset_id else one
                for one in datasets
            ]
            decision = await self._throttle(work, task)
        return n_offered

    async def _awaited(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> set[int]:
        """Masters of which more files are waited for, where that decides whether a job is made of fewer."""
        if task.rules.takes_input_at_once or (task.rules.n_files_per_job or 1) == 1:
            return set()
        return await store_units.awaited_datasets(work, [one.dataset_id for one in datasets if one.is_master])

    async def _pick(self, work: UnitOfWork, task: Task, pick: Pick, max_jobs: int) -> int:
        """One chunk of at most so many jobs: files ready -> picked; how many, zero if none was ready after all."""
        [chunk_id] = await work.next_ids("chunk_ids", 1)
        whole = task.rules.keeps_boundaries_whole
        picked = await store.pick_files(work, task, chunk_id, pick)
        if not picked.ids:
            return 0
        if pick.ram_mb is not None:
            await store_units.release_memory(work, task.task_id, pick.ram_mb)
        changes = CounterChanges()
        changes.moved(pick.dataset_id, "input", "ready", "picked", len(picked.ids), picked.n_events)
        reason = f"taken into chunk {chunk_id}"
        await work.log_files(
            entity="file", task_id=task.task_id, ids=picked.ids, from_status="ready", to_status="picked", reason=reason
        )
        await store.insert_chunk(
            work,
            chunk_id,
            task.task_id,
            pick.kind,
            picked,
            dataset_id=pick.dataset_id,
            priority=task.priority,
            max_jobs=max_jobs,
            ram_mb=pick.ram_mb,
        )
        await self._count_offered(work, task, min(max_jobs, len(picked.ids)))
        await store.apply_counters(work, changes)
        if whole:
            await store_units.open_files_in_use(work, pick.dataset_id)
        work.emit(ChunkOffered(chunk_id=chunk_id, task_id=task.task_id))
        return len(picked.ids)

    async def _scope(self, work: UnitOfWork, task: Task) -> ThrottleScope:
        """What the task is counted in: its work queue where that is throttled by itself, else its share."""
        queues = await self._queues(work) if task.work_queue_id is not None else {}
        of_queue = task.work_queue_id if task.work_queue_id in queues else None
        if of_queue is None:
            return ThrottleScope(task.gshare, task.resource_type)
        return ThrottleScope("", ALL_TYPES if queues[of_queue].name in JUDGED_WHOLE else task.resource_type, of_queue)

    async def _queues(self, work: UnitOfWork) -> Mapping[int, ResourceQueue]:
        """The work queues that are throttled by themselves, at most a few seconds old."""
        known = self._resource_queues
        if known is None or not timedelta(0) <= work.now - known[0] < COUNTS_ARE_FRESH_FOR:
            known = self._resource_queues = (work.now, await store_statistics.resource_queues(work))
        return known[1]

    async def _throttle(self, work: UnitOfWork, task: Task) -> ThrottleDecision:
        """The decision for the task's share or work queue and resource type; counts are at most a few seconds old."""
        scope = await self._scope(work, task)
        counted = self._counted.get(scope)
        if counted is None or not timedelta(0) <= work.now - counted.at < COUNTS_ARE_FRESH_FOR:
            counted = self._counted[scope] = await self._count(work, scope)
        limits = throttle_limits(self._parameters, counted.name, task.resource_type, analysis=task.is_analysis)
        applies = counted.throttled and task.prod_source_label not in UNTHROTTLED_LABELS
        jumps = task.prod_source_label != USER_LABEL
        return for_task(await self._judged(work, counted, limits, applies=applies, jumps=jumps), task.priority)

    async def judge_share(self, work: UnitOfWork, gshare: str, cap: str, *, analysis: bool) -> ThrottleDecision:
        """Whether what waiting tasks of a share name has enough queued, by the counts as they are now."""
        scope = ThrottleScope.of_cap(gshare, cap)
        counted = await self._count(work, scope)
        limits = throttle_limits(self._parameters, counted.name, scope.resource_type, analysis=analysis)
        return await self._judged(work, counted, limits, applies=counted.throttled, jumps=not analysis)

    async def _judged(
        self, work: UnitOfWork, counted: _CountedJobs, limits: ThrottleLimits, *, applies: bool, jumps: bool
    ) -> ThrottleDecision:
        """The decision; walltimes and priorities of a share are read only where it depends on them."""
        scope, queues = counted.scope, sorted(await self._queues(work))
        gate = Gate(counted.walltime_s, scope.resource_type == ALL_TYPES, counted.name in GROWING_SHARES)
        decision = judge(counted.by_status, limits, share_is_throttled=applies, gate=gate)
        if scope.work_queue_id is not None:
            return decision
        queued = decision.numbers["not_running"] + decision.numbers["defined"]
        if decision.depends_on_walltime and queued < ENOUGH_JOBS and not counted.walltime_was_read:
            counted.walltime_s = await store_statistics.walltime_of_queued(work, scope, queues, ENOUGH_JOBS)
            counted.walltime_was_read = True
            gate = replace(gate, queued_walltime_s=counted.walltime_s)
            decision = judge(counted.by_status, limits, share_is_throttled=applies, gate=gate)
        if decision.may_be_jumped and jumps:
            if counted.priorities is None:
                counted.priorities = await store_statistics.highest_priorities(work, scope, queues)
            decision = with_priorities(decision, limits, *counted.priorities)
        return decision

    async def _count(self, work: UnitOfWork, scope: ThrottleScope) -> _CountedJobs:
        queues = await self._queues(work)
        if scope.work_queue_id is None:
            found = await store_statistics.jobs_of_share(work, scope.gshare, scope.resource_type, sorted(queues))
            throttled = await store_statistics.share_is_throttled(work, scope.gshare)
            return _CountedJobs(scope, work.now, found, scope.gshare, throttled)
        found = await store_statistics.jobs_of_resource_queue(work, scope.work_queue_id, scope.resource_type)
        queue = queues.get(scope.work_queue_id)
        name, throttled = (queue.name, queue.throttled) if queue else ("", False)
        return _CountedJobs(scope, work.now, found, name, throttled)

    async def _count_offered(self, work: UnitOfWork, task: Task, n_jobs: int) -> None:
        """Jobs offered since the share or work queue was counted."""
        counted = self._counted.get(await self._scope(work, task))
        if counted is not None:
            counted.by_status[OFFERED] = counted.by_status.get(OFFERED, 0) + n_jobs

    async def _hold_back(
        self,
        work: UnitOfWork,
        task: Task,
        datasets: Sequence[Dataset],
        decision: ThrottleDecision,
        limits: GenerationParameters,
    ) -> None:
        retry_at = work.now + timedelta(seconds=limits.throttled_retry_s)
        await store.set_retry_at(work, task.task_id, retry_at)
        await store.record_decision(
            work, task.task_id, "throttled", decision.reason, numbers=decision.numbers, retry_at=retry_at
        )
        n_files = sum(_open_files(dataset) for dataset in datasets if _has_open_input(dataset))
        n_jobs = max(1, min(limits.jobs_of_chunk, n_files // (task.rules.n_files_per_job or 1)))
        causes = causes_of_share((await self._scope(work, task)).cap, analysis=task.is_analysis)
        self._wakes.futile(await note_wait(work, "share", task.task_id, causes, retry_at, n_jobs=n_jobs))


def _open_files(dataset: Dataset) -> int:
    return min(dataset.n_files_to_be_used, dataset.n_files) - dataset.n_files_used


def _has_open_input(dataset: Dataset) -> bool:
    return dataset.type in INPUT_TYPES and dataset.is_master and dataset.status == "ready" and _open_files(dataset) > 0
