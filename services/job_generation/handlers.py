"""Hand each event to the step that it is for.

Every handler that changes a task locks it first; everything it does is a compare-and-set.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from services.job_generation.ordering import Rekeying
from services.job_generation.parameters import kept_for
from services.job_generation.policy.counters import CounterChanges
from services.job_generation.policy.picking import GENERATING
from services.job_generation.policy.values import Task
from services.job_generation.steps.counting import Counting
from services.job_generation.steps.doors import Kinds, Prompt
from services.job_generation.steps.making import Making
from services.job_generation.steps.settling import Settling
from services.job_generation.store import counters as store_counters
from services.job_generation.store import held as store_held
from services.job_generation.store import jobs as store_jobs
from services.job_generation.store import results as store_results
from services.job_generation.store import tasks as store
from services.job_generation.store import units as store_units
from services.job_generation.store.results import Uncounted
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import (
    ChunkBrokered,
    ChunkUnplaceable,
    JobsEvent,
    TaskCommanded,
    TaskReady,
    TaskReleased,
    TasksCounted,
)
from shared.states.job import FINAL

TASKS_AT_ONCE = 20
#: states in which a task whose time has come waits for the watchdog
LEFT_TO_THE_WATCHDOG = frozenset({"pending", "throttled"})


class Handlers:
    """One method for each event and each periodic piece of work."""

    def __init__(
        self, parameters: Parameters, making: Making, counting: Counting, settling: Settling, rekeying: Rekeying,
        kinds: Kinds,
    ) -> None:  # fmt: skip
        self._parameters, self._making, self._counting = parameters, making, counting
        self._settling, self._rekeying, self._kinds = settling, rekeying, kinds

    async def on_task_ready(self, event: TaskReady, work: UnitOfWork) -> None:
        """A nucleus is known, or none is needed."""
        await self._settling.settle_again(work, event.task_id, Prompt(force=True))

    async def on_chunk_brokered(self, event: ChunkBrokered, work: UnitOfWork) -> None:
        """Queues are known: make jobs. A chunk that was withdrawn or used before changes nothing."""
        held = await store.lock_task(work, event.task_id)
        if held is None:
            return
        task = held.task
        for kind in self._kinds:
            await kind.told(work, task, event)
        wanted = task.status in self._kinds.chunks_wanted_while
        chunk = await store.end_chunk(work, event.chunk_id, event.task_id, "used", None) if wanted else None
        if chunk is None:
            if not await self._making.take_back(work, task, only=event.chunk_id):
                return
        elif task.status in self._kinds.job(chunk.kind).chunks_wanted_while:
            await self._making.make(work, held, chunk, event.candidates)
        else:
            await self._making.give_back(work, task, chunk, f"the task is {task.status}")
            await store.return_chunk(work, chunk.chunk_id, f"the task is {task.status}")
        await self._settling.settle_again(work, event.task_id)

    async def on_chunk_unplaceable(self, event: ChunkUnplaceable, work: UnitOfWork) -> None:
        """No queue passed: files go back; a task without anything else under way waits in pending."""
        held = await store.lock_task(work, event.task_id)
        if held is None:
            return
        for kind in self._kinds:
            await kind.told(work, held.task, event)
            if await kind.unplaced(work, held, event):
                await self._settling.settle_again(work, event.task_id)
                return
        chunk = await store.end_chunk(work, event.chunk_id, event.task_id, "returned", event.reason)
        if chunk is None:
            return
        await self._making.give_back(work, held.task, chunk, f"no queue for the chunk: {event.reason}"[:1000])
        await store.record_decision(
            work, event.task_id, "unplaceable", event.reason[:4000],
            numbers={"decision_id": event.decision_id, "chunk_id": event.chunk_id}, retry_at=event.retry_at,
        )  # fmt: skip
        await self._settling.wait_for_queue(work, held.task, chunk, event)

    async def on_jobs_ended(self, event: JobsEvent, work: UnitOfWork) -> None:
        """Jobs finished, failed, expired or wait to be merged: count them, whatever the event says they did.

        Jobs that finished and mean nothing to others are counted without a lock of their task. What follows for tasks
        is done apart, once for many ends; but where jobs end others, with them: gates are held after the datasets of
        all that is counted here, so that all tasks are locked before, as by who makes jobs.
        """
        found, changes = await store_results.uncounted(work, event.job_ids), CounterChanges()
        if any(one.ends_others for one in found):
            found = [one._replace(is_plain=False) for one in found]
        plain = [job_id for one in found if one.is_plain for job_id in one.job_ids]
        others = [one for one in found if not one.is_plain]
        counted = await self._count_with_tasks(work, others, plain, changes) if others else []
        if plain:
            await self._counting.count_finished(work, plain, changes)
        await store_counters.apply(work, changes)
        end_others = [task.task_id for task in counted if task.rules.jobs_end_others]
        await self._settling.settle_all(work, end_others)
        follows = {one.task_id for one in found if one.is_plain} | {task.task_id for task in counted}
        if later := sorted(follows.difference(end_others)):
            await self._settling.settle_later(work, later)

    async def _count_with_tasks(
        self, work: UnitOfWork, found: Sequence[Uncounted], plain: Sequence[int], changes: CounterChanges
    ) -> list[Task]:
        """Count jobs whose tasks are locked for it; the tasks. Jobs, `plain` ones too, are locked in order of id."""
        tasks = await store.lock_tasks(work, [one.task_id for one in found])
        have_others = any(held.task.rules.jobs_end_others for held in tasks)
        lock_jobs = store_results.lock_jobs_with_producers if have_others else store_results.lock_jobs
        jobs = await lock_jobs(work, sorted({*plain, *(job_id for one in found for job_id in one.job_ids)}))
        counted = []
        for held in tasks:
            of_task = [job for job in jobs if job.task_id == held.task.task_id]
            ended = [job for job in of_task if job.status in FINAL or job.status == "merging"]
            if ended:
                await self._counting.count(work, held, ended, changes)
                counted.append(held.task)
        return counted

    async def on_tasks_counted(self, event: TasksCounted, work: UnitOfWork) -> None:
        """Settle what follows of ends of jobs that were counted, and tell how far tasks are."""
        await self._settling.settle_counted(work, event.task_ids)

    async def on_task_commanded(self, event: TaskCommanded, work: UnitOfWork) -> None:
        """A command took effect: withdraw what is not wanted any more, or go on. What counts is the state now."""
        held = await store.lock_task(work, event.task_id)
        if held is None:
            return
        if held.task.status not in GENERATING:
            await self._making.take_back(work, held.task)
            await store_units.release_memory(work, event.task_id)
        if event.command == "change_share":
            await self._rekeying.share_changed(work, event.task_id, held.task.vo)
        await self._prompt(work, held.task, Prompt(force=True, command=event.command))

    async def on_task_released(self, event: TaskReleased, work: UnitOfWork) -> None:
        """Waited long enough, was woken, or found idle.

        What was woken by itself is offered again, and nothing else that waits. Without a wake all that waits is.
        """
        held = await store.lock_task(work, event.task_id)
        if held is not None:
            woken = frozenset(await store_held.woken_work(work, event.task_id))
            force = not woken or not woken <= store_held.WAITS_BY_ITSELF
            await self._prompt(work, held.task, Prompt(force=force, released=True, woken=woken))

    async def _prompt(self, work: UnitOfWork, task: Task, prompt: Prompt) -> None:
        for kind in self._kinds:
            await kind.prompted(work, task, prompt)
        await self._settling.settle_again(work, task.task_id, prompt)

    async def look_at_idle_tasks(self, work: UnitOfWork) -> None:
        """Periodic: tasks that were held back and whose time has come."""
        statuses = sorted(self._kinds.chunks_wanted_while - LEFT_TO_THE_WATCHDOG)
        idle = await store.idle_tasks(work, statuses, TASKS_AT_ONCE)
        for held in await store.lock_tasks(work, idle):
            await store.set_retry_at(work, held.task.task_id, None)
            await store_units.release_memory(work, held.task.task_id)
        await self._settling.settle_all(work, idle, force=True, tell=False)

    async def settle_left(self, work: UnitOfWork) -> None:
        """Tell tasks again of which ends of jobs were counted, and which nobody settled; periodic."""
        await self._settling.settle_left(work)

    async def archive(self, work: UnitOfWork) -> None:
        """Periodic: counted jobs leave the hot table."""
        limits = kept_for(self._parameters)
        await store_jobs.archive(work, work.now - timedelta(seconds=limits.archive_after_s), limits.archive_batch)
