"""Tasks to nuclei."""

from __future__ import annotations

import random
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from services.task_brokerage.parameters import limits_from
from services.task_brokerage.policy.request import job_request, task_request
from services.task_brokerage.store import tasks as store
from shared.brokerage.decision import Decision
from shared.brokerage.nucleus import TaskRequest
from shared.brokerage.pipeline import PASSED
from shared.brokerage.policy import TaskBrokerage
from shared.catalogue import CatalogueReader
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskDefined, TaskEvent, TaskReady, TaskReleased
from shared.messaging.failures import Permanent
from shared.model.whole_numbers import SEED_BITS
from shared.snapshot import Snapshot
from shared.snapshot.inputs import inputs_of_task
from shared.task.in_effect import rules_of
from shared.waits.causes import causes_of
from shared.waits.store import note_placed, note_wait
from shared.waits.waker import WakeMetrics

FindPolicy = Callable[[str, str], TaskBrokerage]


class TaskHandlers:
    """Load, decide, commit. `find_policy(vo, label)` gives the plugin of a task."""

    def __init__(
        self,
        catalogue: CatalogueReader,
        snapshot: Snapshot,
        parameters: Parameters,
        find_policy: FindPolicy,
        rng: random.Random,
        metrics: CollectorRegistry,
        wakes: WakeMetrics,
    ) -> None:
        self._wakes = wakes
        self._catalogue, self._snapshot, self._parameters = catalogue, snapshot, parameters
        self._find_policy, self._random = find_policy, rng
        self._excluded = Counter(
            "orrery_task_brokerage_exclusions",
            "Nuclei left out of decisions, by check",
            ["check", "tier"],
            registry=metrics,
        )
        self._decided = Counter(
            "orrery_task_brokerage_decisions", "Decisions about tasks by outcome", ["outcome"], registry=metrics
        )

    async def on_task_defined(self, event: TaskDefined, work: UnitOfWork) -> None:
        """Choose a nucleus for a task that became assigning, or that the sweep found still there."""
        await self._broker(event.task_id, work)

    async def on_task_released(self, event: TaskReleased, work: UnitOfWork) -> None:
        """Look again at a task that was held, or whose time has come; others than assigning are not ours."""
        await self._broker(event.task_id, work)

    async def _broker(self, task_id: int, work: UnitOfWork) -> None:
        request = await self._load(task_id, work)
        if request is None:
            return
        decision = await self._decide(request, work)
        decision_id = await store.save_decision(work, decision)
        self._count(decision)
        if decision.retry_at is not None:
            await store.keep_waiting(work, task_id, decision.retry_at, decision.reason())
            futile = await note_wait(
                work,
                "nucleus",
                task_id,
                causes_of(decision),
                decision.retry_at,
                decision_id=decision_id,
                world_version=decision.world_version,
                config_version=self._parameters.version,
            )
            self._wakes.futile(futile)
            return
        self._wakes.placed(await note_placed(work, "nucleus", task_id))
        nucleus = decision.chosen[0]
        await work.because(f"nucleus {nucleus} chosen")
        await store.assign(work, task_id, nucleus)
        await store.note_work(work, task_id)
        work.emit(TaskReady(task_id=task_id, nucleus=nucleus))

    def _count(self, decision: Decision) -> None:
        self._decided.labels(decision.outcome).inc()
        for code in decision.codes.tolist():
            if code != PASSED:
                check = decision.checks[code]
                self._excluded.labels(check.name, check.tier.value).inc()

    async def _load(self, task_id: int, work: UnitOfWork) -> TaskRequest | None:
        row = await store.assigning_task(work, task_id)
        if row is None:
            return None
        storages = self._snapshot.world.grid.storages
        datasets, inputs = await inputs_of_task(self._catalogue, work.connection, task_id, storages)
        remaining_work = await store.remaining_work(work, row["current_priority"])
        limits = limits_from(self._parameters, vo=row["vo"], gshare=row["gshare"])
        boundary = (
            await store.largest_boundary(work, task_id) if rules_of(row["split_rule"]).keeps_boundaries_whole else None
        )
        try:
            job = job_request(row, datasets, inputs, boundary, work.now)
            return task_request(row, job, inputs, remaining_work, limits)
        except ValueError as error:
            raise Permanent(f"the task's needs make no sense: {error}", task_id=task_id) from error

    async def _decide(self, request: TaskRequest, work: UnitOfWork) -> Decision:
        """Decide on the world in memory; before saying no, on a world that is certainly current."""
        policy = self._find_policy(request.job.vo, request.job.label)
        seed = self._random.getrandbits(SEED_BITS)
        decision = policy.decide(self._snapshot.world, request, seed)
        if not decision.chosen and await self._snapshot.refresh(work.connection):
            decision = policy.decide(self._snapshot.world, request, seed)
        return decision


# Tasks corrected in one transaction, which others wait for; the next comes a period later.
CORRECTED_AT_ONCE = 500


async def on_task_moved(event: TaskEvent, work: UnitOfWork) -> None:
    """Note that the task has more or less to do than before: RW of its nucleus follows from that."""
    await store.note_work(work, event.task_id)


async def correct_remaining_work(work: UnitOfWork) -> None:
    """Correct tasks whose event came too early or was lost, and sums; periodic, on one replica."""
    await store.correct_work(work, CORRECTED_AT_ONCE)
