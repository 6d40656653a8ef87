"""Wakes tasks whose share had enough queued when it has room again, as many as may make jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol

from services.job_generation.throttle.throttle import ThrottleDecision, ThrottleScope
from shared.brokerage.governed_by import GOVERNED_BY
from shared.brokerage.lifts import Lift
from shared.db.unit_of_work import UnitOfWork
from shared.events import TasksWoken
from shared.waits.causes import Causes
from shared.waits.index import Group, WaitIndex, Waiting
from shared.waits.store import Wake, note_wait
from shared.waits.waker import AT_ONCE, WOKEN_COUNTS_FOR, WakeMetrics, Waker

SHARE = "room in the share"
#: of tasks that were offered again it takes so long until their jobs are counted
OFFERED_COUNTS_FOR = timedelta(seconds=5)
_OF_CHECKS = frozenset(
    name for names in GOVERNED_BY.values() for name in names if not name.startswith("taskbrokerage.")
)


class Judge(Protocol):
    """Whether a share, or a work queue that is throttled by itself, has enough queued."""

    def __call__(self, work: UnitOfWork, gshare: str, cap: str, *, analysis: bool) -> Awaitable[ThrottleDecision]: ...


class OrderOfGate(Protocol):
    """Waiting tasks of a share in the order in which its gate serves them."""

    def __call__(
        self, work: UnitOfWork, gshare: str, cap: str, waiting: Sequence[Waiting]
    ) -> Awaitable[list[Waiting]]: ...


def causes_of_share(cap: str, *, analysis: bool) -> Causes:
    """What holds a throttled task: jobs of its share or work queue and resource type."""
    return Causes(caps=((cap, float(analysis)),))


def causes_of_no_fit() -> Causes:
    """What may bring a queue that the jobs of a chunk fit, when those that were ranked do not.

    Another grid may, an advertisement of a site, or a parameter of a check that left other queues out.
    """
    return Causes(lifts=frozenset({Lift.GRID, Lift.ADVERTISEMENT}), parameters=_OF_CHECKS)


async def note_no_fit(
    work: UnitOfWork,
    task_id: int,
    chunk_id: int | None,
    retry_at: datetime,
    versions: tuple[int, int],
    *,
    part: tuple[str, str] | None = None,
) -> None:
    """What may bring a queue that takes what was in a chunk, or this part of the task, wakes it.

    `versions`: of the grid and of the runtime parameters that it was tried with.
    """
    world_version, config_version = versions
    await note_wait(
        work, "queue", task_id, causes_of_no_fit(), retry_at, chunk_id=chunk_id, part=part,
        world_version=world_version, config_version=config_version,
    )  # fmt: skip


class ShareWaking:
    """One question for each share and resource type that holds anybody, whoever waits."""

    def __init__(self, judge: Judge, order: OrderOfGate, metrics: WakeMetrics) -> None:
        self._judge, self._order = judge, order
        self._waker = Waker("share", self._plan, metrics)

    async def look(self, work: UnitOfWork) -> None:
        """Periodic, on every replica."""
        for cause, task_ids in (await self._waker.look(work)).items():
            work.emit(TasksWoken(task_ids=task_ids, cause=cause))

    async def _plan(self, index: WaitIndex, work: UnitOfWork) -> Sequence[Wake]:
        index.forget_empty_groups()
        by_share: dict[tuple[str, str, bool], list[Group]] = {}
        for group in index.groups.values():
            for cap, analysis in group.causes.caps:
                gshare = "" if ThrottleScope.of_cap("", cap).work_queue_id is not None else group.gshare
                by_share.setdefault((gshare, cap, bool(analysis)), []).append(group)
        taken = self._taken(index, work)
        found: list[Wake] = []
        for key, groups in sorted(by_share.items()):
            gshare, cap, analysis = key
            decision = await self._judge(work, gshare, cap, analysis=analysis)
            left = decision.max_jobs - taken[gshare, cap] if decision.passes else 0
            if left <= 0:
                continue
            # of each owner, whose tasks are a group, as many as may be woken at once
            first = [one for group in groups for one in islice(group.in_order(index.waiting), AT_ONCE)]
            for one in await self._order(work, gshare, cap, first):
                if left <= 0:
                    break
                found.append(Wake(one.key, one.wake_nr, SHARE, work.now, one.gshare))
                left -= one.n_jobs
        return found

    def _taken(self, index: WaitIndex, work: UnitOfWork) -> Counter[tuple[str, str]]:
        """Jobs that woken tasks will make, by share and resource type, as they are throttled."""
        taken = Counter[tuple[str, str]]()
        for one in list(index.woken.values()):
            at, limit = (
                (one.woken_at, WOKEN_COUNTS_FOR) if one.placed_at is None else (one.placed_at, OFFERED_COUNTS_FOR)
            )
            if at is None or work.now - at > limit:
                index.drop(one.key)
            else:
                taken[one.gshare, one.resource_type] += one.n_jobs
        return taken
