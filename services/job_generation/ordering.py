"""New jobs get the order keys that their order depends on; waiting ones again when that changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from services.job_generation.policy.order_facts import OrderRule
from services.job_generation.policy.values import Task
from services.job_generation.specification.building import NewJob
from services.job_generation.specification.kind_of_job import KindOfJob
from services.job_generation.store import order_keys as store
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import IDS_OF_EVENT, JobsReordered, ReorderedJob
from shared.model.batches import batches
from shared.order.configuration import ConfigurationError, corrected_groups
from shared.order.cpu_segments import segments_of
from shared.order.parameters import CPU_SEGMENTS_S, ENABLE_SHARES_CORRECTION, SHARE_CORRECTIONS, TASK_QUEUES

log = logging.getLogger(__name__)

#: jobs that get other keys, and tasks that are looked at, in one transaction
SLICE, TASKS_OF_SLICE = 2000, 200
PASSES = 2
#: by then every process knows of another configuration
NEXT_PASS_AFTER = timedelta(seconds=60)


def rule_of(parameters: Parameters, vo: str | None) -> OrderRule:
    """How a VO orders jobs."""
    divided: frozenset[str] = frozenset()
    if parameters.read(ENABLE_SHARES_CORRECTION, vo=vo):
        try:
            divided = corrected_groups(parameters.read(SHARE_CORRECTIONS, vo=vo))
        except ConfigurationError as error:
            log.error("%s divides no share: %s", SHARE_CORRECTIONS.name, error)
    return OrderRule(parameters.read(TASK_QUEUES, vo=vo), segments_of(parameters.read(CPU_SEGMENTS_S, vo=vo)), divided)


async def order_keys_of_jobs(
    work: UnitOfWork, parameters: Parameters, task: Task, kind: KindOfJob, jobs: Sequence[NewJob]
) -> Mapping[int, int]:
    """The order key of each job by its id; none of those whose order depends on share and priority alone."""
    rule = rule_of(parameters, task.vo)
    facts = {
        job.job_id: rule.facts(task, job.requirement.walltime_s, is_bound=kind.goes_where_the_task_says) for job in jobs
    }
    ids = await store.intern(work, {one for one in facts.values() if one is not None})
    return {job_id: ids[one] for job_id, one in facts.items() if one is not None}


class Rekeying:
    """Waiting jobs get other order keys, slice by slice.

    Those of a VO whose configuration changed, and of a task whose share did.

    Nothing is lost meanwhile: a job is served by its old key until its row changes, and news tell of the change. A job
    that somebody holds is left to the second pass.
    """

    def __init__(self, parameters: Parameters, kind_of: Callable[[str], KindOfJob], *, size: int = SLICE) -> None:
        self._parameters, self._kind_of = parameters, kind_of
        self._size = size

    async def share_changed(self, work: UnitOfWork, task_id: int, vo: str | None) -> None:
        """A task has another share: its jobs may have other keys."""
        if rule_of(self._parameters, vo).divided_shares:
            await store.note_task(work, task_id)

    async def look(self, work: UnitOfWork) -> bool:
        """Periodic, on one replica: the next slice; whether some is left."""
        task_id = await store.next_task(work)
        if task_id is not None:
            if await self._tasks(work, [task_id]) is None:
                await store.forget_task(work, task_id)
            return True
        known = await store.sweeps(work)
        for vo in await store.known_vos(work):
            wanted = rule_of(self._parameters, vo or None).text
            if known.get(vo) != wanted:
                await store.begin_sweep(work, vo, wanted, PASSES)
        sweep = await store.due_sweep(work)
        return sweep is not None and await self._advance(work, sweep)

    async def _advance(self, work: UnitOfWork, sweep: store.KeySweep) -> bool:
        """The next tasks of a VO; whether its pass goes on."""
        page = await store.tasks_after(work, sweep.after_task_id, TASKS_OF_SLICE)
        mine = [one.task_id for one in page if one.is_waiting and one.vo == sweep.vo]
        stopped_at = await self._tasks(work, mine)
        if stopped_at is not None:
            await store.go_on(work, sweep, after_task_id=stopped_at - 1)
        elif page:
            await store.go_on(work, sweep, after_task_id=page[-1].task_id)
        else:
            await store.end_pass(work, sweep, work.now + NEXT_PASS_AFTER)
            return False
        return True

    async def _tasks(self, work: UnitOfWork, task_ids: Sequence[int]) -> int | None:
        """Give the jobs of these tasks their keys, up to the size of a slice: the task where it is full, if it is."""
        left = self._size
        for group in await store.waiting_groups(work, task_ids):
            rule = rule_of(self._parameters, group.task.vo)
            kind = self._kind_of(group.job_type)
            facts = rule.facts(group.task, group.walltime_s, is_bound=kind.goes_where_the_task_says)
            wanted = 0 if facts is None else (await store.intern(work, {facts}))[facts]
            jobs = await store.rekey(work, group, wanted, left)
            for some in batches(jobs, IDS_OF_EVENT):
                work.emit(JobsReordered(job_ids=tuple(one.job_id for one in some), lane_jobs=_lane_jobs(some, wanted)))
            left -= len(jobs)
            if left <= 0:
                return group.task_id
        return None


def _lane_jobs(jobs: Sequence[store.RekeyedJob], order_key_id: int) -> tuple[ReorderedJob, ...]:
    """The news for dispatchers: the jobs among them that pilots may take."""
    return tuple(
        ReorderedJob(
            job_id=one.job_id,
            queue=one.queue,
            gshare=one.gshare,
            shape_id=one.shape_id,
            priority=one.priority,
            from_gshare=one.gshare,
            order_key_id=order_key_id,
            from_order_key_id=one.order_key_id,
        )
        for one in jobs
        if one.status == "activated"
    )
