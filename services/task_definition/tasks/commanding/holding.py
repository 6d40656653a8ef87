"""Commands that end or hold a task, or let it go on: kill, finish, pause, resume, avalanche.

kill and finish only make the first transition: the others stop the jobs, and `completing` ends the task when the last
one is gone.
"""

from __future__ import annotations

from services.task_definition.tasks.announcing import emit_for_status
from services.task_definition.tasks.commanding.command import Command, Execute, announce
from services.task_definition.tasks.commanding.unit_slices import UnitSlices
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.reopenings import ReopenStep
from services.task_definition.tasks.store.tasks import TaskRow
from shared.db.unit_of_work import UnitOfWork


class Holding:
    """One method for each of them."""

    def __init__(self, slices: UnitSlices) -> None:
        self._slices = slices

    def verbs(self) -> dict[str, Execute]:
        """What it carries out."""
        return {
            "kill": self._kill,
            "finish": self._finish,
            "pause": self._pause,
            "resume": self._resume,
            "avalanche": self._avalanche,
        }

    async def _kill(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        await store.move(work, task.task_id, "aborting", reason, old_status=task.status, error_dialog=reason)
        return await announce(work, task, command, "aborting")

    async def _finish(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        await store.move(work, task.task_id, "finishing", reason, old_status=task.status, error_dialog=reason)
        soft = bool(command.details.get("soft"))
        return await announce(work, task, command, "finishing", soft=soft)

    async def _pause(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """What it waits for is not forgotten: its time to be looked at again stays."""
        behind = rules.status_to_return_to(task.status, task.old_status)
        await store.move(
            work, task.task_id, "paused", reason, old_status=behind, error_dialog=reason, retry_at=task.retry_at
        )
        return await announce(work, task, command, "paused")

    async def _resume(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        target = rules.resumed_status(task.status, task.old_status)
        # Its last job may have ended meanwhile: the row itself asks job generation to look, should the message be lost.
        look_at = work.now if target in rules.WORKING else None
        if task.retry_at is not None and task.retry_at > work.now:
            look_at = task.retry_at
        if task.status == "staging":
            await store_commands.take_unstaged(work, task.task_id)
            await self._slices.begin(work, task, command, reason, "live", (ReopenStep("staging", 0),))
        await store.move(work, task.task_id, target, reason, sources=[task.status], retry_at=look_at)
        reply = await announce(work, task, command, target)
        emit_for_status(work, task.task_id, target, reason, nucleus=task.nucleus)
        return reply

    async def _avalanche(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """Job generation, which owns the scouts, opens all input."""
        return await announce(work, task, command, task.status)
