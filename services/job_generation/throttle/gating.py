"""Gates: one for each share, and each work queue that is throttled by itself, and resource type.

Tasks of such a work queue go through the gate of their share, and then through that of the queue.

Whoever offers input holds the gate's row, so that every generator goes by the same counts and order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.job_generation.policy.values import Task
from services.job_generation.throttle.fair_share import ShareUse, fair_factor
from services.job_generation.throttle.gate_order import (
    USER_NAME,
    CycleRule,
    WaitingTask,
    ahead_of,
    in_turn,
    places_before,
    served,
)
from services.job_generation.throttle.parameters import cycle_rule, throttle_limits
from services.job_generation.throttle.store import gates as store
from services.job_generation.throttle.store import statistics as store_statistics
from services.job_generation.throttle.store.gates import GateRow
from services.job_generation.throttle.store.statistics import ResourceQueue
from services.job_generation.throttle.throttle import (
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
    held_behind,
    judge,
    scaled,
    with_priorities,
)
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.model.urgency import URGENT_PROCESSING
from shared.waits.index import Waiting

COUNTS_ARE_FRESH_FOR = timedelta(seconds=5)
#: what others run changes slowly
USE_IS_FRESH_FOR = timedelta(seconds=30)
#: walltimes are asked for in whole hours: more jobs than that take long enough, or one is not known
ENOUGH_JOBS = int(ENOUGH_WALLTIME_S // 3600) + 1


@dataclass
class _Known:
    """What one process read about a scope with the counts of `at`.

    Its name in limits, and whether it may be throttled at all; `walltime_s` and `priorities` are read when something
    depends on them.
    """

    at: datetime | None
    name: str
    throttled: bool
    walltime_s: float | None = None
    walltime_was_read: bool = False
    priorities: tuple[int | None, int | None] | None = None


@dataclass
class HeldGate:
    """A gate that this transaction holds."""

    scope: ThrottleScope
    row: GateRow
    known: _Known

    def offered(self, n_jobs: int) -> None:
        """Count jobs that a chunk may become."""
        self.row.by_status[OFFERED] = self.row.by_status.get(OFFERED, 0) + n_jobs


class Gating:
    """Judges how much a gate lets through, and for whom."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._known: dict[ThrottleScope, _Known] = {}
        self._resource_queues: tuple[datetime, Mapping[int, ResourceQueue]] | None = None
        self._use: tuple[datetime, Sequence[ShareUse]] | None = None

    async def hold(self, work: UnitOfWork, task: Task) -> list[HeldGate]:
        """Hold the gates of a task until the end of the transaction.

        Their counts are at most a few seconds old.
        """
        return [await self._held(work, scope) for scope in await self.scopes(work, task)]

    async def hold_share(self, work: UnitOfWork, task: Task) -> None:
        """Hold the gate of its share alone.

        Whoever holds several holds those of shares before those of work queues.
        """
        await store.lock_gate(work, ThrottleScope(task.gshare, task.resource_type))

    async def _held(self, work: UnitOfWork, scope: ThrottleScope) -> HeldGate:
        row = await store.lock_gate(work, scope)
        if not _is_fresh(work, row.counted_at, COUNTS_ARE_FRESH_FOR):
            row = await self._counted(work, scope, row)
        return HeldGate(scope, row, await self._read(work, scope, row.counted_at))

    async def count_again(self, work: UnitOfWork, gate: HeldGate) -> None:
        """Count jobs of a gate that is held."""
        gate.row = await self._counted(work, gate.scope, gate.row)
        self._known.pop(gate.scope, None)
        gate.known = await self._read(work, gate.scope, gate.row.counted_at)

    async def decide(self, work: UnitOfWork, gate: HeldGate, task: Task) -> ThrottleDecision:
        """What the gate lets through for a task.

        Urgent work ignores fairshare (JEDI: Express transfers).
        """
        limits = throttle_limits(self._parameters, gate.known.name, task.resource_type, analysis=task.is_analysis)
        applies = gate.known.throttled and task.prod_source_label not in UNTHROTTLED_LABELS
        jumps = task.prod_source_label != USER_LABEL
        decision = await self._judged(work, gate, limits, applies=applies, jumps=jumps)
        if applies and task.processing_type != URGENT_PROCESSING:
            decision = scaled(decision, await self._fair_factor(work, gate.scope))
        return for_task(decision, task.priority)

    async def turn_of(
        self, work: UnitOfWork, gate: HeldGate, task: Task, decision: ThrottleDecision
    ) -> ThrottleDecision:
        """The decision; a stop while others are served before and there is not room for everybody."""
        exempt = not gate.known.throttled or task.prod_source_label in UNTHROTTLED_LABELS
        if exempt or not decision.passes or decision.has_room_for_all:
            return decision
        rule = cycle_rule(self._parameters, gate.known.name)
        since, is_woken = await store.own_wait(work, task)
        mine = _at_gate(task, rule, since)
        waiting: list[WaitingTask] = []
        for place in places_before(mine, gate.row.cycle, rule):
            waiting += await store.ahead_at_gate(work, gate.scope, mine, place, rule, is_woken=is_woken)
        if decision.min_priority is not None:
            waiting = [one for one in waiting if one.priority >= decision.min_priority]
        return held_behind(decision, ahead_of(mine, waiting, gate.row.cycle, rule))

    async def leave(self, work: UnitOfWork, gate: HeldGate, task: Task, *, was_served: bool) -> None:
        """Keep what was counted, offered and served for whoever comes next."""
        if was_served:
            rule = cycle_rule(self._parameters, gate.known.name)
            gate.row.cycle = served(gate.row.cycle, _at_gate(task, rule, work.now), rule)
        await store.keep_gate(work, gate.scope, gate.row)

    async def judge_share(self, work: UnitOfWork, gshare: str, cap: str, *, analysis: bool) -> ThrottleDecision:
        """Whether what waiting tasks of a share name has enough queued, by the counts as they are now."""
        scope = ThrottleScope.of_cap(gshare, cap)
        gate = HeldGate(
            scope,
            GateRow(work.now, await self._count(work, scope), await store.cycle_of_gate(work, scope)),
            await self._about(work, scope, work.now),
        )
        limits = throttle_limits(self._parameters, gate.known.name, scope.resource_type, analysis=analysis)
        decision = await self._judged(work, gate, limits, applies=gate.known.throttled, jumps=not analysis)
        return scaled(decision, await self._fair_factor(work, scope)) if gate.known.throttled else decision

    async def order(self, work: UnitOfWork, gshare: str, cap: str, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Waiting tasks of a gate in the order in which it serves them."""
        scope = ThrottleScope.of_cap(gshare, cap)
        queue = (await self._queues(work)).get(scope.work_queue_id) if scope.work_queue_id is not None else None
        rule = cycle_rule(self._parameters, queue.name if queue else gshare)
        cycle = await store.cycle_of_gate(work, scope)
        by_id = {one.key.task_id: one for one in waiting}
        tasks = [
            WaitingTask(one.key.task_id, one.priority, _group(rule, one.user, one.working_group), one.since, one.n_jobs)
            for one in waiting
        ]
        return [by_id[one.task_id] for one in in_turn(tasks, cycle, rule)]

    async def scopes(self, work: UnitOfWork, task: Task) -> list[ThrottleScope]:
        """What the task is counted in: its share, and its work queue where that is throttled by itself."""
        found = [ThrottleScope(task.gshare, task.resource_type)]
        queues = await self._queues(work) if task.work_queue_id is not None else {}
        if task.work_queue_id is not None and task.work_queue_id in queues:
            is_whole = queues[task.work_queue_id].name in JUDGED_WHOLE
            found.append(ThrottleScope("", ALL_TYPES if is_whole else task.resource_type, task.work_queue_id))
        return found

    async def _queues(self, work: UnitOfWork) -> Mapping[int, ResourceQueue]:
        """The work queues that are throttled by themselves, at most a few seconds old."""
        known = self._resource_queues
        if known is None or not _is_fresh(work, known[0], COUNTS_ARE_FRESH_FOR):
            known = self._resource_queues = (work.now, await store_statistics.resource_queues(work))
        return known[1]

    async def _fair_factor(self, work: UnitOfWork, scope: ThrottleScope) -> float:
        """How much of its number a share gets; work queues that are throttled by themselves get all of it."""
        if scope.work_queue_id is not None:
            return 1.0
        known = self._use
        if known is None or not _is_fresh(work, known[0], USE_IS_FRESH_FOR):
            known = self._use = (work.now, await store.use_of_shares(work))
        return fair_factor(scope.gshare, known[1])

    async def _judged(
        self, work: UnitOfWork, gate: HeldGate, limits: ThrottleLimits, *, applies: bool, jumps: bool
    ) -> ThrottleDecision:
        """The decision; walltimes and priorities are read only where it depends on them."""
        scope, known = gate.scope, gate.known
        facts = Gate(known.walltime_s, scope.resource_type == ALL_TYPES, known.name in GROWING_SHARES)
        decision = judge(gate.row.by_status, limits, share_is_throttled=applies, gate=facts)
        queued = decision.numbers["not_running"] + decision.numbers["defined"]
        asks_walltime = decision.depends_on_walltime and not facts.is_whole
        if asks_walltime and queued < ENOUGH_JOBS and not known.walltime_was_read:
            known.walltime_s = await store_statistics.walltime_of_queued(work, scope, ENOUGH_JOBS)
            known.walltime_was_read = True
            facts = replace(facts, queued_walltime_s=known.walltime_s)
            decision = judge(gate.row.by_status, limits, share_is_throttled=applies, gate=facts)
        if decision.may_be_jumped and jumps:
            if known.priorities is None:
                known.priorities = await store_statistics.highest_priorities(work, scope)
            decision = with_priorities(decision, limits, *known.priorities)
        return decision

    async def _count(self, work: UnitOfWork, scope: ThrottleScope) -> dict[CountedStatus, int]:
        if scope.work_queue_id is None:
            return await store_statistics.jobs_of_share(work, scope.gshare, scope.resource_type)
        return await store_statistics.jobs_of_resource_queue(work, scope.work_queue_id, scope.resource_type)

    async def _counted(self, work: UnitOfWork, scope: ThrottleScope, row: GateRow) -> GateRow:
        return replace(row, counted_at=work.now, by_status=await self._count(work, scope))

    async def _read(self, work: UnitOfWork, scope: ThrottleScope, at: datetime | None) -> _Known:
        """What this process knows of a scope with the counts of that time."""
        known = self._known.get(scope)
        if known is None or known.at != at:
            known = self._known[scope] = await self._about(work, scope, at)
        return known

    async def _about(self, work: UnitOfWork, scope: ThrottleScope, at: datetime | None) -> _Known:
        if scope.work_queue_id is None:
            return _Known(at, scope.gshare, await store_statistics.share_is_throttled(work, scope.gshare))
        queue = (await self._queues(work)).get(scope.work_queue_id)
        return _Known(at, queue.name, queue.throttled) if queue else _Known(at, "", False)


def tightest(found: Sequence[tuple[HeldGate, ThrottleDecision]]) -> tuple[HeldGate, ThrottleDecision]:
    """The first gate that stops a task, else the one that lets fewest jobs through."""
    return min(found, key=lambda one: (one[1].passes, one[1].max_jobs if one[1].passes else 0))


def _is_fresh(work: UnitOfWork, at: datetime | None, for_so_long: timedelta) -> bool:
    """Whether something was read a short time ago, or by a transaction that began after this one."""
    return at is not None and abs(work.now - at) < for_so_long


def _group(rule: CycleRule, user: str, working_group: str | None) -> str:
    return user if rule.group_by == USER_NAME else working_group or ""


def _at_gate(task: Task, rule: CycleRule, since: datetime) -> WaitingTask:
    """A task as its gate sees it."""
    return WaitingTask(task.task_id, task.priority, _group(rule, task.user_name, task.working_group), since)
