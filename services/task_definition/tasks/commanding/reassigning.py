"""reassign: to a site, cloud or nucleus, or to wherever the task brokerage sends the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.task_definition.tasks.commanding.command import Command, Execute, Settle, announce
from services.task_definition.tasks.commanding.reassigned import leave_reassigning, tell_reassigned
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.task_parameters.kinds import NO_OTHER_CLOUD, WORLD
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.db.unit_of_work import UnitOfWork
from shared.snapshot import KnownGrid

_PLACES = ("site", "cloud", "nucleus")


class Reassigning:
    """Sends tasks elsewhere; their jobs end first, unless they are to go on."""

    def __init__(self, grid: KnownGrid, settle: Settle) -> None:
        self._grid, self._settle = grid, settle

    def verbs(self) -> dict[str, Execute]:
        """What it carries out."""
        return {"reassign": self._reassign}

    async def _reassign(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        given = {key: str(command.details[key]) for key in _PLACES if command.details.get(key)}
        mode = rules.reassignment_mode(command.details)
        wrong = mode if isinstance(mode, rules.Reply) else await self._wrong_target(work, given)
        if wrong is not None:
            return wrong
        behind = rules.status_to_return_to(task.status, task.old_status)
        await store.move(work, task.task_id, "toreassign", reason, old_status=behind)
        await store_commands.change(
            work,
            task.task_id,
            split_rule=task.split_rule,
            site=given.get("site", task.site),
            cloud=given.get("cloud", task.cloud),
            nucleus=given.get("nucleus", task.nucleus if given else None),
        )
        await store.move(work, task.task_id, "reassigning", reason, old_status=behind)
        noted = {"target": next(iter(given.values()), None), "soft": mode == "soft", "mode": mode}
        noted_command = Command(command.verb, command.task_id, noted, command.reason)
        moved = await store.lock(work, task.task_id)
        assert moved is not None
        if mode == "nokill":
            return await self._go_on(work, moved, noted_command, reason, has_target=bool(given))
        reply = await announce(work, task, noted_command, "reassigning", soft=mode == "soft")
        moved = await store.lock(work, task.task_id)
        assert moved is not None
        await self._settle(work, moved)
        return reply

    async def _wrong_target(self, work: UnitOfWork, given: Mapping[str, Any]) -> rules.Reply | None:
        if len(given) > 1:
            return rules.Reply(
                rules.BAD_VALUE, f"allowed: one of site, cloud, nucleus; given: {', '.join(sorted(given))}"
            )
        grid = await self._grid.grid(work.connection)
        for key, name in given.items():
            if key == "cloud" and name != WORLD:
                return rules.refused_value(key, name, NO_OTHER_CLOUD)
            if key == "nucleus" and not grid.has_nucleus(name):
                return rules.refused_value(key, name, "not a nucleus of the grid")
            if key == "site" and not grid.has_place(name):
                return rules.refused_value(key, name, "not a site or queue of the grid")
        return None

    async def _go_on(
        self, work: UnitOfWork, task: TaskRow, command: Command, reason: str, *, has_target: bool
    ) -> rules.Reply:
        """Its jobs go on where they are: it is never seen while it is being reassigned, so that nobody stops them."""
        target = await leave_reassigning(work, task, reason, has_target=has_target)
        assert target is not None, "its row is held"
        reply = await announce(work, task, command, target)
        await store.note_command(work, task.task_id, None)
        tell_reassigned(work, task, target, reason)
        return reply
