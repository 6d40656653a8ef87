"""Production is sent to queues that are nearly empty, and may go anywhere again when they are not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from services.watchdog.acting import Looked
from services.watchdog.parameters import WatchLimits
from services.watchdog.policy import filling as policy
from services.watchdog.store import due as store
from services.watchdog.store.filling import SQL
from services.watchdog.sweeping import REQUESTED_BY
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskSiteRequested
from shared.model.grid import Grid
from shared.snapshot import KnownGrid

#: empty queues to which tasks are sent in one look, and tasks that are looked at for each
QUEUES_AT_ONCE, TASKS_LOOKED_AT = 20, 50


class Filling:
    """Fill empty queues; nothing is read while no task may be sent to one."""

    def __init__(self, parameters: Parameters, grid: KnownGrid) -> None:
        self._parameters, self._grid, self._limits = parameters, grid, WatchLimits(parameters)

    async def watch_empty_queues(self, work: UnitOfWork) -> Looked:
        """Let tasks go whose queue is busy or that have little left, then fill empty queues."""
        period_s = self._limits.periods.filling_period_s
        if await store.start_run(work.connection, "queue_filler", period_s) is None:
            return Looked()
        suffixes = {policy.LABEL_SUFFIX: policy.LABEL, f"{policy.LABEL_SUFFIX}_FC": f"{policy.LABEL}_FC"}
        limits = self._parameters.filled(policy.FillLimits, names=suffixes)
        grid = await self._grid.grid(work.connection)
        rows = await SQL.rows(work.connection, "use_of_production")
        use = {row["queue"]: policy.QueueUse(*tuple(row)[1:]) for row in rows}
        n_released = await self._release(work, grid, use, limits)
        n_sent = await self._fill(work, grid, use, limits) if limits.max_tasks > 0 else 0
        return Looked(False, n_released + n_sent, n_released + n_sent)

    async def _release(
        self, work: UnitOfWork, grid: Grid, use: Mapping[str, policy.QueueUse], limits: policy.FillLimits
    ) -> int:
        """Let tasks go anywhere again."""
        await SQL.run(work.connection, "forget_released", hours=policy.LEFT_ALONE_H)
        rows = await SQL.rows(
            work.connection, "sent_tasks", files_ready=limits.files_ready, files_remaining=limits.files_remaining
        )
        by_place: dict[tuple[str, str], list[int]] = {}
        for row in rows:
            by_place.setdefault((row["queue"], row["resource_type"]), []).append(row["task_id"])
        released = []
        for row in rows:
            queue, place = row["queue"], (row["queue"], row["resource_type"])
            reason = policy.why_busy(grid.queues.get(queue), use.get(queue, policy.QueueUse()))
            if reason is None and row["task_id"] in policy.surplus(by_place[place], limits.max_tasks):
                reason = f"more than {limits.max_tasks} tasks were sent to the queue"
            if reason is None and not row["has_work"]:
                reason = "it makes no jobs now, or has too few files left"
            if reason is not None:
                released.append(row["task_id"])
                self._ask(work, row["task_id"], "", queue, f"may go to any queue again: {reason}")
        await SQL.run(work.connection, "note_released", task_ids=released)
        return len(released)

    async def _fill(
        self, work: UnitOfWork, grid: Grid, use: Mapping[str, policy.QueueUse], limits: policy.FillLimits
    ) -> int:
        """Send tasks to queues that have been empty for long enough."""
        nothing = policy.QueueUse()
        empty = [name for name, one in grid.queues.items() if policy.is_empty(one, use.get(name, nothing), work.now)]
        rows = await SQL.rows(work.connection, "note_empty", queues=sorted(empty))
        ripe = [(row["empty_since"], row["queue"]) for row in rows
                if policy.is_ripe(row["empty_since"], use.get(row["queue"], nothing), work.now)]  # fmt: skip
        n_sent = 0
        for since, name in sorted(ripe)[:QUEUES_AT_ONCE]:
            n_sent += await self._send_to(work, grid, name, since, limits)
        return n_sent

    async def _send_to(
        self, work: UnitOfWork, grid: Grid, name: str, since: datetime, limits: policy.FillLimits
    ) -> int:
        """Send the most urgent tasks that a queue takes, a few of each resource type."""
        queue = grid.queues[name]
        own = policy.runs_own_containers(queue, grid)
        rows = await SQL.rows(
            work.connection, "tasks_for_queue", label=policy.LABEL, storages=policy.disks_of(queue, grid),
            files_ready=limits.files_ready_in_container if own else limits.files_ready,
            files_remaining=limits.files_remaining, most=TASKS_LOOKED_AT,
        )  # fmt: skip
        counts = await SQL.rows(work.connection, "sent_to_queue", queue=name)
        room = {row["resource_type"]: limits.max_tasks - row["n_tasks"] for row in counts}
        sent = []
        for row in rows:
            kind = row["resource_type"] or ""
            if room.setdefault(kind, limits.max_tasks) > 0 and policy.takes(queue, grid, dict(row)):
                room[kind] -= 1
                sent.append((row["task_id"], kind))
                self._ask(work, row["task_id"], name, "", policy.told(name, since))
        await SQL.run(
            work.connection, "note_sent", queue=name, task_ids=[task_id for task_id, _ in sent],
            resource_types=[kind for _, kind in sent],
        )  # fmt: skip
        return len(sent)

    def _ask(self, work: UnitOfWork, task_id: int, site: str, was: str, reason: str) -> None:
        work.emit(TaskSiteRequested(task_id=task_id, site=site, was=was, reason=reason, requested_by=REQUESTED_BY))
