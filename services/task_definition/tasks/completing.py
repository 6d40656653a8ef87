"""Progress, final statuses, datasets closed, children released or killed (JEDI: Post-processor)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from services.task_definition.data.expiring import Expiring
from services.task_definition.parameters import SETTLE_AFTER_S
from services.task_definition.tasks.closing import ClosingDatasets
from services.task_definition.tasks.commanding.reassigned import leave_reassigning, tell_reassigned
from services.task_definition.tasks.comparing import Comparing
from services.task_definition.tasks.hastening import hasten
from services.task_definition.tasks.policy.final_status import TaskEnd, final_status
from services.task_definition.tasks.policy.hastening import may_be_near_its_end
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.ends import SQL
from services.task_definition.tasks.store.tasks import TaskRow
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import (
    TaskCommanded,
    TaskCompleted,
    TaskPrepared,
    TaskProgressed,
    TaskReleased,
)
from shared.model.progress import failure_rate_percent, progress_percent
from shared.states import JOB
from shared.states.job import ON_NODE, QUEUED
from shared.states.task import FINAL, TaskStatus

_ENDINGS: tuple[TaskStatus, ...] = ("aborting", "toabort", "finishing", "passed", "prepared", "tobroken", "reassigning")
SETTLE_AT_MOST = 200
_FROM_THE_FIRST = (None, 0)


@dataclass(frozen=True)
class WorkLeft:
    """What of a task still runs, or is not counted yet."""

    jobs: bool
    queued_jobs: bool
    on_node_jobs: bool
    chunks: bool

    @property
    def any(self) -> bool:
        return self.jobs or self.chunks


class Completion:
    """Handlers of `task.progressed`, `task.prepared` and of prepared tasks that were released."""

    def __init__(
        self, comparing: Comparing, parameters: Parameters, closing: ClosingDatasets, expiring: Expiring
    ) -> None:
        self._parameters = parameters
        self._comparing, self._closing, self._expiring = comparing, closing, expiring
        self._looked_at: tuple[datetime | None, int] = _FROM_THE_FIRST

    async def on_task_progressed(self, event: TaskProgressed, work: UnitOfWork) -> None:
        """Note how far a task is, as it is counted now: events of two replicas may come in another order."""
        if await self._is_told(work, event):
            return
        task = await store.lock(work, event.task_id)
        if task is None:
            return
        if task.status in FINAL:
            return  # what was said before the end: the end noted its own progress
        counted = await SQL.one(work.connection, "counted_so_far", task_id=task.task_id)
        await self._note_progress(work, task.task_id, counted["n_files"], counted["n_files_finished"])
        await hasten(work, task, event)
        await self.settle(work, task)

    async def _is_told(self, work: UnitOfWork, event: TaskProgressed) -> bool:
        """Whether people see this progress already, and the task goes on as it does: its row is not locked."""
        row = await SQL.row(work.connection, "told_so_far", task_id=event.task_id)
        if row is None or row["status"] in FINAL:
            return True
        seen = (row["progress"], row["failure_rate"])
        now = (
            progress_percent(event.files_total, event.files_finished),
            failure_rate_percent(row["n_finished"], row["n_failed"]),
        )
        is_hurried = not row["is_analysis"] and may_be_near_its_end(
            event.files_total, event.files_finished + event.files_failed
        )
        return row["status"] not in _ENDINGS and seen == now and not is_hurried

    async def _note_progress(self, work: UnitOfWork, task_id: int, n_files: int, n_finished: int) -> None:
        jobs = await SQL.row(work.connection, "ended_jobs", task_id=task_id)
        await SQL.run(
            work.connection,
            "note_progress",
            task_id=task_id,
            progress=progress_percent(n_files, n_finished),
            failure_rate=0 if jobs is None else failure_rate_percent(jobs["n_finished"], jobs["n_failed"]),
        )

    async def on_task_prepared(self, event: TaskPrepared, work: UnitOfWork) -> None:
        task = await store.lock(work, event.task_id)
        if task is not None:
            await self.settle(work, task)

    async def on_task_released(self, event: TaskReleased, work: UnitOfWork) -> None:
        if event.status in _ENDINGS:
            await self.on_task_prepared(TaskPrepared(task_id=event.task_id), work)

    async def settle_left_overs(self, work: UnitOfWork) -> None:
        """Periodic: tasks whose event was lost on their way out.

        So many in one look; the next look goes on behind them, and begins at the first again after the last.
        """
        older_than_s = self._parameters.read(SETTLE_AFTER_S)
        after_time, after_task = self._looked_at
        rows = await SQL.rows(
            work.connection,
            "ends_to_settle",
            older_than_s=older_than_s,
            at_most=SETTLE_AT_MOST,
            after_time=after_time,
            after_task=after_task,
        )
        # Also where this look fails: one task that cannot be settled must not hide those behind it.
        last = rows[-1] if len(rows) == SETTLE_AT_MOST else None
        self._looked_at = (last["state_change_time"], last["task_id"]) if last is not None else _FROM_THE_FIRST
        for row in rows:
            task = await store.lock(work, row["task_id"])
            if task is not None:
                await self.settle(work, task)

    async def settle(self, work: UnitOfWork, task: TaskRow) -> None:
        """Do what is due for a task on its way out; tasks in other states are left alone."""
        if task.status not in _ENDINGS:
            return
        if task.status == "prepared":
            await self._finalize(work, task, task.status)
            return
        left = await self.work_left(work.connection, task.task_id)
        if task.status == "reassigning":
            await self._reassigned(work, task, left)
        elif left.any:
            await self._stop_broken(work, task)
        elif task.status in ("aborting", "toabort"):
            await store.move(work, task.task_id, "toabort", "no job left", error_dialog=task.error_dialog)
            await self._end(work, task, "aborted", task.error_dialog or "killed")
        elif task.status in ("finishing", "passed"):
            await store.move(work, task.task_id, "passed", "no job left", error_dialog=task.error_dialog)
            await self._finalize(work, task, "passed")
        elif task.status == "tobroken":
            await self._end(work, task, "broken", task.error_dialog or "its definition cannot work")

    async def work_left(self, connection: asyncpg.Connection, task_id: int) -> WorkLeft:
        row = await SQL.row(
            connection,
            "work_left",
            task_id=task_id,
            final=sorted(JOB.final),
            queued=list(QUEUED),
            on_node=list(ON_NODE),
        )
        assert row is not None
        return WorkLeft(row["jobs"], row["queued_jobs"], row["on_node_jobs"], row["chunks"])

    async def _stop_broken(self, work: UnitOfWork, task: TaskRow) -> None:
        """A task that is given up while its jobs live has them killed, once."""
        if task.status == "tobroken" and task.command != "kill":
            await store.note_command(work, task.task_id, "kill", {"reason": task.error_dialog})
            work.emit(TaskCommanded(task_id=task.task_id, command="kill", status="tobroken"))

    async def _finalize(self, work: UnitOfWork, task: TaskRow, status: TaskStatus) -> None:
        end = final_status(await self._facts(work.connection, task, status))
        if end.status == "exhausted":
            moved = await store.move(
                work, task.task_id, "exhausted", end.reason, sources=["prepared"], error_dialog=end.reason
            )
            if moved:
                work.emit(TaskCompleted(task_id=task.task_id, status="exhausted"))
            return
        why = await SQL.value(work.connection, "why_left_out", task_id=task.task_id)
        await self._end(work, task, end.status, end.reason if why is None else f"{end.reason}; {why}")

    async def _facts(self, connection: asyncpg.Connection, task: TaskRow, status: TaskStatus) -> TaskEnd:
        row = await SQL.one(connection, "end_facts", timeout_s=600, task_id=task.task_id)
        parent = None if task.parent_id is None else await store.status(connection, task.parent_id)
        rules = task.rules
        return TaskEnd(
            status=status,
            n_files=row["n_files"],
            n_files_finished=row["n_files_finished"],
            completeness_permille=row["permille"],
            goal=task.goal,
            parent_status=parent,
            demands_input=not (row["is_defined"] and rules.allow_empty_input),
            input_open=row["input_open"] and rules.runs_until_closed,
            fail_when_goal_unreached=rules.fail_when_goal_unreached,
            use_exhausted=rules.use_exhausted,
            has_only_preprocessing=row["has_only_preprocessing"],
            is_search=rules.evaluates_points,
        )

    async def _end(self, work: UnitOfWork, task: TaskRow, status: TaskStatus, reason: str) -> None:
        """The final status with what its outputs differ in from the catalogue, datasets closed, the news of it."""
        differences = (await self._comparing.compare(work.connection, task)).in_words()
        dialog = "; ".join(one for one in (None if status == "done" else reason, differences) if one) or None
        if not await store.move(work, task.task_id, status, reason, error_dialog=dialog):
            return
        await store.note_end(work, task.task_id)
        row = await SQL.one(work.connection, "end_facts", timeout_s=600, task_id=task.task_id)
        await self._note_progress(work, task.task_id, row["n_files"], row["n_files_finished"])
        await self._closing.close(work, task, status)
        await self._expiring.note_end(work, task.task_id)
        work.emit(TaskCompleted(task_id=task.task_id, status=status))

    async def _reassigned(self, work: UnitOfWork, task: TaskRow, left: WorkLeft) -> None:
        """Go on where the task was sent to, once the jobs that had to go are gone."""
        details: dict[str, Any] = dict(task.command_details or {})
        waits = left.queued_jobs or (left.on_node_jobs and not details.get("soft", True))
        if waits or left.chunks:
            return
        has_target = bool(details.get("target"))
        target = await leave_reassigning(work, task, "reassigned", has_target=has_target)
        if target is None:
            return
        await store.note_command(work, task.task_id, None)
        tell_reassigned(work, task, target, "reassigned")
