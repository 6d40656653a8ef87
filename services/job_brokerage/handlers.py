"""Chunks of input to ranked queues."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter

from services.job_brokerage.loading import ChunkLoading, FindPolicy, policy_of
from services.job_brokerage.policy.jumbo import jumbo_queues
from services.job_brokerage.store import chunks as store
from shared.brokerage.decision import Candidate, Decision
from shared.brokerage.pipeline import PASSED
from shared.brokerage.request import JobRequest, local_data
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import ChunkBrokered, ChunkOffered, ChunkUnplaceable
from shared.events.chunk import QueueChoice
from shared.messaging.failures import Permanent
from shared.model.whole_numbers import SEED_BITS
from shared.snapshot import Snapshot
from shared.snapshot.expected import expected_of_chunk
from shared.waits.causes import causes_of
from shared.waits.store import note_placed, note_wait
from shared.waits.waker import WakeMetrics


class ChunkHandlers:
    """Load, decide, commit. `find_policy(vo, label)` gives the plugin of a task."""

    def __init__(
        self,
        loading: ChunkLoading,
        snapshot: Snapshot,
        parameters: Parameters,
        find_policy: FindPolicy,
        rng: random.Random,
        metrics: CollectorRegistry,
        wakes: WakeMetrics,
        on_wait: Callable[[], None],
    ) -> None:
        self._wakes, self._on_wait = wakes, on_wait
        self._loading, self._snapshot, self._parameters = loading, snapshot, parameters
        self._find_policy, self._random = find_policy, rng
        self._excluded = Counter(
            "orrery_brokerage_exclusions", "Queues left out of decisions, by check", ["check", "tier"], registry=metrics
        )
        self._decided = Counter("orrery_brokerage_decisions", "Decisions by outcome", ["outcome"], registry=metrics)

    async def on_chunk_offered(self, event: ChunkOffered, work: UnitOfWork) -> None:
        """Rank queues for a chunk; without any, say when to look again."""
        request = await self._load(event, work)
        if request is None:
            return
        request, decision = await self._decide(request, event, work)
        for_jumbo = _choices(jumbo_queues(self._snapshot.world.of_vo(request.vo), request, decision))
        decision_id = await store.save_decision(work, decision)
        self._count(decision)
        if decision.retry_at is not None:
            await self._wait(work, request, decision, decision_id)
            work.emit(
                ChunkUnplaceable(
                    chunk_id=event.chunk_id,
                    task_id=event.task_id,
                    decision_id=decision_id,
                    reason=decision.reason(),
                    retry_at=decision.retry_at,
                    jumbo_queues=for_jumbo,
                )
            )
            return
        self._wakes.placed(await note_placed(work, "queue", event.task_id, event.chunk_id))
        work.emit(
            ChunkBrokered(
                chunk_id=event.chunk_id,
                task_id=event.task_id,
                decision_id=decision_id,
                candidates=_choices(decision.candidates),
                jumbo_queues=for_jumbo,
            )
        )

    async def _wait(self, work: UnitOfWork, request: JobRequest, decision: Decision, decision_id: int) -> None:
        """Keep what held the task: whatever lifts it wakes the task before its time."""
        columns = self._snapshot.world.columns
        has_input = None
        if decision.names == columns.labels:
            has_input = local_data(columns, request).missing_files <= 0
        floor = None if request.is_analysis else request.limits.queued_jobs_floor
        assert decision.retry_at is not None
        futile = await note_wait(
            work,
            "queue",
            request.task_id,
            causes_of(decision, vo=request.vo, floor=floor, has_input=has_input),
            decision.retry_at,
            n_jobs=request.n_jobs,
            decision_id=decision_id,
            chunk_id=request.chunk_id,
            world_version=decision.world_version,
            config_version=self._parameters.version,
        )
        self._wakes.futile(futile)
        self._on_wait()

    async def _load(self, event: ChunkOffered, work: UnitOfWork) -> JobRequest | None:
        row = await store.chunk_with_task(work.connection, event.chunk_id)
        if row is None:
            return None
        try:
            return await self._loading.request(work.connection, row, self._parameters, work.now)
        except ValueError as error:
            raise Permanent(f"the task's needs make no sense: {error}", task_id=event.task_id) from error

    async def _decide(self, request: JobRequest, event: ChunkOffered, work: UnitOfWork) -> tuple[JobRequest, Decision]:
        """Decide on the world in memory as the VO sees it; before saying no, on one that is certainly current."""
        policy = policy_of(request, self._find_policy)
        self._snapshot.withdraw(event.chunk_id)
        seed = self._random.getrandbits(SEED_BITS)
        decision = policy.decide(self._snapshot.world.of_vo(request.vo), request, seed)
        if not decision.chosen and await self._snapshot.refresh(work.connection):
            request = await self._load(event, work) or request
            decision = policy.decide(self._snapshot.world.of_vo(request.vo), request, seed)
        weights = {label: one.weight for label, one in zip(decision.chosen, decision.candidates, strict=True)}
        self._snapshot.assign(event.chunk_id, expected_of_chunk(weights, request.n_jobs), vo=request.vo)
        return request, decision

    def _count(self, decision: Decision) -> None:
        self._decided.labels(decision.outcome).inc()
        for code in decision.codes.tolist():
            if code != PASSED:
                check = decision.checks[code]
                self._excluded.labels(check.name, check.tier.value).inc()


def _choices(candidates: Sequence[Candidate]) -> tuple[QueueChoice, ...]:
    return tuple(
        QueueChoice(queue=one.queue, resource_type=one.resource_type, weight=one.weight, max_jobs=one.max_jobs)
        for one in candidates
    )
