"""Checks, records, carries out and announces commands on tasks (JEDI: Task Commando).

kill and finish only make the first transition: the others stop the jobs, and `completion` ends the task when the last
one is gone. A refused command changes nothing but is recorded too.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.task_definition.announcing import emit_for_status
from services.task_definition.changing import Changes
from services.task_definition.ordering import CHANGES, Ordering
from services.task_definition.policy import commands as rules
from services.task_definition.policy.final_status import parent_is_corrupted
from services.task_definition.store.commands import CommandStore
from services.task_definition.store.tasks import TaskRow, TaskStore
from shared.auth import Caller
from shared.catalogue.port import Catalogue
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommanded, TaskCommandRequested, TaskCompleted, TaskRegistered, TaskReleased
from shared.model.analysis import is_analysis
from shared.snapshot import KnownGrid
from shared.states.file import FileStatus
from shared.states.task import TaskStatus

log = logging.getLogger(__name__)
MORE_ATTEMPTS = 5
REOPENED_BY_RETRY: tuple[FileStatus, ...] = ("failed",)
REOPENED_BY_RELOAD: tuple[FileStatus, ...] = ("failed", "lost", "missing")


@dataclass(frozen=True)
class Command:
    """What was asked: the verb and its details (soft, increase, site, new_parameters, ...)."""

    verb: str
    task_id: int
    details: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


#: ends or moves a task once its jobs are gone
Settle = Callable[[UnitOfWork, TaskRow], Awaitable[None]]
Execute = Callable[[UnitOfWork, TaskRow, Command, str], Awaitable[rules.Reply]]


class Commands:
    """One method for each verb; `execute` is the way in for people and for other services."""

    def __init__(
        self, tasks: TaskStore, store: CommandStore, settle: Settle, catalogue: Catalogue, grid: KnownGrid
    ) -> None:
        self._tasks, self._store, self._settle = tasks, store, settle
        self._catalogue, self._grid = catalogue, grid
        self._ordering = Ordering(tasks, store)
        self._changes = Changes(tasks, store)
        self._verbs: dict[str, Execute] = {
            "kill": self._kill,
            "finish": self._finish,
            "retry": self._retry,
            "reactivate": self._reactivate,
            "reload_input": self._reload_input,
            "pause": self._pause,
            "resume": self._resume,
            "reassign": self._reassign,
            "avalanche": self._avalanche,
            "increase_attempts": self._increase_attempts,
            "change_split_rule": self._change_split_rule,
        }

    async def execute(self, work: UnitOfWork, command: Command, caller: Caller) -> rules.Reply:
        """Carry out one command, or refuse it with the code of the API; both are recorded."""
        task = await self._tasks.lock(work.connection, command.task_id)
        reply = self._refusal(task, command, caller)
        if reply is None:
            assert task is not None
            reply = await self._carry_out(work, task, command, caller)
        await self._tasks.audit(
            work.connection,
            caller=caller,
            verb=f"task.{command.verb}",
            target=f"task:{command.task_id}",
            outcome="accepted" if reply.accepted else f"refused: {reply.message}",
            details=command.details,
        )
        return reply

    async def _carry_out(self, work: UnitOfWork, task: TaskRow, command: Command, caller: Caller) -> rules.Reply:
        if command.verb in CHANGES:
            reply = await self._ordering.change(work, task, command.verb, command.details, caller)
            if reply.accepted:  # the task stays what it is and keeps the command that it had before
                work.emit(TaskCommanded(task_id=task.task_id, command=command.verb, status=task.status))
            return reply
        reason = f"{command.verb} by {caller.name}" + (f": {command.reason}" if command.reason else "")
        return await self._verbs[command.verb](work, task, command, reason)

    async def on_task_command_requested(self, event: TaskCommandRequested, work: UnitOfWork) -> None:
        """Another service asks; a refusal means that the task has moved on meanwhile."""
        if event.command not in self._verbs:
            log.error("unknown command %r requested by %s", event.command, event.requested_by)
            return
        details = {"soft": True} if event.command == "finish" else {}
        caller = Caller(event.requested_by, frozenset({"operator"}), frozenset())
        await self.execute(work, Command(event.command, event.task_id, details, event.reason), caller)

    async def on_task_completed(self, event: TaskCompleted, work: UnitOfWork) -> None:
        """Children of a corrupted task are killed; those of any other need not wait longer."""
        if event.status == "exhausted":
            return
        caller = Caller("task_definition", frozenset({"operator"}), frozenset())
        for child in await self._tasks.children(work.connection, event.task_id):
            if parent_is_corrupted(event.status):
                reason = f"its parent {event.task_id} ended {event.status}"
                if child["status"] in rules.ACCEPTED["kill"]:
                    await self.execute(work, Command("kill", child["task_id"], {}, reason), caller)
            elif child["status"] == "pending":
                await self._tasks.release_now(work.connection, child["task_id"])

    def _refusal(self, task: TaskRow | None, command: Command, caller: Caller) -> rules.Reply | None:
        if task is None:
            return rules.Reply(rules.NOT_FOUND, f"task {command.task_id} not found")
        if not caller.is_of(task.vo) and not caller.may("operator"):
            return rules.Reply(rules.NOT_PERMITTED, f"task {task.task_id} is of the VO {task.vo}")
        if not caller.may_for(task.vo, "production") and caller.name != task.user_name:
            return rules.Reply(rules.NOT_PERMITTED, f"task {task.task_id} belongs to {task.user_name}")
        refused = rules.refuse(command.verb, task.status)
        return None if refused is None else rules.Reply(refused.code, refused.reason)

    async def _kill(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        await self._tasks.move(work, task.task_id, "aborting", reason, old_status=task.status, error_dialog=reason)
        return await self._announce(work, task, command, "aborting")

    async def _finish(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        await self._tasks.move(work, task.task_id, "finishing", reason, old_status=task.status, error_dialog=reason)
        return await self._announce(work, task, command, "finishing", soft=bool(command.details.get("soft")))

    async def _pause(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        behind = rules.status_to_return_to(task.status, task.old_status)
        await self._tasks.move(work, task.task_id, "paused", reason, old_status=behind, error_dialog=reason)
        return await self._announce(work, task, command, "paused")

    async def _resume(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        target = rules.resumed_status(task.status, task.old_status)
        # Its last job may have ended meanwhile: the row itself asks job generation to look, should the message be lost.
        look_at = work.now if target in rules.WORKING else None
        await self._tasks.move(work, task.task_id, target, reason, sources=[task.status], retry_at=look_at)
        reply = await self._announce(work, task, command, target)
        emit_for_status(work, task.task_id, target, reason, nucleus=task.nucleus)
        return reply

    async def _avalanche(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """Job generation, which owns the scouts, opens all input."""
        return await self._announce(work, task, command, task.status)

    async def _retry(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        changes = dict(command.details.get("new_parameters") or {})
        if changes:
            problems = await self._changes.by_retry(work, task, changes)
            if problems:
                return rules.Reply(rules.BAD_VALUE, "; ".join(str(one) for one in problems), problems)
            if {"nFiles", "nEvents"} & changes.keys():
                return await self._reload_input(work, task, command, reason)
        return await self._try_again(work, task, command, reason, more=MORE_ATTEMPTS)

    async def _reactivate(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        if task.status == "pending":
            await self._tasks.release_now(work.connection, task.task_id)
            return rules.Reply(rules.OK, f"task {task.task_id} is released from pending now")
        more = 0 if command.details.get("keep_attempt_nr") else task.max_attempt
        return await self._try_again(work, task, command, reason, more=more)

    async def _try_again(
        self, work: UnitOfWork, task: TaskRow, command: Command, reason: str, *, more: int
    ) -> rules.Reply:
        """toretry, units re-opened, and on; without anything to do back to where it was."""
        await self._tasks.move(work, task.task_id, "toretry", reason, old_status=task.old_status)
        left = await self._store.files_to_do(work.connection, task.task_id)
        reopened = await self._store.reopen_files(work, task.task_id, REOPENED_BY_RETRY, more=more, reason=reason)
        if reopened == 0 and left == 0:
            back = "nothing left to retry"
            await self._tasks.move(
                work, task.task_id, task.status, back, old_status=task.old_status, error_dialog=task.error_dialog
            )
            return rules.Reply(rules.OK, f"task {task.task_id}: {back}; it stays {task.status}")
        await self._catalogue.reopen(work.connection, await self._store.reopen_datasets(work.connection, task.task_id))
        await self._store.renew(work.connection, task.task_id)
        for_analysis = is_analysis(task.task_type, task.prod_source_label)
        target = rules.retried_status(
            task.status,
            task.old_status,
            has_scout_data=task.has_scout_data,
            needs_nucleus=rules.needs_nucleus(
                is_analysis=for_analysis, nucleus=task.nucleus, site=task.site, cloud=task.cloud
            ),
        )
        await self._tasks.move(work, task.task_id, target, reason, sources=["toretry"])
        await self._announce(work, task, command, target)
        if target in ("ready", "assigning"):
            emit_for_status(work, task.task_id, target, reason, nucleus=task.nucleus)
        await self._retry_children(work, task, command)
        return rules.Reply(rules.OK, f"task {task.task_id} is retried: {rules.what_is_retried(reopened, left)}")

    async def _retry_children(self, work: UnitOfWork, task: TaskRow, command: Command) -> None:
        """Unless "sole"; aborted, broken and failed children stay as they are."""
        if command.details.get("sole"):
            return
        caller = Caller("task_definition", frozenset({"operator"}), frozenset())
        for child in await self._tasks.children(work.connection, task.task_id):
            if child["status"] == "finished":
                retry = Command("retry", child["task_id"], {}, f"its parent {task.task_id} is retried")
                await self.execute(work, retry, caller)

    async def _change_split_rule(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """A rule that may change while the task lives; what waits may go on with the new one."""
        changes = dict(command.details.get("rules") or {})
        problems = await self._changes.live(work, task, changes)
        if problems:
            return rules.Reply(rules.BAD_VALUE, "; ".join(str(one) for one in problems), problems)
        await self._tasks.note_command(work.connection, task.task_id, command.verb, command.details)
        if task.status == "pending":
            await self._tasks.release_now(work.connection, task.task_id)
        changed = ", ".join(
            f"without {name}" if value is None else f"{name} = {value}" for name, value in sorted(changes.items())
        )
        return rules.Reply(rules.OK, f"task {task.task_id}: {changed}, from its next jobs on")

    async def _reload_input(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """Incremental execution: the input is read again, lost and missing files are tried again."""
        if task.status == "pending":
            await self._tasks.release_now(work.connection, task.task_id)
            return rules.Reply(rules.OK, f"task {task.task_id} looks at its input now")
        await self._tasks.move(work, task.task_id, "toincexec", reason)
        await self._store.reopen_files(work, task.task_id, REOPENED_BY_RELOAD, more=MORE_ATTEMPTS, reason=reason)
        await self._catalogue.reopen(work.connection, await self._store.reopen_datasets(work.connection, task.task_id))
        await self._store.renew(work.connection, task.task_id)
        await self._tasks.move(work, task.task_id, "rerefine", reason)
        reply = await self._announce(work, task, command, "rerefine")
        work.emit(TaskRegistered(task_id=task.task_id))
        return reply

    async def _reassign(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """To a site, cloud or nucleus, or to wherever the task brokerage sends it."""
        details = command.details
        given = {key: str(details[key]) for key in ("site", "cloud", "nucleus") if details.get(key)}
        if len(given) > 1:
            return rules.Reply(
                rules.BAD_VALUE, f"allowed: one of site, cloud, nucleus; given: {', '.join(sorted(given))}"
            )
        grid = await self._grid.grid(work.connection)
        for key, name in given.items():
            if key == "nucleus" and not grid.has_nucleus(name):
                return rules.refused_value(key, name, "not a nucleus of the grid")
            if key == "site" and not grid.has_place(name):
                return rules.refused_value(key, name, "not a site or queue of the grid")
        behind = rules.status_to_return_to(task.status, task.old_status)
        await self._tasks.move(work, task.task_id, "toreassign", reason, old_status=behind)
        await self._store.change(
            work.connection,
            task.task_id,
            split_rule=task.split_rule,
            site=given.get("site", task.site),
            cloud=given.get("cloud", task.cloud),
            nucleus=given.get("nucleus", task.nucleus if given else None),
        )
        await self._tasks.move(work, task.task_id, "reassigning", reason, old_status=behind)
        soft = bool(details.get("soft", True))
        noted = {"target": next(iter(given.values()), None), "soft": soft}
        command = Command(command.verb, command.task_id, noted, command.reason)
        reply = await self._announce(work, task, command, "reassigning", soft=soft)
        moved = await self._tasks.lock(work.connection, task.task_id)
        assert moved is not None
        await self._settle(work, moved)
        return reply

    async def _increase_attempts(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        more = command.details.get("increase", MORE_ATTEMPTS)
        if type(more) is not int or not 1 <= more <= 100:
            return rules.refused_value("increase", more, "allowed: a whole number from 1 to 100")
        await self._store.raise_attempts(work.connection, task.task_id, more)
        reopened = await self._store.reopen_files(work, task.task_id, REOPENED_BY_RETRY, more=more, reason=reason)
        await self._announce(work, task, command, task.status)
        if reopened:
            emitted = TaskReleased(task_id=task.task_id, status=task.status, reason=reason, released_at=work.now)
            work.emit(emitted)
        return rules.Reply(rules.OK, f"task {task.task_id}: {more} more attempts, {rules.units(reopened)} re-opened")

    async def _announce(
        self, work: UnitOfWork, task: TaskRow, command: Command, status: TaskStatus, *, soft: bool = False
    ) -> rules.Reply:
        """Remember the command with the task, and tell the others."""
        await self._tasks.note_command(work.connection, task.task_id, command.verb, command.details)
        work.emit(TaskCommanded(task_id=task.task_id, command=command.verb, status=status, soft=soft))
        return rules.Reply(rules.OK, f"command {command.verb} accepted; task {task.task_id} is {status}")
