"""The way in for commands on tasks, of people and of other services.

A refused command changes nothing but is recorded too.
"""

from __future__ import annotations

import logging

from services.task_definition.cataloguing.wishes import Wishes
from services.task_definition.commanding.changing import Changes
from services.task_definition.commanding.command import Command, Execute, Settle
from services.task_definition.commanding.holding import Holding
from services.task_definition.commanding.ordering import CHANGES, Ordering
from services.task_definition.commanding.reassigning import Reassigning
from services.task_definition.commanding.recovering import Recovery
from services.task_definition.commanding.retrying import TaskRetries
from services.task_definition.policy import commands as rules
from services.task_definition.policy.command_table import named
from services.task_definition.policy.final_status import parent_is_corrupted
from services.task_definition.reclassifying import Reclassifying
from services.task_definition.store.commands import CommandStore
from services.task_definition.store.tasks import TaskRow, TaskStore
from shared.auth import Caller
from shared.catalogue.port import Catalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommanded, TaskCommandRequested, TaskCompleted
from shared.model.analysis import is_analysis
from shared.snapshot import KnownGrid
from shared.states.task import TaskStatus

log = logging.getLogger(__name__)
#: what may change by which class of work, share and work queue are found
_CHANGE_ATTRIBUTES = frozenset({"retry", "incexec", "reassign", "change_split_rule"})
#: children in other states go on by themselves, or stay as they are
REOPENED_WITH_PARENT: tuple[TaskStatus, ...] = ("done", "finished", "exhausted")
_SYSTEM = Caller("task_definition", frozenset({"operator"}), frozenset())


class Commands:
    """Checks a command, has it carried out, and records it."""

    def __init__(
        self,
        tasks: TaskStore,
        store: CommandStore,
        settle: Settle,
        catalogue: Catalogue,
        wishes: Wishes,
        grid: KnownGrid,
        parameters: Parameters,
    ) -> None:
        self._tasks, self._reclassifying = tasks, Reclassifying(tasks)
        changes = Changes(tasks, store)
        self._ordering = Ordering(tasks, store)
        self._verbs: dict[str, Execute] = {
            **Holding(tasks, store).verbs(),
            **TaskRetries(tasks, store, changes, catalogue, wishes, grid, parameters, self._retry_children).verbs(),
            **Reassigning(tasks, store, grid, settle).verbs(),
            **Recovery(tasks, store, catalogue, wishes).verbs(),
            **changes.verbs(),
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
        reply = await self._verbs[command.verb](work, task, command, reason)
        if reply.accepted and command.verb in _CHANGE_ATTRIBUTES:
            await self._reclassifying.again(work, task.task_id)
        return reply

    async def on_task_command_requested(self, event: TaskCommandRequested, work: UnitOfWork) -> None:
        """Another service asks; a refusal means that the task has moved on meanwhile."""
        asked = named(event.command)
        if asked is None or asked.name not in self._verbs:
            log.error("unknown command %r requested by %s", event.command, event.requested_by)
            return
        details = {"soft": True} if asked.name == "finish" else {}
        caller = Caller(event.requested_by, frozenset({"operator"}), frozenset())
        await self.execute(work, Command(asked.name, event.task_id, details, event.reason), caller)

    async def on_task_completed(self, event: TaskCompleted, work: UnitOfWork) -> None:
        """Children of a corrupted task are killed; those of any other need not wait longer.

        One that finished before its parent did is fed what the parent made since.
        """
        if event.status == "exhausted":
            return
        is_corrupted = parent_is_corrupted(event.status)
        if is_corrupted and not parent_is_corrupted(await self._tasks.status(work.connection, event.task_id)):
            return  # this came late: it was tried again meanwhile
        for child in await self._tasks.children(work.connection, event.task_id):
            child_id = child["task_id"]
            if is_corrupted:
                reason = f"its parent {event.task_id} ended {event.status}"
                if child["status"] in rules.ACCEPTED["kill"]:
                    await self.execute(work, Command("kill", child_id, {}, reason), _SYSTEM)
            elif child["status"] == "pending":
                await self._tasks.release_now(work.connection, child_id)
            elif child["status"] == "finished" and await self._tasks.has_food(work.connection, event.task_id, child_id):
                feed = Command("incexec", child_id, {}, f"its parent {event.task_id} made more input for it")
                await self.execute(work, feed, _SYSTEM)

    def _refusal(self, task: TaskRow | None, command: Command, caller: Caller) -> rules.Reply | None:
        if task is None:
            return rules.Reply(rules.NOT_FOUND, f"task {command.task_id} not found")
        if not caller.is_of(task.vo) and not caller.may("operator"):
            return rules.Reply(rules.NOT_PERMITTED, f"task {task.task_id} is of the VO {task.vo}")
        if not caller.may_for(task.vo, "production"):
            if caller.name != task.user_name:
                return rules.Reply(rules.NOT_PERMITTED, f"task {task.task_id} belongs to {task.user_name}")
            for_analysis = is_analysis(task.task_type, task.prod_source_label)
            missing = rules.needs_production(command.verb, task.status, command.details, is_analysis=for_analysis)
            if missing is not None:
                return rules.Reply(rules.NOT_PERMITTED, missing)
        refused = rules.refuse(command.verb, task.status)
        return None if refused is None else rules.Reply(refused.code, refused.reason)

    async def _retry_children(self, work: UnitOfWork, task: TaskRow, command: Command) -> None:
        """Re-open children that ended; aborted, broken and failed ones stay, or all if that is asked for.

        They read their input again when the parent has ended, or follow it at once (noWaitParent), so that they are fed
        what it makes now. Those that have not ended look at their input anyway. Source: JEDI: Task retry.
        """
        if command.details.get("no_child_retry"):
            return
        for child in await self._tasks.children(work.connection, task.task_id):
            if child["status"] in REOPENED_WITH_PARENT:
                again = Command("incexec", child["task_id"], {}, f"its parent {task.task_id} is retried")
                await self.execute(work, again, _SYSTEM)
