"""Input that a command opens again, in slices: some thousand units in each transaction.

A task may have a million units. In one transaction its row would be locked for most of a minute, and the request would
wait as long; in slices nobody does. The first is part of the request; a row in `reopenings` remembers what is left. The
task stays in the state of its command until the last slice. Source: JEDI: Task retry and resubmission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from services.task_definition.tasks.commanding.command import Command
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.store import reopenings as store_reopenings
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.reopenings import Kind, Reopening, ReopenStep
from services.task_definition.tasks.store.tasks import TaskRow
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskReleased
from shared.states.task import ACTIVE, TaskStatus

#: in which states of the task a command of each kind goes on
IN_FORCE: Mapping[Kind, frozenset[TaskStatus]] = {
    "retry": frozenset({"toretry"}),
    "read_again": frozenset({"toincexec"}),
    "live": frozenset({*ACTIVE, "toreassign", "reassigning"}),
}
#: what follows when all input is open again: the task as it was before the command, and what was re-opened
GoOn = Callable[[UnitOfWork, TaskRow, Command, str, Reopening], Awaitable[rules.Reply]]


@dataclass(frozen=True)
class Begun:
    """What the first slice did; `reply` where the rest is left to later ones."""

    reopening: Reopening
    reply: rules.Reply | None


class UnitSlices:
    """`begin` takes the first slice, `work_off` the others; `go_on` by kind is what follows the last."""

    def __init__(self, go_on: Mapping[Kind, GoOn]) -> None:
        self._go_on = go_on

    async def begin(
        self,
        work: UnitOfWork,
        task: TaskRow,
        command: Command,
        reason: str,
        kind: Kind,
        steps: tuple[ReopenStep, ...],
        *,
        n_left: int = 0,
    ) -> Begun:
        """The first units; `task` is what it was before the command, its row is locked."""
        reopening = Reopening(
            task.task_id, kind, task.status, command.verb, dict(command.details), reason, command.by_production, steps,
            await store_reopenings.last_unit(work, task.task_id), n_left,
        )  # fmt: skip
        reopening, is_more = await store_reopenings.advance(work, reopening, store_reopenings.SLICE)
        if not is_more:
            return Begun(reopening, None)
        await store_reopenings.keep(work, reopening)
        said = f"{command.verb}: {rules.units(reopening.n_reopened)} re-opened so far, the others follow"
        await store_reopenings.say(work, task.task_id, said)
        return Begun(reopening, rules.Reply(rules.OK, f"task {task.task_id}: {said}"))

    async def work_off(self, work: UnitOfWork) -> bool:
        """Periodic: the next slice of the command that waited longest; whether there was one."""
        reopening = await store_reopenings.next_in_turn(work)
        if reopening is None:
            return False
        task = await store.lock(work, reopening.task_id)
        if task is None or task.status not in IN_FORCE[reopening.kind]:
            await store_reopenings.end(work, reopening)
            return True
        before = reopening.n_reopened
        reopening, is_more = await store_reopenings.advance(work, reopening, store_reopenings.SLICE)
        # after the last slice the task may have nothing left to do, for which it waited
        if reopening.kind == "live" and (reopening.n_reopened > before or not is_more):
            released(work, task, reopening.reason)
        if is_more:
            await store_reopenings.keep(work, reopening)
            said = f"{reopening.verb}: {rules.units(reopening.n_reopened)} re-opened so far, the others follow"
            await store_reopenings.say(work, task.task_id, said)
            return True
        await store_reopenings.end(work, reopening)
        if reopening.kind in self._go_on:
            command = Command(reopening.verb, task.task_id, reopening.details, by_production=reopening.by_production)
            before_it = replace(task, status=reopening.came_from, error_dialog=None)
            await self._go_on[reopening.kind](work, before_it, command, reopening.reason, reopening)
        return True


def released(work: UnitOfWork, task: TaskRow, reason: str) -> None:
    """A live task may have more to do than before."""
    work.emit(TaskReleased(task_id=task.task_id, status=task.status, reason=reason, released_at=work.now))
