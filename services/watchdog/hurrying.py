"""Tasks that go before others: analysis that is nearly done, and what would end too late."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime
from functools import partial

from services.watchdog.acting import Looked
from services.watchdog.parameters import WatchLimits
from services.watchdog.policy import express, punctuality
from services.watchdog.store import deadlines as store_deadlines
from services.watchdog.store import due as store
from services.watchdog.sweeping import REQUESTED_BY
from shared.brokerage.classes import TaskProgress
from shared.brokerage.limits import AnalysisLimits
from shared.brokerage.usage import EXPRESS_SHARE, USER_SHARE
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskOrderRequested
from shared.snapshot.use_of_queues import classes_of_queues
from shared.task.in_effect import rules_of

SLICE = 500


class Hurrying:
    """Ask for another order of tasks. What it remembers is where its round is, and of which turn that is."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters, self._limits = parameters, WatchLimits(parameters)
        self._round: tuple[datetime | None, int] = None, 0

    async def watch_nearly_done(self, work: UnitOfWork) -> Looked:
        """Send a slice of the analysis that is of class S to Express Analysis."""
        period_s = self._limits.periods.nearly_done_period_s
        last = await store.start_run(work.connection, "nearly_done", period_s)
        if last is None or EXPRESS_SHARE not in await store.share_names(work.connection):
            return Looked()
        rows = await store.SQL.rows(
            work.connection, "nearly_done", gshare=USER_SHARE, most=SLICE, least_percent=self._least_percent(),
            after=self._round[1] if self._round[0] == last.at else 0,
        )  # fmt: skip
        slots = await self._slots_of(work, {(row["user_name"], row["vo"]) for row in rows})
        n_asked = 0
        for row in rows:
            rules = rules_of(row["split_rule"])
            progress = TaskProgress(row["n_files"], row["n_finished"], rules.n_files_per_job or 1)
            limits = self._parameters.filled(AnalysisLimits, vo=row["vo"])
            reason = express.nearly_done(progress, slots[row["user_name"], row["vo"]], limits)
            if reason is not None:
                walltime_h = express.walltime_h(rules.n_files_per_job, rules.n_events_per_job, rules.max_walltime_h)
                work.emit(
                    TaskOrderRequested(
                        task_id=row["task_id"], gshare=EXPRESS_SHARE, max_walltime_h=walltime_h, reason=reason,
                        requested_by=REQUESTED_BY,
                    )
                )  # fmt: skip
                n_asked += 1
        more = len(rows) >= SLICE
        work.after_commit(partial(self._go_on, (last.at, rows[-1]["task_id"]) if more else (None, 0)))
        if more:
            await store.give_back_turn(work.connection, "nearly_done", last.at)
        return Looked(more, len(rows), n_asked)

    def _go_on(self, found: tuple[datetime | None, int]) -> None:
        self._round = found

    def _least_percent(self) -> int:
        """Below this no task of any VO is nearly done."""
        limits = [self._parameters.filled(AnalysisLimits, vo=vo) for vo in (None, *self._parameters.vos())]
        return int(min(min(one.progress_to_boost_a, one.progress_to_boost_b) for one in limits))

    async def _slots_of(self, work: UnitOfWork, users: Set[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
        """Running cores of users of VOs, at hi and at mid sites."""
        if not users:
            return {}
        classes = await classes_of_queues(work.connection, work.now)
        counts: dict[tuple[str, str], list[tuple[str, int]]] = {user: [] for user in users}
        for row in await store.SQL.rows(
            work.connection, "running_cores_of_users", user_names=[name for name, _ in users],
            vos=[vo for _, vo in users], gshares=[USER_SHARE, EXPRESS_SHARE],
        ):  # fmt: skip
            counts[row["user_name"], row["vo"]].append((row["queue"], row["n_cores"]))
        return {user: express.slots_by_class(counts[user], classes) for user in users}

    async def watch_deadlines(self, work: UnitOfWork) -> Looked:
        """Work out when tasks end that are wanted by a time, hurry late ones, forget ended ones."""
        period_s = self._limits.periods.deadlines_period_s
        last = await store.start_run(work.connection, "deadlines", period_s)
        if last is None:
            return Looked()
        n_forgotten = await store_deadlines.forget(work.connection, SLICE)
        tasks = await store_deadlines.due(work.connection, SLICE)
        looked, n_late = [], 0
        for task in tasks:
            found = punctuality.sampled(task, work.now)
            end = punctuality.end_of(found, work.now)
            looked.append((found, end))
            reason = punctuality.late(found, end, work.now)
            priority = self._parameters.read(punctuality.LATE_PRIORITY, found.label)
            if reason is not None and found.priority < priority:
                work.emit(
                    TaskOrderRequested(
                        task_id=task.task_id, priority=priority, reason=reason, requested_by=REQUESTED_BY
                    )
                )
                n_late += 1
        await store_deadlines.note(work.connection, looked, self._limits.periods.deadline_again_s)
        more = n_forgotten >= SLICE or len(tasks) >= SLICE
        if more:
            await store.give_back_turn(work.connection, "deadlines", last.at)
        return Looked(more, len(tasks), n_late)
