"""Which tasks without a nucleus are looked at again when grid, parameters, replicas or work change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from services.task_brokerage.store.nuclei import SQL
from shared.brokerage.lifts import Lift
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TasksWoken
from shared.snapshot import Snapshot
from shared.waits.index import WaitIndex
from shared.waits.replicas import ReplicaNews
from shared.waits.store import Wake
from shared.waits.waker import SLICE, WOKEN_COUNTS_FOR, WakeMetrics, Waker
from shared.waits.wide import Wide, WideChanges

#: work of nuclei goes down with each job that ends: it is looked at so often
WORK_COUNTS_EVERY = timedelta(seconds=30)
LESS_WORK = 0.99


class NucleusWaking:
    """A nucleus may become fit by anything that changes it, for any number of tasks: they go on in slices."""

    def __init__(self, snapshot: Snapshot, parameters: Parameters, metrics: WakeMetrics) -> None:
        self._snapshot, self._parameters = snapshot, parameters
        self._waker = Waker("nucleus", self._plan, metrics)
        self._wide, self._replicas = WideChanges(), ReplicaNews("nucleus")
        #: the most that each nucleus had to do since tasks were woken for less of it
        self._work_hs06_s: dict[str, float] = {}
        self._work_read_at: datetime | None = None
        self._less_work_at: datetime | None = None

    async def look(self, work: UnitOfWork) -> None:
        """Wake what may go on; periodic, on every replica."""
        for cause, task_ids in (await self._waker.look(work)).items():
            work.emit(TasksWoken(task_ids=task_ids, cause=cause))

    async def _plan(self, index: WaitIndex, work: UnitOfWork) -> Sequence[Wake]:
        in_slices = 0
        for one in list(index.woken.values()):
            if one.placed_at is not None or one.woken_at is None or work.now - one.woken_at > WOKEN_COUNTS_FOR:
                index.drop(one.key)
            else:
                in_slices += 1
        wide = await self._state(index, work)
        # Nobody has a share of a nucleus: priority and age alone.
        return self._wide.wakes(index, wide, lambda gshare: 0.0, work.now, at_most=SLICE - in_slices)

    async def _state(self, index: WaitIndex, work: UnitOfWork) -> Wide:
        wanted = {lift for group in index.groups.values() for lift in group.causes.lifts}
        changed_at: dict[Lift, datetime] = {}
        if Lift.NUCLEUS in wanted:
            await self._look_at_work(work)
            if self._less_work_at is not None:
                changed_at[Lift.NUCLEUS] = self._less_work_at
        else:
            self._work_hs06_s = {}
        replicas = await self._replicas.read(index, work)
        parameters = self._parameters
        return Wide(self._snapshot.world.version, parameters.version, parameters.changed_since, changed_at, replicas)

    async def _look_at_work(self, work: UnitOfWork) -> None:
        """Look whether a nucleus has less to do than when tasks were last woken for that.

        It is noticed also where it goes down by a little at each look.
        """
        if self._work_read_at is not None and timedelta(0) <= work.now - self._work_read_at < WORK_COUNTS_EVERY:
            return
        self._work_read_at = work.now
        rows = await SQL.rows(work.connection, "work_of_nuclei")
        most, left = self._work_hs06_s, {row["nucleus"]: float(row["hs06_s"]) for row in rows}
        if any(left.get(nucleus, 0.0) < LESS_WORK * hs06_s for nucleus, hs06_s in most.items()):
            self._less_work_at, self._work_hs06_s = work.now, left
        else:
            self._work_hs06_s = {one: max(most.get(one, 0.0), left.get(one, 0.0)) for one in {*most, *left}}
