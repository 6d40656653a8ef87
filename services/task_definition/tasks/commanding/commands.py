"""The way in for commands on tasks, of people and of other services.

A refused command changes nothing but is recorded too.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime

from services.task_definition.data.wishing import Wishes
from services.task_definition.desk.store.audit import audit
from services.task_definition.tasks.commanding.changing import Changes
from services.task_definition.tasks.commanding.command import SYSTEM, Command, Execute, Settle
from services.task_definition.tasks.commanding.holding import Holding
from services.task_definition.tasks.commanding.live_changes import LiveChanges
from services.task_definition.tasks.commanding.ordering import CHANGES, change_order
from services.task_definition.tasks.commanding.permitting import refusal_of
from services.task_definition.tasks.commanding.reassigning import Reassigning
from services.task_definition.tasks.commanding.recovering import Recovery
from services.task_definition.tasks.commanding.retrying import MORE_ATTEMPTS, TaskRetries
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy import owners
from services.task_definition.tasks.policy.command_table import named
from services.task_definition.tasks.policy.final_status import parent_is_corrupted
from services.task_definition.tasks.reclassifying import reclassify
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.archived import archived_task
from services.task_definition.tasks.store.tasks import TaskRow
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.catalogue.port import Catalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCommanded, TaskCommandRequested, TaskCompleted
from shared.snapshot import KnownGrid
from shared.states.task import ACTIVE, TaskStatus

log = logging.getLogger(__name__)
#: what may change by which class of work, share and work queue are found
_CHANGE_ATTRIBUTES = frozenset({"retry", "incexec", "reassign", "change_split_rule", "change_attribute"})
#: children in other states go on by themselves, or stay as they are
REOPENED_WITH_PARENT: tuple[TaskStatus, ...] = ("done", "finished", "exhausted")
#: what of a retry holds for the children too
_PASSED_ON = ("keep_gshare_priority",)


class Commands:
    """Checks a command, has it carried out, and records it."""

    def __init__(
        self,
        changes: Changes,
        settle: Settle,
        catalogue: Catalogue,
        wishes: Wishes,
        grid: KnownGrid,
        parameters: Parameters,
    ) -> None:
        self._parameters = parameters
        retries = TaskRetries(changes, catalogue, wishes, grid, parameters, self._retry_children)
        self.work_off = retries.slices.work_off
        self._verbs: dict[str, Execute] = {
            **Holding(retries.slices).verbs(),
            **retries.verbs(),
            **Reassigning(grid, settle).verbs(),
            **Recovery(catalogue, wishes).verbs(),
            **changes.verbs(),
            **LiveChanges(changes).verbs(),
        }

    async def execute(self, work: UnitOfWork, command: Command, caller: Caller) -> rules.Reply:
        """Carry out one command, or refuse it with the code of the API; both are recorded."""
        command = replace(command, by=caller)
        task = await store.lock(work, command.task_id)
        if task is None:
            reply: rules.Reply | None = await self._unknown(work, command.task_id)
        else:
            reply = refusal_of(task, command.verb, command.details, caller)
        if reply is None and task is not None and not caller.may_for(task.vo, "production"):
            reply = await self._owner_refusal(work, task, command)
        if reply is None:
            assert task is not None
            if caller is not SYSTEM:  # which acts for whoever gave the first command
                command = replace(command, by_production=caller.may_for(task.vo, "production"))
            reply = await self._carry_out(work, task, command, caller)
        await audit(
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
            reply = await change_order(work, task, command.verb, command.details, caller)
            if reply.accepted:  # the task stays what it is and keeps the command that it had before
                work.emit(TaskCommanded(task_id=task.task_id, command=command.verb, status=task.status))
            return reply
        reason = f"{command.verb} by {caller.name}" + (f": {command.reason}" if command.reason else "")
        reply = await self._verbs[command.verb](work, task, command, reason)
        if reply.accepted and command.verb in _CHANGE_ATTRIBUTES:
            await reclassify(work, task.task_id)
        if reply.accepted and command.verb == "kill":
            by_right_of_owner = not caller.may_for(task.vo, "production")
            await store_commands.note_killer(work, task.task_id, caller.name if by_right_of_owner else None)
        if reply.accepted:
            hold = owners.hold_after(
                command.verb,
                _hold_of(task),
                caller.name,
                task.retry_at if task.status == "throttled" else None,
                is_owner=access.OWN.allows(caller, Whose(task.user_name, task.vo)),
                is_system=caller.source == SYSTEM.source,
            )
            await store_commands.note_hold(work, task.task_id, *_columns_of(hold))
        return reply

    async def on_task_command_requested(self, event: TaskCommandRequested, work: UnitOfWork) -> None:
        """Another service asks; a refusal means that the task has moved on meanwhile."""
        asked = named(event.command)
        if asked is None or asked.name not in self._verbs:
            log.error("unknown command %r requested by %s", event.command, event.requested_by)
            return
        details = {"soft": True} if asked.name == "finish" else {}
        caller = replace(SYSTEM, name=event.requested_by)
        await self.execute(work, Command(asked.name, event.task_id, details, event.reason), caller)

    async def on_task_completed(self, event: TaskCompleted, work: UnitOfWork) -> None:
        """Children of a corrupted task are killed; those of any other need not wait longer.

        What a user killed takes along their own children alone. One that finished before its parent did is fed what the
        parent made since.
        """
        if event.status == "exhausted":
            return
        is_corrupted = parent_is_corrupted(event.status)
        if is_corrupted and not parent_is_corrupted(await store.status(work.connection, event.task_id)):
            return  # this came late: it was tried again meanwhile
        killer = await store_commands.killer(work, event.task_id) if event.status == "aborted" else None
        for child in await store.children(work, event.task_id):
            child_id = child["task_id"]
            if is_corrupted:
                await self._end_child(work, event, child_id, child["status"], child["user_name"], killer)
            elif child["status"] == "pending":
                await store.release_now(work, child_id)
            elif (
                child["status"] == "finished"
                and child["hold"] is None
                and await store.has_food(work, event.task_id, child_id)
            ):
                feed = Command("incexec", child_id, {}, f"its parent {event.task_id} made more input for it")
                await self.execute(work, feed, SYSTEM)

    async def _end_child(
        self, work: UnitOfWork, ended: TaskCompleted, child_id: int, status: TaskStatus, owner: str, killer: str | None
    ) -> None:
        """Kill a child, unless only a user wanted the end of the parent, who may not command the child.

        That one works on with what it has of its input.
        """
        reason = f"its parent {ended.task_id} ended {ended.status}"
        if status not in rules.ACCEPTED["kill"]:
            return
        if killer in (None, owner):
            await self.execute(work, Command("kill", child_id, {}, reason), SYSTEM)
            await store_commands.note_killer(work, child_id, killer)
            return
        said = f"{reason} by {killer}, who may not command it: it goes on"
        await self._note_refusal(work, "kill", child_id, ended.task_id, said)

    async def _note_refusal(self, work: UnitOfWork, verb: str, child_id: int, parent_id: int, said: str) -> None:
        """Record that a child does not follow its parent."""
        target, details = f"task:{child_id}", {"parent": parent_id}
        await audit(
            work.connection,
            caller=SYSTEM,
            verb=f"task.{verb}",
            target=target,
            outcome=f"refused: {said}",
            details=details,
        )

    async def _unknown(self, work: UnitOfWork, task_id: int) -> rules.Reply:
        """Say that there is no such task, or that it is in the archive alone."""
        archived = await archived_task(work.connection, task_id)
        if archived is None:
            return rules.Reply(rules.NOT_FOUND, f"task {task_id} not found")
        told = f"task {task_id} ended as {archived.status} and was archived on {archived.archived_at:%Y-%m-%d}"
        return rules.Reply(rules.NOT_FOUND, f"{told}: no command can change it; submit it again under another name")

    async def _owner_refusal(self, work: UnitOfWork, task: TaskRow, command: Command) -> rules.Reply | None:
        """What production has to decide about a task of one's own."""
        said = owners.held_back(command.verb, task.status, _hold_of(task), work.now)
        if said is None and command.verb in owners.GIVING_ATTEMPTS:
            said = await self._too_many_attempts(work, task.task_id, task.vo, _more_attempts(task, command))
        return None if said is None else rules.Reply(rules.NOT_PERMITTED, said)

    async def _too_many_attempts(self, work: UnitOfWork, task_id: int, vo: str, more: int) -> str | None:
        limit = self._parameters.read(owners.MOST_ATTEMPTS_BY_OWNER, vo=vo)
        return owners.too_many_attempts(await store_commands.attempts_of_units(work, task_id), more, limit)

    async def _child_refusal(self, work: UnitOfWork, parent: TaskRow, owner: str, command: Command) -> str | None:
        """Why the owner of a parent does not have a child tried again; None where they may."""
        if owner != parent.user_name:
            return f"it is not of {parent.user_name}"
        return await self._too_many_attempts(work, command.task_id, parent.vo, MORE_ATTEMPTS)

    async def _retry_children(self, work: UnitOfWork, task: TaskRow, command: Command) -> None:
        """Re-open children that ended, and theirs; aborted, broken and failed ones stay, or all if that is asked for.

        What production ended goes on by production alone, and what is somebody else's; without production no unit of
        theirs gets more attempts than its owner may give.

        They read their input again when the parent has ended, or follow it at once (noWaitParent), so that they are fed
        what it makes now. Those that have not ended look at their input now. Source: JEDI: Task retry.
        """
        if command.details.get("no_child_retry"):
            return
        kept = {name: command.details[name] for name in _PASSED_ON if command.details.get(name)}
        for child in await store.children(work, task.task_id):
            if child["status"] in REOPENED_WITH_PARENT and (child["hold"] is None or command.by_production):
                reason = f"its parent {task.task_id} is retried"
                again = Command("incexec", child["task_id"], kept, reason, by_production=command.by_production)
                said = (
                    None if command.by_production else await self._child_refusal(work, task, child["user_name"], again)
                )
                if said is None:
                    await self.execute(work, again, SYSTEM)
                else:
                    await self._note_refusal(work, again.verb, again.task_id, task.task_id, f"{reason}: {said}")
            elif child["status"] in ACTIVE:
                await store.look_at_input(work, child["task_id"])


def _hold_of(task: TaskRow) -> owners.Hold | None:
    return None if task.hold is None else owners.Hold(task.hold, task.held_until)


def _columns_of(hold: owners.Hold | None) -> tuple[str | None, datetime | None]:
    return (None, None) if hold is None else (hold.reason, hold.until)


def _more_attempts(task: TaskRow, command: Command) -> int:
    """How many more attempts a command gives to each unit of input."""
    if command.verb == "reactivate":
        return 0 if command.details.get("keep_attempt_nr") or task.status == "pending" else task.max_attempt
    if command.verb == "increase_attempts":
        more = command.details.get("increase", MORE_ATTEMPTS)
        return more if type(more) is int else 0
    return 0 if task.status == "pending" else MORE_ATTEMPTS
