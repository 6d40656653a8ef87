"""Looks again at tasks, and parts of them, that were released or whose time has come."""

from __future__ import annotations

from services.job_generation.event_serving.waiting import WaitingJobSets
from services.job_generation.policy.kinds import MERGEABLE, PREPROCESSING
from services.job_generation.settling import Settling
from services.job_generation.store import held as store_held
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store import waiting_sets as store_waiting
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskReleased

TASKS_AT_ONCE = 20
IDLE = (*(status for status in MERGEABLE if status not in ("pending", "throttled")), *PREPROCESSING)


class Releasing:
    """A task waits in parts: its input with itself, its merges and its job sets by themselves."""

    def __init__(self, settling: Settling, waiting_sets: WaitingJobSets) -> None:
        self._settling, self._waiting_sets = settling, waiting_sets

    async def on_task_released(self, event: TaskReleased, work: UnitOfWork) -> None:
        """Waited long enough, was woken, or found idle.

        Merges and job sets that were woken by themselves are offered again, and nothing else that waits. Without a wake
        all that waits is.
        """
        held = await store.lock_task(work, event.task_id)
        if held is None:
            return
        woken = await store_held.woken_work(work, event.task_id)
        if woken:
            await store_held.release_woken_merges(work, event.task_id)
        else:
            await store_held.release_merges(work, event.task_id)
        if not woken or store_held.JOB_SETS in woken:
            await store_waiting.release_sets(work, event.task_id)
            [held] = await store.lock_tasks(work, [event.task_id])
        await self._settling.settle(work, held, force=not woken or not woken <= store_held.WAITS_BY_ITSELF)

    async def look_at_idle_tasks(self, work: UnitOfWork) -> None:
        """Periodic: tasks that were held back and whose time has come."""
        idle = await store.idle_tasks(work, IDLE, TASKS_AT_ONCE)
        waiting = await self._waiting_sets.due(work, TASKS_AT_ONCE)
        for held in await store.lock_tasks(work, sorted({*idle, *waiting})):
            if held.task.task_id in waiting:
                await self._settling.go_on_with_sets(work, held)
            if held.task.task_id in idle:
                await store.set_retry_at(work, held.task.task_id, None)
                await store_units.release_memory(work, held.task.task_id)
        await self._settling.settle_all(work, idle, force=True, tell=False)

    async def look_at_merges(self, work: UnitOfWork) -> None:
        """Periodic: merges that waited as long as they may are offered again."""
        due = await store_held.due_merges(work, MERGEABLE, TASKS_AT_ONCE)
        for held in await store.lock_tasks(work, due):
            await store_held.release_due_merges(work, held.task.task_id)
        await self._settling.settle_all(work, due, tell=False)
