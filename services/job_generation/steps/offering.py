"""Take input into chunks, and offer them to the brokerage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from services.job_generation.parameters import GenerationParameters, generation_parameters, typical_files
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.picking import (
    GENERATING,
    Pick,
    has_open_input,
    needs_key,
    next_pick,
    open_files,
    wants_scouts,
)
from services.job_generation.policy.values import Dataset, Task
from services.job_generation.steps.doors import Kinds
from services.job_generation.store import counters as store_counters
from services.job_generation.store import held as store_held
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.tasks import LockedTask
from services.job_generation.throttle.gating import Gating, HeldGate, tightest
from services.job_generation.throttle.throttle import ThrottleDecision
from services.job_generation.throttle.waking import causes_of_share
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkOffered
from shared.task.in_effect import SplitRules
from shared.waits.store import note_placed, note_wait
from shared.waits.waker import WakeMetrics


@dataclass
class Supply:
    """Input of a task that may be picked; `n_more` chunks of it may be open beside `busy` ones."""

    datasets: list[Dataset]
    rules: SplitRules
    scouts: bool
    limits: GenerationParameters
    n_more: int
    busy: set[tuple[int, int | None]]
    raised: Mapping[int, Sequence[int]]
    awaited: Collection[int]
    typical_files: int | None

    def next(self, max_jobs: int) -> Pick | None:
        """What the next chunk of at most so many jobs takes."""
        if self.n_more <= 0:
            return None
        return next_pick(
            self.datasets,
            self.rules,
            scouts=self.scouts,
            max_files=self.limits.files_of_chunk,
            max_jobs=max_jobs,
            busy=frozenset(self.busy),
            raised=self.raised,
            awaited=self.awaited,
            typical_files=self.typical_files,
        )

    def picked(self, pick: Pick, n_files: int) -> None:
        """Note that a chunk was made of so many files; without any there is none."""
        self.busy.add((pick.dataset_id, pick.ram_mb))
        self.n_more -= n_files > 0
        self.datasets = [
            replace(one, n_files_used=one.n_files_used + n_files) if one.dataset_id == pick.dataset_id else one
            for one in self.datasets
        ]


class Offering:
    """Offers the next chunks of a task whose row is locked."""

    def __init__(self, parameters: Parameters, gating: Gating, wakes: WakeMetrics, kinds: Kinds) -> None:
        self._parameters, self._gating, self._wakes, self._kinds = parameters, gating, wakes, kinds

    async def offer(self, work: UnitOfWork, held: LockedTask, *, force: bool = False) -> int:
        """Pick input for as many chunks as may be open; how many were offered.

        Nothing happens to a task in a state that makes no jobs, before its `retry_at` (unless forced), or while its
        share has enough queued.
        """
        task = held.task
        if task.status not in GENERATING or (held.retry_at and held.retry_at > work.now and not force):
            return 0
        limits = generation_parameters(self._parameters, task.gshare, task.vo)
        if not limits.is_on or not await self._may_be_taken(work, task):
            return 0
        datasets, scouts = await self._opened(work, task)
        open_input = [dataset.dataset_id for dataset in datasets if has_open_input(dataset)]
        if not open_input or not await store_units.has_ready(work, open_input):
            return 0
        supply = await self._supply(work, task, datasets, limits, scouts=scouts, force=force)
        if not force and supply.next(limits.jobs_of_chunk) is None:
            return 0  # the gate is not held in vain: more follows when what is in a chunk comes back
        gates = await self._gating.hold(work, task)
        gate, decision = tightest([(one, await self._at(work, one, task, force=force)) for one in gates])
        n_offered = 0
        if decision.passes:
            n_offered = await self._pick_all(work, task, supply, gates, decision)
        for one in gates:
            await self._gating.leave(work, one, task, was_served=n_offered > 0)
        if not decision.passes:
            await self._hold_back(work, task, datasets, gate, decision, limits)
            return 0
        if held.retry_at and (n_offered or force):
            # Told to go on: input that is still in a chunk is followed by more as soon as that comes back.
            await store.set_retry_at(work, task.task_id, None)
        if held.retry_at and n_offered:
            self._wakes.placed(await note_placed(work, "share", task.task_id))
            await store_held.leave_gate(work, task.task_id)
        return n_offered

    async def _at(self, work: UnitOfWork, gate: HeldGate, task: Task, *, force: bool) -> ThrottleDecision:
        """What a gate says of a task, and whether it is its turn."""
        decision = await self._gating.decide(work, gate, task)
        if force and not decision.passes:
            # What it was told to go on for may have just happened.
            await self._gating.count_again(work, gate)
            decision = await self._gating.decide(work, gate, task)
        return await self._gating.turn_of(work, gate, task, decision)

    async def _may_be_taken(self, work: UnitOfWork, task: Task) -> bool:
        """Whether no kind has the input of the task wait; the first one that does has said why."""
        for kind in self._kinds:
            if not await kind.offers(work, task):
                return False
        return True

    async def queue_with_gate(self, work: UnitOfWork, task: Task) -> int | None:
        """The work queue through whose gate its input goes after that of its share; None: there is none."""
        return (await self._gating.scopes(work, task))[-1].work_queue_id

    async def hold_share(self, work: UnitOfWork, task: Task) -> None:
        """Hold the gate of the share of a task whose turn comes later in this transaction."""
        await self._gating.hold_share(work, task)

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

    async def _supply(
        self,
        work: UnitOfWork,
        task: Task,
        datasets: Sequence[Dataset],
        limits: GenerationParameters,
        *,
        scouts: bool,
        force: bool,
    ) -> Supply:
        """What may be picked of a task now, whatever its gates say."""
        chunks = await store.open_chunks(work, task.task_id)
        busy = {
            (chunk.dataset_id or 0, chunk.ram_mb) for chunk in chunks if not self._kinds.job(chunk.kind).reads_outputs
        }
        n_more = limits.open_chunks_of_task - len(busy)
        raised = await store_units.raised_memory(work, task, [one.dataset_id for one in datasets if one.is_master])
        if raised and not force:
            busy |= await store_units.held_memory(work, task.task_id)
        awaited = await self._awaited(work, task, datasets)
        typical = typical_files(self._parameters, task)
        return Supply(list(datasets), task.rules, scouts, limits, n_more, busy, raised, awaited, typical)

    async def _pick_all(
        self, work: UnitOfWork, task: Task, supply: Supply, gates: Sequence[HeldGate], decision: ThrottleDecision
    ) -> int:
        n_offered = 0
        while decision.passes:
            max_jobs = max(1, min(supply.limits.jobs_of_chunk, decision.max_jobs))
            pick = supply.next(max_jobs)
            if pick is None:
                break
            n_files = await self._pick(work, task, pick, max_jobs)
            supply.picked(pick, n_files)
            for gate in gates:
                gate.offered(min(max_jobs, n_files))
            n_offered += n_files > 0
            _, decision = tightest([(gate, await self._gating.decide(work, gate, task)) for gate in gates])
        return n_offered

    async def _awaited(self, work: UnitOfWork, task: Task, datasets: Sequence[Dataset]) -> set[int]:
        """Masters of which more files are waited for, where that decides whether a job is made of fewer."""
        if task.rules.files_to_wait_for == 1:
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
            needs_key=needs_key(task.needs),
        )
        await store_counters.apply(work, changes)
        if whole:
            await store_units.open_files_in_use(work, pick.dataset_id)
        work.emit(ChunkOffered(chunk_id=chunk_id, task_id=task.task_id))
        return len(picked.ids)

    async def _hold_back(
        self,
        work: UnitOfWork,
        task: Task,
        datasets: Sequence[Dataset],
        gate: HeldGate,
        decision: ThrottleDecision,
        limits: GenerationParameters,
    ) -> None:
        retry_at = work.now + timedelta(seconds=limits.throttled_retry_s)
        await store.set_retry_at(work, task.task_id, retry_at)
        await store.record_decision(
            work, task.task_id, "throttled", decision.reason, numbers=decision.numbers, retry_at=retry_at
        )
        n_files = sum(open_files(dataset) for dataset in datasets if has_open_input(dataset))
        n_jobs = max(1, min(limits.jobs_of_chunk, n_files // (task.rules.n_files_per_job or 1)))
        causes = causes_of_share(gate.scope.cap, analysis=task.is_analysis)
        self._wakes.futile(await note_wait(work, "share", task.task_id, causes, retry_at, n_jobs=n_jobs))
